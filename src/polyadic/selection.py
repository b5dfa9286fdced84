"""Candidate feature maps for users who name none."""

from __future__ import annotations

from collections.abc import Sequence

from polyadic.features import DampedFourierFeatures, FeatureMap


def named_maps(feature_maps: str | Sequence[FeatureMap]) -> list[FeatureMap]:
    """Return the maps a user named, or the default ones for "auto"."""
    if isinstance(feature_maps, str):
        return default_maps()
    if not len(feature_maps):
        raise ValueError(
            "`feature_maps` must hold at least one feature map, got none. "
            'Pass feature_maps="auto" to have them chosen.'
        )
    return list(feature_maps)


def default_maps() -> list[FeatureMap]:
    """Return maps that cover the useful range of periods and decays on [0, 1] inputs."""
    pairs = [(1.3, 0.6), (1.5, 0.7), (2.0, 0.6), (2.0, 0.8), (3.0, 0.7), (4.0, 0.8), (8.0, 0.8)]
    return [DampedFourierFeatures(period, decay) for period, decay in pairs]
