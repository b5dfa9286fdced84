"""Members: how one is fitted to named maps, and how all of them are run."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from polyadic.compute import Compute
from polyadic.features import TensorLayout
from polyadic.members import Member, ignore_overflow
from polyadic.model import als, cpd, mixing
from polyadic.model.error_distribution import ErrorDistribution
from polyadic.model.posterior import (
    MOST_UNKNOWNS,
    CorePosterior,
    affordable_directions,
    core_posterior,
)
from polyadic.rows.holdout import Part
from polyadic.samples.workers import Workers
from polyadic.sources.data import Data
from polyadic.storage.values import Encoder
from polyadic.uncertainty import PosteriorScale, Uncertainty

T = TypeVar("T")

# Up to here a fit tries two starts of λ, for two epochs each; beyond, it takes the paper's.
_TWO_STARTS_ROWS = 100_000
SEARCH = "version of the search"  # what a checkpoint calls it
_LEAST_ROWS = 50  # of the first epoch: by chance none of fewer might be drawn
# Parameters that change neither what is fitted nor, but for rounding, what comes out.
_WITHOUT_CONSEQUENCE = ("checkpoint", "max_time", "memory_limit", "n_jobs", "verbose")


def fit_member(
    estimator: Any,
    data: Data,
    layout: TensorLayout,
    compute: Compute,
    seed: int,
    model: als.Model | None,
    keeper: als.Keeper,
) -> None:
    """Fit from a random start, from `model`, or from where the keeper left off; it has the fit."""
    kept: Part | None = None
    validation: als.Targets = ()
    if estimator.early_stopping:
        kept, held = data.split(estimator.validation_fraction, seed)
        validation = data.targets(compute, layout, held) if held is not None else ()
    has_loss = data.view.loss is not None
    # Under a loss all maps take part from the beginning: responses of a random start say nothing.
    mix_first = False if model is not None or has_loss else None
    if mix_first is None and data.n_rows > _TWO_STARTS_ROWS:
        mix_first = True
    als.fit(
        data.targets(compute, layout, kept),
        als.Objective(
            estimator._setting("alpha"),
            estimator.beta,
            estimator.mixing,
            estimator.nonnegative,
            estimator.objective,
            has_loss,
        ),
        model or _random_start(estimator, data, layout, seed),
        als.Stopping(estimator._setting("max_iter"), estimator.tol, estimator.n_iter_no_change),
        validation=validation,
        early=_early_epochs(estimator, data, layout, compute, kept or Part(seed)),
        mix_first=mix_first,
        keeper=keeper,
    )


def _random_start(estimator: Any, data: Data, layout: TensorLayout, seed: int) -> als.Model:
    """Return the paper's random start."""
    rng = np.random.RandomState(seed)
    cores = [
        cpd.initial_cores(layout.core_sizes, estimator._setting("rank"), layout.is_complex, rng)
        for _ in range(data.n_targets)
    ]
    if data.view.loss is not None:  # the first working responses are made at the start of the loss
        cores = [[np.zeros_like(first), *others] for first, *others in cores]
    map_weights = np.ones(1)
    if len(layout.maps) > 1:
        map_weights = mixing.initial_weights(len(layout.maps), estimator.mixing, rng)
    return als.Model(tuple(cores), map_weights)


def _early_epochs(
    estimator: Any, data: Data, layout: TensorLayout, compute: Compute, part: Part
) -> list[als.EarlyEpoch]:
    """Return the rows that the first epochs see: their number doubles until it is all."""
    early: list[als.EarlyEpoch] = []
    fraction = estimator.subsample
    if fraction is not None and fraction * data.n_rows < _LEAST_ROWS:
        raise ValueError(
            f"`subsample` must leave at least {_LEAST_ROWS} rows to the first epoch, got "
            f"{fraction:g} of {data.n_rows} rows. Raise it, or pass subsample=None."
        )
    most = estimator._setting("max_iter") // 2
    while fraction is not None and fraction < 1 and len(early) < most:
        targets = data.targets(compute, layout, part.subset(fraction))
        early.append(als.EarlyEpoch(targets, fraction))
        fraction *= 2
    return early


class MemberRun(Generic[T]):
    """Runs the fits of all members, one after the other or side by side.

    Parameters
    ----------
    count : int
        How many members there are.
    compute : Compute
        What they compute with; side by side each has one thread.
    together : bool
        Whether they may run side by side, where there are enough of them for all threads.

    Attributes
    ----------
    began : float
        When, by `time.monotonic`.
    results : dict of int to T
        What each member has come to, also while they run and after an interruption.
    """

    def __init__(self, count: int, compute: Compute, *, together: bool) -> None:
        self.count, self._compute = count, compute
        self.together = together and count >= compute.workers.n_jobs
        self.results: dict[int, T] = {}
        self.began = time.monotonic()
        self._stop = threading.Event()

    @property
    def is_stopped(self) -> bool:
        """Whether one of the members failed or was interrupted, so that the others end too."""
        return self._stop.is_set()

    @property
    def n_rounds(self) -> int:
        """How many members each thread fits, one after the other."""
        at_a_time = self._compute.workers.n_jobs if self.together else 1
        return -(-self.count // at_a_time)

    def round_of(self, index: int) -> int:
        """Return in which round a member is fitted, counted from 0."""
        return index * self.n_rounds // self.count

    def each(self, fit: Callable[[int, Compute], None]) -> None:
        """Call `fit` for each member; it puts what it has come to into `results`."""
        inner = replace(self._compute, workers=Workers(1)) if self.together else self._compute

        def guarded(index: int) -> None:
            with ignore_overflow():  # in this thread
                fit(index, inner)

        try:
            if self.together:
                self._compute.workers.map(guarded, range(self.count))
            else:
                for index in range(self.count):
                    guarded(index)
        finally:
            self._stop.set()

    def in_order(self) -> list[T]:
        """Return what there is, in the order of the members."""
        return [self.results[index] for index in sorted(self.results)]


def fitted_attributes(data: Data, members: list[Member]) -> dict[str, Any]:
    """Return the attributes that a prediction needs besides the inputs' names."""
    return {
        "members_": members,
        "target_scaling_": data.view.targets,
        "_single_target": data.single_target,
        "_link": "identity" if data.view.loss is None else data.view.loss.link,
    }


def posterior_uncertainty(
    data: Data, members: Sequence[Member], alpha: float, compute: Compute
) -> Uncertainty | None:
    """Return how sure members with named maps are, by the posterior of their last core.

    None under a loss.  A core of very many unknowns is taken for certain.
    """
    if data.view.loss is not None:
        return None
    core, noise = len(members[0].layout.core_sizes) - 1, np.zeros(data.n_targets)
    column, _ = members[0].layout.core_places[core]
    ends = data.view.inputs.apply(np.stack([data.statistics.low, data.statistics.high]))
    low, high = ends[:, column].tolist()
    posteriors = []
    for member in members:
        model, of_member = member.model, []
        for t, samples in enumerate(data.samples(compute, member.layout)):
            samples.start(model.cores[t])
            unknowns = model.cores[t][core].size * (2 if member.layout.is_complex else 1)
            if unknowns > MOST_UNKNOWNS:
                squares = samples.mixing_equations().squared_error(model.map_weights)
                posterior = CorePosterior(core, np.zeros((unknowns, 0)))
            else:
                equations = samples.normal_equations(core, model.map_weights)
                n_maps = max(1, int(np.count_nonzero(model.map_weights)))
                most = affordable_directions(member.layout, model.cores[t], n_maps)
                posterior, squares = core_posterior(equations, model.cores[t], core, alpha, most)
            noise[t] += squares / data.total_weight / len(members)
            of_member.append(posterior)
        posteriors.append(tuple(of_member))
    scale = PosteriorScale(tuple(members), tuple(posteriors), noise, (low, high))
    errors = (ErrorDistribution.normal(),) * data.n_targets
    return Uncertainty(scale, errors, data.view.targets.scale, np.ones(data.n_targets))


def is_small(data: Data) -> bool:
    """Whether members may be fitted at the same time: rows are in memory, and few."""
    return data.in_memory and data.n_rows <= _TWO_STARTS_ROWS


def describe_fit(
    estimator: Any, data: Data, earlier: Sequence[als.Model], search: int | None
) -> dict[str, Any]:
    """Return what a fit depends on, as JSON with digests for arrays.

    `search` is the version of the search, for a fit that has one.
    """
    # What differs first is what an error names: another search also orders rows otherwise.
    known: dict[str, Any] = {} if search is None else {SEARCH: search}
    known |= {"estimator": type(estimator).__name__, "data": str(data.fingerprint())}
    known |= describe_parameters(estimator)
    if not estimator.schema_.is_numeric:
        known["columns"] = _describe(estimator.schema_, "schema_")
    if earlier:
        known["warm start"] = _describe(list(earlier), "warm_start")
    return known


def describe_parameters(estimator: Any) -> dict[str, Any]:
    """Return the parameters that a fit depends on, as JSON with digests for arrays."""
    parameters = estimator.get_params(deep=False)
    if parameters.get("dtype") == "auto":  # which says no more than the number of rows does
        parameters["dtype"] = "float64"
    return {
        name: _describe(value, name)
        for name, value in parameters.items()
        if name not in _WITHOUT_CONSEQUENCE
    }


def _describe(value: Any, name: str) -> Any:
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
