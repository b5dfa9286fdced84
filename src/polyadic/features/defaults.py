"""The maps of fits that learn λ over maps which nobody named."""

from __future__ import annotations

from collections.abc import Sequence

from polyadic.features.maps import DampedFourierFeatures, FeatureMap

# Period and decay on inputs in [0, 1], from rough to nearly linear.
_PAIRS = ((1.3, 0.6), (1.5, 0.7), (2.0, 0.6), (2.0, 0.8), (3.0, 0.7), (4.0, 0.8), (8.0, 0.8))


def default_maps() -> list[DampedFourierFeatures]:
    """Return maps that cover the useful range of periods and decays on [0, 1] inputs."""
    return [DampedFourierFeatures(period, decay) for period, decay in _PAIRS]


def resolve_maps(feature_maps: str | Sequence[FeatureMap]) -> list[FeatureMap]:
    """Return the maps a user named, or the default ones for "auto"."""
    if isinstance(feature_maps, str):
        return list(default_maps())
    if not len(feature_maps):
        raise ValueError(
            "`feature_maps` must hold at least one feature map, got none. "
            'Pass feature_maps="auto" to have them chosen.'
        )
    return list(feature_maps)
