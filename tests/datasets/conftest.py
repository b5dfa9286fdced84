"""Data sets are kept in a folder of the test, whatever the machine has."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("POLYADIC_DATA", raising=False)
    return tmp_path / "cache" / "polyadic"
