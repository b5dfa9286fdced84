"""The PyTorch engine: plain PyTorch for any layout, Triton kernels for large fits."""
