"""Every test of the command has an empty folder to itself, and is in it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path
