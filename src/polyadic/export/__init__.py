"""Fitted estimators for elsewhere: a graph of ONNX that predicts without this package.

columns ─► rows as a member sees them ─► factors ─► products, and their sum ─► link
"""

from polyadic.export._files import onnx_inputs, to_onnx

__all__ = ["onnx_inputs", "to_onnx"]
