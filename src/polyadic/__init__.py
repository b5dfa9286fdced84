"""Kernel regression without a kernel matrix and without a search for hyperparameters."""

from polyadic.estimators import (
    FeatureLearningRegressor,
    KernelMachineRegressor,
    KernelMachineRegressorCV,
)
from polyadic.sources.files.row_source import open_rows
from polyadic.storage.model_file import load, save

from polyadic._version import __version__

__all__ = [
    "FeatureLearningRegressor",
    "KernelMachineRegressor",
    "KernelMachineRegressorCV",
    "__version__",
    "load",
    "open_rows",
    "save",
]
