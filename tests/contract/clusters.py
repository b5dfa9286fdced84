"""A Dask cluster that lives in this process."""

from __future__ import annotations

import atexit
from functools import cache

import pytest


@cache
def client():
    """Return a client of two threads, which pass chunks without copying them."""
    distributed = pytest.importorskip("distributed", reason="needs polyadic[dask]")
    opened = distributed.Client(
        processes=False,
        n_workers=1,
        threads_per_worker=2,
        dashboard_address=":0",
        set_as_default=False,
    )
    atexit.register(opened.close)
    return opened
