"""A fitted model looked at: what its inputs do, and pictures as Display objects.

terms (the model as products over groups of inputs) ─► partial dependence, importance ─► displays
"""

from polyadic.inspection._dependence_display import PartialDependenceDisplay
from polyadic.inspection._displays import (
    ConvergenceDisplay,
    FeatureWeightsDisplay,
    InputRelevanceDisplay,
    PredictionDisplay,
    SelectionDisplay,
    describe_kernel,
    short_name,
)
from polyadic.inspection._importance import (
    InputEffects,
    input_effects,
    permutation_importance,
)
from polyadic.inspection._interactions import interaction_strengths
from polyadic.inspection._numbers import write_number, write_part, write_tick
from polyadic.inspection._partial import PartialDependence, partial_dependence

__all__ = [
    "ConvergenceDisplay",
    "FeatureWeightsDisplay",
    "InputEffects",
    "InputRelevanceDisplay",
    "PartialDependence",
    "PartialDependenceDisplay",
    "PredictionDisplay",
    "SelectionDisplay",
    "describe_kernel",
    "input_effects",
    "interaction_strengths",
    "partial_dependence",
    "permutation_importance",
    "short_name",
    "write_number",
    "write_part",
    "write_tick",
]
