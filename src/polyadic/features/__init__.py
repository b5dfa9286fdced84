"""Feature maps, and how those of all inputs become one tensor."""

from polyadic.features.layout import Plain, Quantized, Tabled, TensorLayout, Unused
from polyadic.features.maps import (
    DampedFourierFeatures,
    FeatureMap,
    FourierFeatures,
    GaussianFeatures,
    GeometricFeatures,
    MercerFeatures,
    PurePowerFeatures,
)
from polyadic.features.tables import Table

__all__ = [
    "DampedFourierFeatures",
    "FeatureMap",
    "FourierFeatures",
    "GaussianFeatures",
    "GeometricFeatures",
    "MercerFeatures",
    "Plain",
    "PurePowerFeatures",
    "Quantized",
    "Table",
    "Tabled",
    "TensorLayout",
    "Unused",
]
