"""The scikit-learn face: validation and translation, no arithmetic."""

from polyadic.estimators.classifiers import FeatureLearningClassifier, KernelMachineClassifier
from polyadic.estimators.feature_learning import FeatureLearningRegressor
from polyadic.estimators.kernel_machine import KernelMachineRegressor, KernelMachineRegressorCV

__all__ = [
    "FeatureLearningClassifier",
    "FeatureLearningRegressor",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelMachineRegressorCV",
]
