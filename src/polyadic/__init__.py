"""Kernel regression without a kernel matrix and without a search for hyperparameters."""

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
    "load",
    "onnx_inputs",
    "open_rows",
    "save",
    "to_onnx",
]

_SUBPACKAGES = ("datasets", "experiments", "export", "features", "inspection")


def __getattr__(name: str) -> object:
    """Import a public sub-package when it is first asked for."""
    if name in _SUBPACKAGES:
        from importlib import import_module

        return import_module(f"polyadic.{name}")
    raise AttributeError(f"module 'polyadic' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Show what is public; modules that were imported on the way are not."""
    return sorted([*__all__, *_SUBPACKAGES])
