"""Members: how they are fitted, one by one or together, anew or from where they were left."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from polyadic.compute import Compute
from polyadic.features import TensorLayout
from polyadic.model import als, cpd, mixing
from polyadic.rows.holdout import Part, split
from polyadic.samples.workers import Workers
from polyadic.sources.data import ArrayData, Data
from polyadic.storage.checkpoint import MemberCheckpoint
from polyadic.storage.values import Encoder

# Up to here a fit tries two starts of λ, for two epochs each; beyond, it takes the paper's.
_TWO_STARTS_ROWS = 100_000
_LEAST_ROWS = 50  # of the first epoch: by chance none of fewer might be drawn
# Parameters that change neither what is fitted nor, but for rounding, what comes out.
_WITHOUT_CONSEQUENCE = ("checkpoint", "memory_limit", "n_jobs", "verbose")


class MemberFit:
    """What the fit of one member is made of."""

    def __init__(
        self, estimator: Any, data: Data, layout: TensorLayout, compute: Compute, seed: int
    ) -> None:
        self._estimator, self._data, self._layout = estimator, data, layout
        self._compute, self._seed = compute, seed

    def run(self, model: als.Model | None, state: MemberCheckpoint) -> als.Fit:
        """Fit from a random start, from `model`, or from where the checkpoint left off."""
        estimator, data = self._estimator, self._data
        kept: Part | None = None
        held: Part | None = None
        if estimator.early_stopping:
            fraction = estimator.validation_fraction
            kept, held = split(data.n_rows, data.hashes, fraction, self._seed)
        targets = data.samples(self._compute, self._layout, kept)
        validation = data.samples(self._compute, self._layout, held) if held is not None else ()
        two_starts = data.n_rows <= _TWO_STARTS_ROWS
        return als.fit(
            targets,
            als.Objective(
                estimator._setting("alpha"),
                estimator.beta,
                estimator.mixing,
                estimator.nonnegative,
                estimator.objective,
            ),
            model or self._start(),
            als.Stopping(estimator._setting("max_iter"), estimator.tol, estimator.n_iter_no_change),
            validation=validation,
            early=self._early(kept or Part(self._seed)),
            mix_first=False if model is not None else None if two_starts else True,
            so_far=state.so_far,
            under_way=state.under_way,
            on_epoch=state.on_epoch,
            on_step=state.on_step,
        )

    def _start(self) -> als.Model:
        """Return the paper's random start."""
        estimator, layout = self._estimator, self._layout
        rng = np.random.RandomState(self._seed)
        sizes, field = layout.core_sizes, layout.is_complex
        cores = [
            cpd.initial_cores(sizes, estimator._setting("rank"), field, rng)
            for _ in range(self._data.n_targets)
        ]
        weights = np.ones(1)
        if len(layout.maps) > 1:
            weights = mixing.initial_weights(len(layout.maps), estimator.mixing, rng)
        return als.Model(tuple(cores), weights)

    def _early(self, part: Part) -> list[als.Share]:
        """Return the shares of rows that the first epochs see: doubled until they are all."""
        early: list[als.Share] = []
        share, n_rows = self._estimator.subsample, self._data.n_rows
        if share is not None and share * n_rows < _LEAST_ROWS:
            raise ValueError(
                f"`subsample` must leave at least {_LEAST_ROWS} rows to the first epoch, got "
                f"{share:g} of {n_rows} rows. Raise it, or pass subsample=None."
            )
        most = self._estimator._setting("max_iter") // 2
        while share is not None and share < 1 and len(early) < most:
            targets = self._data.samples(self._compute, self._layout, part.share(share))
            early.append(als.Share(targets, share))
            share *= 2
        return early


def is_small(data: Data) -> bool:
    """Whether members may be fitted at the same time: rows are in memory, and few."""
    return isinstance(data, ArrayData) and data.n_rows <= _TWO_STARTS_ROWS


def each_member(
    fit: Callable[[int, Compute], None],
    count: int,
    compute: Compute,
    stop: threading.Event,
    *,
    together: bool,
) -> None:
    """Call `fit` for each member, one thread each if they are `together` and enough for all.

    `stop` is set when one of them fails or is interrupted, so that the others can end too.
    """
    together = together and count >= compute.workers.n_jobs
    inner = replace(compute, workers=Workers(1)) if together else compute

    def checked(index: int) -> None:
        with overflow_is_checked():  # of this thread
            fit(index, inner)

    try:
        if together:
            compute.workers.map(checked, range(count))
        else:
            for index in range(count):
                checked(index)
    finally:
        stop.set()


def overflow_is_checked() -> AbstractContextManager[Any]:
    """Silence NumPy where overflow becomes an error of ours, in words."""
    return np.errstate(over="ignore", invalid="ignore")


def identity(estimator: Any, data: Data, earlier: Sequence[als.Model]) -> dict[str, Any]:
    """Return what a fit depends on, as JSON with digests for arrays."""
    parameters = described_parameters(estimator)
    known = {"estimator": type(estimator).__name__, "data": str(data.content()), **parameters}
    if earlier:
        known["warm start"] = _described(list(earlier), "warm_start")
    return known


def described_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters that a fit depends on, as JSON with digests for arrays."""
    return {
        name: _described(value, name)
        for name, value in estimator.get_params(deep=False).items()
        if name not in _WITHOUT_CONSEQUENCE
    }


def _described(value: Any, name: str) -> Any:
    """Return a value as JSON that equal values share."""
    if hasattr(value, "get_n_splits"):
        return repr(value)  # a splitter of folds, which has no other form
    encoder = Encoder()
    encoded = json.loads(json.dumps(encoder.encode(value, name)))
    if not encoder.arrays:
        return encoded
    digest = hashlib.sha256(json.dumps(encoded).encode())
    for array in encoder.arrays.values():
        digest.update(array.tobytes())
    return digest.hexdigest()
