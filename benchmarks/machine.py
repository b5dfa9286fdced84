"""The machine under measurement: what it is, its bandwidth, its BLAS rate."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.common import median_time


def processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def describe() -> dict[str, Any]:
    """Return the names and versions that a result depends on."""
    import numba
    import scipy
    import sklearn

    return {
        "cpu": processor(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "numba": numba.__version__,
        "bandwidth_GB_s": bandwidth(),
        "blas_GF_s": blas_rate(1024, 1024),
    }


def bandwidth() -> float:
    """Return GB/s that one thread reads and writes, an array larger than caches in place."""
    array = np.ones(2**25)
    return 2 * array.nbytes / median_time(lambda: np.multiply(array, 1.0, out=array), 5) / 1e9


def blas_rate(columns: int, rows: int, dtype: Any = np.float64) -> float:
    """Return the rate of M Mᵀ in billions of sums a second, as the engine counts them."""
    M: NDArray[Any] = np.random.default_rng(0).standard_normal((columns, rows)).astype(dtype)
    with threadpool_limits(1):
        return columns**2 * rows / median_time(lambda: M @ M.T, 9) / 1e9
