"""How much memory a process takes, and how much it may take."""

from __future__ import annotations

from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def resident() -> float:
    """Return the bytes of memory that this process takes now."""
    return float(psutil.Process().memory_info().rss)


def available() -> float:
    """Return the bytes that the machine, or the container, still has."""
    return min(float(psutil.virtual_memory().available), _left_in_container())


def _left_in_container() -> float:
    try:
        most = float((_CGROUP / "memory.max").read_text())
        return most - float((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):  # no such limit
        return float("inf")
