"""Pictures of a fitted model, as Display objects in scikit-learn's manner."""

from polyadic.inspection._displays import (
    ConvergenceDisplay,
    FeatureWeightsDisplay,
    PartialDependenceDisplay,
    PredictionDisplay,
    short_name,
)
from polyadic.inspection._partial import PartialDependence, partial_dependence

__all__ = [
    "ConvergenceDisplay",
    "FeatureWeightsDisplay",
    "PartialDependence",
    "PartialDependenceDisplay",
    "PredictionDisplay",
    "partial_dependence",
    "short_name",
]
