"""The compiled engine: numba kernels, one chunk at a time."""
