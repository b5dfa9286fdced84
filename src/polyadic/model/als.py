"""Alternating least squares: the driver.  It sees sums, never rows.

    start ─► λ step ─► epoch ─► epoch ─► …

    epoch = sweep (for each core: sums ─► solve ─► commit) ─► rebalance ─► start ─► λ step

With several targets each has a weight tensor and samples of its own; they share λ, whose
sums are added over the targets.

A loss that is not the squared error is met by squares that touch it, see `losses`:

    epoch = linearise ─► start ─► sweep ─► rebalance ─► λ step ─► true loss; if it rose, again,
            with more caution
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from itertools import islice
from operator import add
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from polyadic.model import cpd
from polyadic.model.conjugate import CoreSketch, solve_core_iteratively
from polyadic.model.cpd import Cores
from polyadic.model.losses import LossSum
from polyadic.model.mixing import penalty, solve_mixing
from polyadic.model.normal import CoreSolution, NormalEquations, solve_core


class Samples(Protocol):
    """The verbs of an engine, summed over all chunks of one target's rows."""

    @property
    def stateless(self) -> bool:
        """Whether no state is carried between steps, so that a sweep can resume at any core.

        State that is brought from core to core gathers rounding, so that the way matters too.
        """

    def start(self, cores: Cores) -> None:
        """Rebuild the state of every chunk for these cores."""

    def normal_equations(self, core: int, map_weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums for one core step."""

    def iterates(self, core: int) -> bool:
        """Whether conjugate gradients are the cheaper way to solve one core."""

    def core_sketch(self, core: int) -> CoreSketch:
        """Return the sums that conjugate gradients start from."""

    def gram_product(self, core: int, value: NDArray[Any]) -> NDArray[np.float64]:
        """Return AᵀA v for v of the shape of one core."""

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core in every chunk's state."""

    def mixing_equations(self) -> NormalEquations:
        """Return the sums for the step of the feature weights."""


class LossRows(Protocol):
    """The rows of all targets under a loss that is not the squared error."""

    def around(self, model: Model, caution: int) -> list[Samples]:
        """Return the samples of each target, with working responses and weights at a model.

        The driver uses them up: a target whose samples it drops takes no more memory.
        """

    def loss(self, model: Model) -> LossSum:
        """Return the true loss of a model."""


@dataclass(frozen=True)
class Objective:
    """What is minimised: ½‖y − Σₚ λₚΦₚw‖² + ½α‖w‖² + β·Reg(λ).

    With `has_loss` the first term is the loss of `LossRows` instead.
    """

    alpha: float
    beta: float = 0.0
    mixing: str = "simplex"
    nonnegative: bool = False
    kind: str = "real"
    has_loss: bool = False


# How often a step that raised the loss is tried again, with more caution each time.
_MOST_CAUTION = 8


@dataclass(frozen=True)
class Model:
    """What is learned: one list of cores for each target, and the maps' shared weights λ."""

    cores: tuple[Cores, ...]
    map_weights: NDArray[np.float64]

    @property
    def first_cores(self) -> NDArray[Any] | None:
        """The first core of each target along a third axis, if targets share all other cores."""
        others = [[id(core) for core in cores[1:]] for cores in self.cores]
        if len(others) < 2 or not others[0] or any(each != others[0] for each in others):
            return None
        return np.stack([cores[0] for cores in self.cores], axis=2)


Targets: TypeAlias = Sequence[Samples] | LossRows


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is kept of every epoch.

    Parameters
    ----------
    number : int
        1 for the first epoch; 0 before it.
    loss : float
        The objective on the training rows, divided by the sum of their weights.
    error : float
        Mean squared error on the training rows, or their mean loss.
    jittered : tuple of (int, int)
        The (target, core) pairs whose systems were singular in this epoch.
    validation_error : float or None
        The same on the held-out rows, where there are any.
    """

    number: int
    loss: float
    error: float
    jittered: tuple[tuple[int, int], ...] = ()
    validation_error: float | None = None

    @property
    def criterion(self) -> float:
        """What selects the best epoch: the held-out error if there is one, else the loss."""
        return self.loss if self.validation_error is None else self.validation_error


@dataclass(frozen=True, kw_only=True)
class Epoch(Record):
    """Where a fit stands after one epoch, the model among it."""

    model: Model

    def record(self) -> Record:
        """Return the epoch without its model."""
        return Record(**{each.name: getattr(self, each.name) for each in fields(Record)})


@dataclass(frozen=True)
class Fit:
    """A fit so far: its best epoch, its last one, and what is known of all.

    Together with the rows this is all that the rest of the fit depends on, so a fit can go on
    from it in another process, to the same last digit.
    """

    best: Epoch
    last: Epoch
    history: tuple[Record, ...]
    stalled: int = 0


@dataclass(frozen=True)
class Sweep:
    """A sweep under way: the cores so far, the place of the next one, the singular steps."""

    model: Model
    target: int = 0
    core: int = 0
    jittered: tuple[tuple[int, int], ...] = ()


class Keeper:
    """Where a fit starts from, and whom it tells of its steps; this one keeps nothing.

    Attributes
    ----------
    so_far : Fit or None
        Go on from the epoch after it.
    under_way : Sweep or None
        Go on inside the epoch after it.
    """

    so_far: Fit | None = None
    under_way: Sweep | None = None

    def on_epoch(self, fit: Fit) -> bool | None:
        """See the fit after each epoch; return true to stop it."""
        return None

    def on_step(self, sweep: Sweep) -> None:
        """See the sweep after each core step from which a fit can go on to the same digit."""


@dataclass(frozen=True)
class EarlyEpoch:
    """A fraction of the rows, for an epoch before those on all rows."""

    targets: Targets
    fraction: float


@dataclass(frozen=True)
class Stopping:
    """When to stop: after `max_iter` epochs, or `patience` of them that gain under `tol`.

    A `tol` of zero leaves only `max_iter`, or with held-out rows the epochs without any gain.
    """

    max_iter: int
    tol: float = 0.0
    patience: int = 1


def epochs(
    targets: Targets,
    objective: Objective,
    model: Model,
    *,
    mix_first: bool = True,
    number: int = 0,
    under_way: Sweep | None = None,
    keeper: Keeper | None = None,
) -> Iterator[Epoch]:
    """Yield the fit after each epoch, without end; the first one is the start itself.

    Parameters
    ----------
    targets : sequence of Samples, or LossRows
        The rows of each target.
    objective : Objective
        What is minimised.
    model : Model
        Where to start from.
    mix_first : bool
        Whether a λ step comes before the first sweep, as in the paper's own code.
    number : int
        What the start is counted as.
    under_way : Sweep, optional
        Go on inside the sweep after the start.
    keeper : Keeper, optional
        Sees the sweep after each core step, where samples are stateless.
    """
    if objective.has_loss:
        yield from _loss_epochs(cast(LossRows, targets), objective, model, mix_first, number)
        return
    targets = cast(Sequence[Samples], targets)
    equations = mixing_sums(targets, model)
    if mix_first:
        mixed = _mix(equations, objective, model)
        # With random cores the λ step can set every weight to zero; keep the initial λ then.
        model = mixed if mixed.map_weights.any() else model
    jittered: tuple[tuple[int, int], ...] = ()
    while True:
        error = equations.squared_error(model.map_weights)
        loss = 0.5 * error + _penalties(objective, model)
        yield Epoch(
            number=number,
            model=model,
            loss=loss / equations.total_weight,
            error=error / equations.total_weight,
            jittered=jittered,
        )
        done = sweep(targets, objective, under_way or Sweep(model), keeper)
        under_way, jittered = None, done.jittered
        model = replace(done.model, cores=tuple(map(cpd.rebalance, done.model.cores)))
        equations = mixing_sums(targets, model)
        model = _mix(equations, objective, model)
        number += 1


def _loss_epochs(
    rows: LossRows, objective: Objective, model: Model, mix_first: bool, number: int
) -> Iterator[Epoch]:
    """Yield the fit after each epoch under a loss; none of them raises the objective.

    An epoch is a function of the model alone, so a fit can be resumed at any of them.
    """
    sums = rows.loss(model)
    value = sums.value + _penalties(objective, model)
    if mix_first:
        mixed = _mix(mixing_sums(rows.around(model, 0), model), objective, model)
        after = rows.loss(mixed)
        lowered = after.value + _penalties(objective, mixed)
        if mixed.map_weights.any() and lowered <= value:
            model, sums, value = mixed, after, lowered
    jittered: tuple[tuple[int, int], ...] = ()
    while True:
        yield Epoch(
            number=number,
            model=model,
            loss=value / sums.weight,
            error=sums.mean,
            jittered=jittered,
        )
        for caution in range(_MOST_CAUTION):
            tried, jittered = _loss_sweep(rows, objective, model, caution)
            after = rows.loss(tried)
            lowered = after.value + _penalties(objective, tried)
            if lowered <= value:  # which what is not a number is not
                model, sums, value = tried, after, lowered
                break
        number += 1


def _loss_sweep(
    rows: LossRows, objective: Objective, model: Model, caution: int
) -> tuple[Model, tuple[tuple[int, int], ...]]:
    """Return the model after a sweep and a λ step on the squares that touch the loss at it."""
    targets = rows.around(model, caution)
    mixes = len(model.map_weights) > 1
    cores, jittered = [], []
    for target, of_target in enumerate(model.cores):
        # Without a λ step a target is done after its sweep: its state need not stay in memory.
        samples = targets[target] if mixes else targets.pop(0)
        samples.start(of_target)
        done = sweep([samples], objective, Sweep(replace(model, cores=(of_target,))))
        cores.append(cpd.rebalance(done.model.cores[0]))
        jittered += [(target, core) for _, core in done.jittered]
    model = replace(model, cores=tuple(cores))
    if mixes:
        model = _mix(mixing_sums(targets, model), objective, model)
    return model, tuple(jittered)


def sweep(
    targets: Sequence[Samples], objective: Objective, state: Sweep, keeper: Keeper | None = None
) -> Sweep:
    """Update every core of every target once, from where a sweep is to its end."""
    for target in range(state.target, len(targets)):
        samples, cores = targets[target], list(state.model.cores[target])
        if state.core:  # a sweep that was interrupted here, maybe in another process
            samples.start(cores)
        # Running products of the Grams before a core, which are new, and after it, which are old.
        after = cpd.later_gram_products(cores)
        before: NDArray[Any] = np.ones_like(after[0])
        for core in cores[: state.core]:
            before = before * cpd.gram(core)
        for index in range(state.core, len(cores)):
            gram_of_others = before * after[index]
            solution = _solve(samples, index, state.model, gram_of_others, cores[index], objective)
            samples.commit(index, solution.value)
            cores[index], before = solution.value, before * cpd.gram(solution.value)
            if solution.jitter:
                state = replace(state, jittered=(*state.jittered, (target, index)))
            if keeper is not None and samples.stateless:
                keeper.on_step(_sweep_at(state, target, index + 1, cores))
        state = replace(_sweep_at(state, target, 0, cores), target=target + 1)
    return state


def _solve(
    samples: Samples,
    core: int,
    model: Model,
    gram_of_others: NDArray[Any],
    current: NDArray[Any],
    objective: Objective,
) -> CoreSolution:
    """Return one core's new value, by whichever way is cheaper."""
    if samples.iterates(core):
        sketch = samples.core_sketch(core)
        product = partial(samples.gram_product, core)
        return solve_core_iteratively(sketch, product, gram_of_others, current, objective.alpha)
    equations = samples.normal_equations(core, model.map_weights)
    return solve_core(equations, gram_of_others, current, objective.alpha, objective.kind)


def _sweep_at(state: Sweep, target: int, core: int, cores: Cores) -> Sweep:
    """Return the sweep with these cores of a target, the next of which is `core`."""
    every = list(state.model.cores)
    every[target] = list(cores)
    return Sweep(replace(state.model, cores=tuple(every)), target, core, state.jittered)


def fit(
    targets: Targets,
    objective: Objective,
    model: Model,
    stopping: Stopping,
    *,
    validation: Targets = (),
    early: Sequence[EarlyEpoch] = (),
    mix_first: bool | None = None,
    keeper: Keeper | None = None,
) -> Fit:
    """Run epochs until a stopping rule holds; know the best and the last of them.

    Where λ is learned it depends on where it starts.  `mix_first` says whether a λ step comes
    before the first sweep; None tries both.  The first epochs may see a fraction of the rows
    each, `early`; they count, but none of them is the best.  The keeper says where to go on from
    and sees every step.
    """
    keeper = keeper or Keeper()
    result = keeper.so_far
    if result is not None and _should_stop(result, stopping, len(early), bool(validation)):
        return result
    for epoch in _run_epochs(targets, objective, model, early, mix_first, keeper):
        if validation:
            error = _held_out_error(validation, objective, epoch.model)
            epoch = replace(epoch, validation_error=error)
        result = _add_epoch(result, epoch, stopping, len(early))
        stop = keeper.on_epoch(result)
        if stop or _should_stop(result, stopping, len(early), bool(validation)):
            break
    assert result is not None
    return result


def _add_epoch(result: Fit | None, epoch: Epoch, stopping: Stopping, n_early: int) -> Fit:
    """Return the fit with one more epoch."""
    if result is None:
        return Fit(epoch, epoch, (epoch.record(),))
    history = (*result.history, epoch.record())
    if epoch.number <= n_early + 1:  # the first on all rows
        return Fit(epoch, epoch, history)
    least = result.best.criterion
    stalled = result.stalled + 1 if least - epoch.criterion <= stopping.tol * abs(least) else 0
    best = epoch if epoch.criterion <= least else result.best
    return Fit(best, epoch, history, stalled)


def _should_stop(result: Fit, stopping: Stopping, n_early: int, held_out: bool) -> bool:
    """Whether a stopping rule holds; a fit never stops before one epoch on all rows."""
    if result.last.number <= n_early:
        return False
    stalls = (stopping.tol > 0 or held_out) and result.stalled >= stopping.patience
    return stalls or result.last.number >= stopping.max_iter


def _run_epochs(
    targets: Targets,
    objective: Objective,
    model: Model,
    early: Sequence[EarlyEpoch],
    mix_first: bool | None,
    keeper: Keeper,
) -> Iterator[Epoch]:
    """Yield epochs from the first, or from the one that the keeper goes on with."""
    number, under_way = 0, keeper.under_way
    resumes = keeper.so_far is not None or under_way is not None
    if keeper.so_far is not None:
        model, number = keeper.so_far.last.model, keeper.so_far.last.number
    if mix_first is None and not resumes and not early and len(model.map_weights) > 1:
        yield from _from_the_better_start(targets, objective, model)
        return
    # A fit that resumes has had its λ step already.
    mix = mix_first is not False and not resumes and len(model.map_weights) > 1
    for part in early[number:]:
        # The sum of errors has fewer terms, so the penalty is as much smaller.
        on_part = replace(objective, alpha=objective.alpha * part.fraction)
        (epoch,) = islice(epochs(part.targets, on_part, model, mix_first=mix, number=number), 1, 2)
        yield epoch
        model, number, mix = epoch.model, epoch.number, False
    start: dict[str, Any] = {"mix_first": mix, "number": number, "under_way": under_way}
    rest = epochs(targets, objective, model, **start, keeper=keeper)
    yield from islice(rest, 1, None)


def _from_the_better_start(targets: Targets, objective: Objective, model: Model) -> Iterator[Epoch]:
    """Yield the epochs of the start that is ahead after two of them.

    Without a λ step first, all maps take part from the beginning.  That must pay clearly:
    where the two are close, the step leads to smaller tensors and better predictions.
    """
    mixed, plain = (
        list(islice(epochs(targets, objective, model, mix_first=first), 1, 3))
        for first in (True, False)
    )
    ahead = plain if plain[-1].loss < 0.9 * mixed[-1].loss else mixed
    yield from ahead
    last = ahead[-1]
    rest = epochs(targets, objective, last.model, mix_first=False, number=last.number)
    yield from islice(rest, 1, None)


def _held_out_error(targets: Targets, objective: Objective, model: Model) -> float:
    """Return what early stopping judges a model by."""
    if objective.has_loss:
        return cast(LossRows, targets).loss(model).mean
    return mean_error(cast(Sequence[Samples], targets), model)


def mean_error(targets: Sequence[Samples], model: Model) -> float:
    """Return the mean squared error of a model on any rows."""
    equations = mixing_sums(targets, model)
    return equations.squared_error(model.map_weights) / equations.total_weight


def mixing_sums(targets: Sequence[Samples], model: Model) -> NormalEquations:
    """Bring every target's state to these cores; return the sums of the λ step.

    State is made anew in every epoch, so it is a function of the cores alone: rounding
    does not pile up, and a fit can be resumed or recovered at any epoch.
    """
    for samples, cores in zip(targets, model.cores, strict=True):
        samples.start(cores)
    return reduce(add, (samples.mixing_equations() for samples in targets))


def _mix(equations: NormalEquations, objective: Objective, model: Model) -> Model:
    """Return the model with its optimal λ; a single map keeps the weight it has."""
    if len(model.map_weights) == 1:
        return model
    optimum = solve_mixing(equations, objective.mixing, objective.nonnegative, objective.beta)
    return replace(model, map_weights=optimum)


def _penalties(objective: Objective, model: Model) -> float:
    norm = sum(cpd.squared_norm(cores) for cores in model.cores)
    of_maps = penalty(model.map_weights, objective.mixing, objective.beta)
    return 0.5 * objective.alpha * norm + of_maps
