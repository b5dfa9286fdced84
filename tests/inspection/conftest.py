"""Pictures of a test are closed after it."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _close_pictures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
