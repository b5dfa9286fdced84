"""How much memory a process takes, and how much it may take."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Where Linux tells; elsewhere psutil does, and where that is missing the peak stands in.
_STATM, _MEMINFO = Path("/proc/self/statm"), Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def resident() -> float:
    """Return the bytes of memory that this process takes now."""
    try:
        return float(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        pass
    try:
        import psutil

        return float(psutil.Process().memory_info().rss)
    except ImportError:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def available() -> float:
    """Return the bytes that the machine, or the container, still has."""
    return min(_of_machine(), _of_container())


def _of_machine() -> float:
    try:
        lines = _MEMINFO.read_text().splitlines()
        found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
        return float(found[0]) * 1024
    except (OSError, IndexError):
        pass
    try:
        import psutil

        return float(psutil.virtual_memory().available)
    except ImportError:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) / 2


def _of_container() -> float:
    try:
        most = float((_CGROUP / "memory.max").read_text())
        return most - float((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):  # no such limit
        return float("inf")
