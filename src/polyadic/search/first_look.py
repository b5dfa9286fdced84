"""The first look at the rows: what features are learned from, and how far out targets are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.rows.arrays import on_host
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import TargetScaling
from polyadic.rows.statistics import summarise
from polyadic.rows.view import Member, standard_prediction
from polyadic.samples.workers import Workers
from polyadic.search.learned import LearnedFeatures, learn_features
from polyadic.search.search import Search
from polyadic.search.settings import Settings
from polyadic.sources.arrays import ArrayStore
from polyadic.sources.data import Data

_FEATURE_ROWS = 250_000
# Targets are far from what a model says beyond so many spreads, and drawn in to so many.
_FAR, _NEAR = 5.0, 2.0
_LEAST_FAR = 0.005  # of the rows
_FIRST_LOOK = 0.3  # of the effort, to see which targets are far out


def look_at(
    data: Data,
    settings: Settings,
    compute: Compute,
    threads: Workers,
    seeds: Sequence[int],
    deadline: float = np.inf,
) -> tuple[Data, list[LearnedFeatures]]:
    """Return the best ways to see the inputs, and the rows under the loss that a fit minimises.

    Under a robust loss a short search shows how far targets usually are from what can be said of
    them: beyond that they count for little, and features are learned once more from targets that
    are drawn in.
    """
    features = learn_features(rows_for_features(data), settings, threads)
    loss = data.view.loss
    if loss is None or not loss.is_robust:
        return data, features
    short = replace(settings, effort=_FIRST_LOOK * settings.effort)
    search = Search(data, features[:1], short, seeds[:2], compute, deadline=deadline)
    left = _LeftOver.of(data, search.run(), search.targets, compute)
    data = replace(data, view=replace(data.view, loss=loss.narrowed(left.relative_spread)))
    if left.is_far.mean() < _LEAST_FAR:
        return data, features
    return data, learn_features(left.drawn_in(data), settings, threads)


@dataclass(frozen=True)
class _LeftOver:
    """Rows that features are learned from, what a model says of them, and what that leaves over."""

    rows: Rows
    said: NDArray[np.float64]
    middle: NDArray[np.float64]
    spread: NDArray[np.float64]
    scale: NDArray[np.float64]  # of the targets

    @classmethod
    def of(
        cls, data: Data, members: Sequence[Member], targets: TargetScaling, compute: Compute
    ) -> _LeftOver:
        rows = data.gather_about(_FEATURE_ROWS, seed=0).map(on_host)
        said = on_host(targets.undo(standard_prediction(members, rows.X, compute.predict)))
        rest = rows.y - said
        middle = np.median(rest, axis=0)
        spread = 1.4826 * np.median(np.abs(rest - middle), axis=0)
        return cls(rows, said, middle, spread, targets.scale)

    @property
    def relative_spread(self) -> float:
        """How far targets usually are, in units of their own spread; the most of all targets."""
        return float(np.max(self.spread / self.scale))

    @property
    def is_far(self) -> NDArray[np.bool_]:
        """Which targets are far out."""
        return np.abs(self.rows.y - self.said - self.middle) > _FAR * self.spread

    def drawn_in(self, data: Data) -> Data:
        """Return the rows with such targets nearer to what the model says.

        Least squares would explain them, by noise or by features of their own.
        """
        ends = (self.middle + sign * _NEAR * self.spread for sign in (-1, 1))
        near = self.said + np.clip(self.rows.y - self.said, *ends)
        return _with_targets(data, self.rows, np.where(self.is_far, near, self.rows.y))


def rows_for_features(data: Data) -> Data:
    """Return rows whose targets least squares can learn features from.

    Under a loss these are a part of the rows, with what the loss makes of their targets.
    """
    loss = data.view.loss
    if loss is None:
        return data
    rows = data.gather_about(_FEATURE_ROWS, seed=0).map(on_host)
    return _with_targets(data, rows, loss.feature_targets(rows.y.astype(np.float64)))


def _with_targets(data: Data, rows: Rows, y: NDArray[np.float64]) -> Data:
    """Return rows in memory with other targets, and no loss."""
    store = ArrayStore(Rows(rows.X, y, rows.weight, rows.groups))
    statistics = store.reduce("statistics", summarise)
    view = replace(data.view, targets=statistics.targets.scaling(), loss=None)
    return Data(store, statistics, view, data.inputs, single_target=False)
