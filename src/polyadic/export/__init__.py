"""Fitted estimators for elsewhere: a graph of ONNX that predicts without this package.

columns ─► rows as a member sees them ─► factors ─► products, and their sum ─► link
"""

from polyadic.export._files import onnx_inputs, to_onnx
from polyadic.export._pipelines import register_skl2onnx

__all__ = ["onnx_inputs", "register_skl2onnx", "to_onnx"]
