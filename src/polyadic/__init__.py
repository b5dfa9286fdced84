"""Kernel regression without a kernel matrix and without a search for hyperparameters."""

from polyadic._version import __version__
from polyadic.estimators import (
    FeatureLearningRegressor,
    KernelMachineRegressor,
    KernelMachineRegressorCV,
)
from polyadic.estimators.saving import load, save
from polyadic.sources.files.row_source import open_rows

__all__ = [
    "FeatureLearningRegressor",
    "KernelMachineRegressor",
    "KernelMachineRegressorCV",
    "__version__",
    "load",
    "open_rows",
    "save",
]
