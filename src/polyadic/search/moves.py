"""The moves of a search: from a trial to a neighbour that starts from what it has learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features import DampedFourierFeatures, FeatureMap, TensorLayout
from polyadic.model import als, cpd
from polyadic.model.cpd import Cores
from polyadic.rows.arrays import on_host
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import InputScaling
from polyadic.search.candidates import Candidate
from polyadic.search.trials import Trial


def unchanged(trial: Trial) -> Trial:
    """Train the unchanged candidate, so that gains of more epochs are not credited to a move."""
    return replace(trial)


def with_alpha(trial: Trial, alpha: float) -> Trial:
    """Change the penalty."""
    return _change(trial, replace(trial.candidate, alpha=alpha), list)


def grown(trial: Trial, rank: int, rng: np.random.RandomState) -> Trial:
    """Raise the rank: small terms are added to the tensor."""
    owners = trial.candidate.layout.core_inputs
    larger = replace(trial.candidate, rank=rank)
    return _change(trial, larger, lambda cores: cpd.grown(cores, rank, owners, rng))


def sharpened(trial: Trial) -> Trial:
    """Double the basis and let it decay half as fast; the function stays the same.

    A core of bit q meets [1, decay^(2^q) …], so its second row takes the change of decay, and
    the core of a new bit is [1, 0].
    """
    candidate = trial.candidate
    period, decay = candidate.feature_map.period, candidate.feature_map.decay
    slower = round(float(np.sqrt(decay)), 3)
    finer = replace(
        candidate,
        feature_map=DampedFourierFeatures(period, slower),
        n_basis=tuple(2 * size if size > 1 else 1 for size in candidate.n_basis),
    )
    bits = candidate.layout.core_places

    def same_function(cores: Cores) -> Cores:
        new = np.zeros_like(cores[0])
        new[0] = 1.0
        kept = {
            (column, bit): core * np.array([[1.0], [(decay / slower) ** (2**bit)]])
            for (column, bit), core in zip(bits, cores, strict=True)
        }
        return [kept.get(place, new) for place in finer.layout.core_places]

    return _change(trial, finer, same_function)


@dataclass(frozen=True)
class MeanFactors:
    """Weighted sums over rows of what each core meets; they add up."""

    sums: tuple[NDArray[Any], ...]
    total_weight: float

    def __add__(self, other: MeanFactors) -> MeanFactors:
        sums = tuple(a + b for a, b in zip(self.sums, other.sums, strict=True))
        return MeanFactors(sums, self.total_weight + other.total_weight)


def mean_factors(
    rows: Rows, first_row: int, scaling: InputScaling, layout: TensorLayout, feature_map: FeatureMap
) -> MeanFactors:
    """Sum up what each core meets over a piece of rows, on the host: maps are NumPy functions."""
    factors = layout.factors(on_host(scaling.apply(rows.X)), feature_map)
    weight = np.ones(len(rows)) if rows.weight is None else on_host(rows.weight)
    return MeanFactors(tuple(weight @ factor for factor in factors), rows.total_weight)


def without(trial: Trial, inputs: list[int], means: MeanFactors) -> Trial:
    """Leave inputs out: each of their cores meets the mean of its factor."""
    candidate = trial.candidate
    met = {
        core: means.sums[core] / means.total_weight
        for core, owner in enumerate(candidate.layout.core_inputs)
        if owner in inputs
    }
    n_basis = tuple(1 if d in inputs else size for d, size in enumerate(candidate.n_basis))
    smaller = replace(candidate, n_basis=n_basis)
    return _change(trial, smaller, lambda cores: cpd.contract(cores, met))


def _change(trial: Trial, candidate: Candidate, change: Callable[[Cores], Cores]) -> Trial:
    """Return a trial of another candidate, not yet trained, that goes on from changed cores."""
    model = als.Model(tuple(change(cores) for cores in trial.model.cores), trial.model.map_weights)
    return Trial(candidate, model, losses=trial.losses)
