"""What an automatic fit chooses from: feature maps, sizes, penalties, scalings, trends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from polyadic.features import DampedFourierFeatures, FeatureMap, TensorLayout

# Period and decay on inputs in [0, 1], from rough to nearly linear.
_PAIRS = ((1.3, 0.6), (1.5, 0.7), (2.0, 0.6), (2.0, 0.8), (3.0, 0.7), (4.0, 0.8), (8.0, 0.8))
BLENDS = (0.0, 0.5, 1.0)


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


@dataclass(frozen=True)
class Candidate:
    """One point of the search.  `alpha` is the penalty for each unit of row weight."""

    feature_map: DampedFourierFeatures
    n_basis: tuple[int, ...]
    rank: int
    alpha: float
    blend: float
    trend: bool

    @property
    def layout(self) -> TensorLayout:
        """Return the layout of the candidate's tensor."""
        return TensorLayout.of((self.feature_map,), self.n_basis, quantized=True)


@dataclass(frozen=True)
class Space:
    """What is searched: the values each choice may take; a choice of one value is fixed.

    `max_rank` bounds the growth of the rank, and `work` the arithmetic of the moves after
    screening, in units of about one floating-point operation.
    """

    n_basis: tuple[tuple[int, ...], ...]
    ranks: tuple[int, ...]
    alphas: tuple[float, ...]
    blends: tuple[float, ...]
    trends: tuple[bool, ...] = (False, True)
    n_candidates: int = 32
    max_rank: int = 32
    work: float = np.inf

    def draw(self, rng: np.random.RandomState) -> list[Candidate]:
        """Return candidates drawn without replacement."""
        grid = list(
            product(default_maps(), self.n_basis, self.ranks, self.alphas, self.blends, self.trends)
        )
        chosen = rng.permutation(len(grid))[: self.n_candidates]
        return [Candidate(*grid[index]) for index in chosen]
