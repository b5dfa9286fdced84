"""The first look at the rows: what features are learned from, and how far out targets are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.rows.arrays import on_host
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import TargetScaling
from polyadic.rows.statistics import summarise
from polyadic.rows.view import Fade, Member, standard_prediction
from polyadic.samples.workers import Workers
from polyadic.search.learned import LearnedFeatures, learn_features
from polyadic.search.search import Search
from polyadic.search.settings import Settings
from polyadic.sources.arrays import ArrayStore
from polyadic.sources.data import Data

_FEATURE_ROWS = 250_000
_FAR = 10.0  # spreads from what a model says, beyond which a target is far out
_LEAST_SPREAD = 0.01  # of that of the targets
_LOOKS = 2
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
    them: rows far beyond that count for little, and features are learned once more with that.
    The loss alone would not do.  Its pull on an outlier is bounded but does not fade, so that
    where there is little noise, and a small penalty, a tensor follows it.
    """
    features = learn_features(rows_for_features(data), settings, threads)
    loss = data.view.loss
    if loss is None or not loss.is_robust:
        return data, features
    short = replace(settings, effort=_FIRST_LOOK * settings.effort)
    rows = data.gather_about(_FEATURE_ROWS, seed=0).map(on_host)
    for _ in range(_LOOKS):  # the first is through features that outliers have a part in
        search = Search(data, features[:1], short, seeds[:2], compute, deadline=deadline)
        members = tuple(search.run())
        fade = _fade_of(rows, members, search.targets, compute)
        spread = float(np.max(fade.distance / search.targets.scale)) / _FAR
        data = replace(data, view=replace(data.view, loss=loss.narrowed(spread), fade=fade))
        counted = fade.count(rows, compute.predict)
        features = learn_features(_with_targets(data, counted, rows.y), settings, threads)
    return data, features


def _fade_of(
    rows: Rows, members: tuple[Member, ...], targets: TargetScaling, compute: Compute
) -> Fade:
    """Return how far targets usually are from what members say of some rows, times a few."""
    rest = rows.y - on_host(targets.undo(standard_prediction(members, rows.X, compute.predict)))
    middle = np.median(rest, axis=0)
    spread = 1.4826 * np.median(np.abs(rest - middle), axis=0)
    spread = np.maximum(spread, _LEAST_SPREAD * targets.scale)  # no rounding is far out
    return Fade(members, targets, middle, _FAR * spread)


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
