"""Kernel regression without a kernel matrix and without a search for hyperparameters.

What is public is imported when it is first asked for, so that a command that only shows its help
does not wait for scikit-learn.  Type checkers read `__init__.pyi`.
"""

from importlib import import_module

from polyadic._version import __version__

# Where the public names are.
_NAMES = {
    "FeatureLearningClassifier": "estimators",
    "FeatureLearningRegressor": "estimators",
    "KernelMachineClassifier": "estimators",
    "KernelMachineRegressor": "estimators",
    "KernelMachineRegressorCV": "estimators",
    "load": "estimators.saving",
    "onnx_inputs": "export",
    "open_rows": "sources.files.opening",
    "save": "estimators.saving",
    "to_onnx": "export",
}
_SUBPACKAGES = ("datasets", "experiments", "export", "features", "inspection", "report")

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


def __getattr__(name: str) -> object:
    """Import a public name or sub-package when it is first asked for."""
    if name in _SUBPACKAGES:
        return import_module(f"polyadic.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module 'polyadic' has no attribute {name!r}")
    found: object = getattr(import_module(f"polyadic.{_NAMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Show what is public; modules that were imported on the way are not."""
    return sorted([*__all__, *_SUBPACKAGES])
