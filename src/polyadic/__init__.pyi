"""What is public, for type checkers; `__init__.py` imports it when it is asked for."""

from polyadic import datasets, experiments, export, features, inspection, report
from polyadic._version import __version__
from polyadic.estimators import (
    FeatureLearningClassifier,
    FeatureLearningRegressor,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelMachineRegressorCV,
)
from polyadic.estimators.saving import load, save
from polyadic.export import onnx_inputs, to_onnx
from polyadic.sources.files.opening import open_rows

__all__ = [
    "FeatureLearningClassifier",
    "FeatureLearningRegressor",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelMachineRegressorCV",
    "__version__",
    "datasets",
    "experiments",
    "export",
    "features",
    "inspection",
    "load",
    "onnx_inputs",
    "open_rows",
    "report",
    "save",
    "to_onnx",
]
