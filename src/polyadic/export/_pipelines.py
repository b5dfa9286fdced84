"""Estimators inside pipelines of scikit-learn, which skl2onnx turns into graphs."""
