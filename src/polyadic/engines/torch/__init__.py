"""The PyTorch engine: plain PyTorch for any layout, Triton kernels for quantized complex ones."""
