"""Feature maps, and how those of all inputs become one tensor."""

from polyadic.features.layout import Plain, Quantized, TensorLayout
from polyadic.features.maps import (
    DampedFourierFeatures,
    FeatureMap,
    FourierFeatures,
    GaussianFeatures,
    GeometricFeatures,
    PurePowerFeatures,
)

__all__ = [
    "DampedFourierFeatures",
    "FeatureMap",
    "FourierFeatures",
    "GaussianFeatures",
    "GeometricFeatures",
    "Plain",
    "PurePowerFeatures",
    "Quantized",
    "TensorLayout",
]
