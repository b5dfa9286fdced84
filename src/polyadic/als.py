"""Alternating least squares: the driver.  It sees sums, never rows.

    start ─► λ step ─► epoch ─► epoch ─► …

    epoch = sweep (for each core: sums ─► solve ─► commit) ─► rebalance ─► start ─► λ step

With several targets each has a weight tensor and samples of its own; they share λ, whose
sums are added over the targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import islice
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic import cpd
from polyadic.cpd import Cores
from polyadic.mixing import penalty, solve_mixing
from polyadic.normal import NormalEquations, solve_core
from polyadic.samples import Samples


@dataclass(frozen=True)
class Objective:
    """What is minimised: ½‖y − Σₚ λₚΦₚw‖² + ½α‖w‖² + β·Reg(λ)."""

    alpha: float
    beta: float = 0.0
    mixing: str = "simplex"
    nonnegative: bool = False
    kind: str = "real"


@dataclass(frozen=True)
class Model:
    """What is learned: one list of cores for each target, and the shared weights λ."""

    cores: tuple[Cores, ...]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class Epoch:
    """Where a fit stands after one epoch.

    Parameters
    ----------
    number : int
        1 for the first epoch; 0 before it.
    model : Model
        The model at this point.
    loss : float
        The objective on the training rows, divided by the sum of their weights.
    error : float
        Mean squared error on the training rows.
    jittered : tuple of (int, int)
        The (target, core) pairs whose systems were singular in this epoch.
    validation_error : float or None
        Mean squared error on the held-out rows, where there are any.
    """

    number: int
    model: Model
    loss: float
    error: float
    jittered: tuple[tuple[int, int], ...] = ()
    validation_error: float | None = None

    @property
    def criterion(self) -> float:
        """What the best epoch has least of."""
        return self.loss if self.validation_error is None else self.validation_error


@dataclass
class Fit:
    """The history of a fit and its best epoch."""

    best: Epoch
    epochs: list[Epoch] = field(default_factory=list)
    converged: bool = False


@dataclass(frozen=True)
class Stopping:
    """When to stop: after `max_iter` epochs, or `patience` of them that gain under `tol`.

    A `tol` of zero leaves only `max_iter`, or with held-out rows the epochs without any gain.
    """

    max_iter: int
    tol: float = 0.0
    patience: int = 1


def epochs(
    targets: Sequence[Samples],
    objective: Objective,
    model: Model,
    *,
    mix_first: bool = True,
    number: int = 0,
) -> Iterator[Epoch]:
    """Yield the fit after each epoch, without end; the first one is the start itself.

    Parameters
    ----------
    targets : sequence of Samples
        The rows of each target.
    objective : Objective
        What is minimised.
    model : Model
        Where to start from.
    mix_first : bool
        Whether a λ step comes before the first sweep, as in the paper's own code.
    number : int
        What the start is counted as.
    """
    equations = mixing_sums(targets, model)
    if mix_first:
        mixed = _mix(equations, objective, model)
        # A random tensor may please no map; all-zero weights would end the fit right here.
        model = mixed if mixed.weights.any() else model
    jittered: list[tuple[int, int]] = []
    while True:
        error = equations.squared_error(model.weights)
        loss = 0.5 * error + _penalties(objective, model)
        yield Epoch(
            number, model, loss / equations.weight, error / equations.weight, tuple(jittered)
        )
        model, jittered = sweep(targets, objective, model)
        model = replace(model, cores=tuple(cpd.rebalance(cores) for cores in model.cores))
        equations = mixing_sums(targets, model)
        model = _mix(equations, objective, model)
        number += 1


def sweep(
    targets: Sequence[Samples],
    objective: Objective,
    model: Model,
    on_step: Callable[[Model], None] | None = None,
) -> tuple[Model, list[tuple[int, int]]]:
    """Update every core of every target once; return the model and the singular steps."""
    jittered = []
    all_cores = [list(cores) for cores in model.cores]
    for target, (samples, cores) in enumerate(zip(targets, all_cores, strict=True)):
        after = cpd.later_gram_products(cores)
        before: NDArray[Any] = np.ones_like(after[0])
        for index, core in enumerate(cores):
            equations = samples.normal_equations(index, model.weights)
            others = before * after[index]
            solution = solve_core(equations, others, core, objective.alpha, objective.kind)
            samples.commit(index, solution.value)
            cores[index], before = solution.value, before * cpd.gram(solution.value)
            if solution.jitter:
                jittered.append((target, index))
            if on_step is not None:
                on_step(replace(model, cores=tuple(list(cores) for cores in all_cores)))
    return replace(model, cores=tuple(all_cores)), jittered


def fit(
    targets: Sequence[Samples],
    objective: Objective,
    model: Model,
    stopping: Stopping,
    *,
    validation: Sequence[Samples] = (),
    mix_first: bool | None = None,
    on_epoch: Callable[[Epoch], bool | None] | None = None,
) -> Fit:
    """Run epochs until a stopping rule holds; keep them all, and know the best.

    Where λ is learned it depends on where it starts.  `mix_first` says whether a λ step comes
    before the first sweep; None tries both.  `on_epoch` sees each epoch as it ends and stops
    the fit by returning true.
    """
    result: Fit | None = None
    stalled = 0
    if mix_first is None and len(model.weights) > 1:
        stream = _from_the_better_start(targets, objective, model)
    else:
        stream = epochs(targets, objective, model, mix_first=bool(mix_first))
    for epoch in stream:
        if validation:
            epoch = replace(epoch, validation_error=mean_error(validation, epoch.model))
        if result is None:
            result = Fit(best=epoch)
            continue
        result.epochs.append(epoch)
        gain = result.best.criterion - epoch.criterion
        stalled = stalled + 1 if gain <= stopping.tol * abs(result.best.criterion) else 0
        if epoch.criterion <= result.best.criterion or epoch.number == 1:
            result.best = epoch
        if on_epoch is not None and on_epoch(epoch):
            break
        if (stopping.tol > 0 or validation) and stalled >= stopping.patience:
            result.converged = True
            break
        if epoch.number >= stopping.max_iter:
            break
    assert result is not None
    return result


def _from_the_better_start(
    targets: Sequence[Samples], objective: Objective, model: Model
) -> Iterator[Epoch]:
    """Yield the epochs of the start that is ahead after two of them.

    Without a λ step first, all maps take part from the beginning.  That must pay clearly:
    where the two are close, the step leads to smaller tensors and better predictions.
    """
    mixed, plain = (
        list(islice(epochs(targets, objective, model, mix_first=first), 3))
        for first in (True, False)
    )
    ahead = plain if plain[-1].loss < 0.9 * mixed[-1].loss else mixed
    yield from ahead
    last = ahead[-1]
    rest = epochs(targets, objective, last.model, mix_first=False, number=last.number)
    yield from islice(rest, 1, None)


def mean_error(targets: Sequence[Samples], model: Model) -> float:
    """Return the mean squared error of a model on any rows."""
    equations = mixing_sums(targets, model)
    return equations.squared_error(model.weights) / equations.weight


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
    if len(model.weights) == 1:
        return model
    weights = solve_mixing(equations, objective.mixing, objective.nonnegative, objective.beta)
    return replace(model, weights=weights)


def _penalties(objective: Objective, model: Model) -> float:
    norm = sum(cpd.squared_norm(cores) for cores in model.cores)
    return 0.5 * objective.alpha * norm + penalty(model.weights, objective.mixing, objective.beta)
