"""Features learned from few rows: kernels, length scales and tables, input by input.

    few rows ─► evidence of each kernel and scaling ─► the best of them on more rows ─► tables

An input's kernel is the one whose Gaussian process explains the rows best; its eigenfunctions
under the distribution of that input are the table.  Several ways to see the inputs that
explain the rows about as well make members that differ, and so a better mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyadic.features import MercerFeatures, Table, Tabled, TensorLayout, Unused
from polyadic.features.kernels import KERNELS
from polyadic.features.tables import knot_mass, positions, variation
from polyadic.model.evidence import (
    Evidence,
    leave_one_out,
    maximise_evidence,
    noise_evidence,
    screen,
)
from polyadic.rows.arrays import on_host
from polyadic.rows.copies import merge_copies
from polyadic.rows.holdout import row_hash
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import InputScaling, TargetScaling
from polyadic.samples.workers import Workers
from polyadic.search.settings import FEW_ROWS, Settings
from polyadic.sources.data import Data

# How inputs may be scaled: by a line, by their distribution, or by the mean of both.
BLENDS = (0.5, 0.0, 1.0)
# Rows from which the distribution of each input is learned.
_SCALING_ROWS = 250_000
# Rows that all kernels and scalings are compared on, and rows that the best are learned from.
_SCREENED_ROWS = 300
_LEARNED_ROWS = {False: 600, True: 1_500}  # the latter where rows are many
_MANY_INPUTS = 30
# A function takes part if its eigenvalue is above this, times noise over signal and rows.
_CUT, _LEAST_EIGENVALUE, _MOST_BASIS = 1.0, 1e-7, 64
_LEAST_RATIO = 1e-6  # of noise to signal
# An input takes part if its kernel varies by this much of what the most relevant one does.
_LEAST_VARIATION = 1e-3


@dataclass(frozen=True)
class LearnedFeatures:
    """One way to see the inputs.

    Parameters
    ----------
    scaling : InputScaling
        What becomes of the inputs.
    layout : TensorLayout
        The table of each input.
    evidence : Evidence
        What the tables are made from.
    """

    scaling: InputScaling
    layout: TensorLayout
    evidence: Evidence

    @property
    def alpha(self) -> float:
        """The penalty that the evidence asks for: noise over signal."""
        return max(self.evidence.noise / self.evidence.signal, _LEAST_RATIO)


def learn_features(
    data: Data, names: Sequence[str], settings: Settings, workers: Workers
) -> list[LearnedFeatures]:
    """Return the best ways to see the inputs, the best one first."""
    rows = data.gather_about(_SCALING_ROWS, seed=0).map(on_host)
    scalings = {0.0: data.view.inputs}
    if settings.scale_inputs:
        for blend in BLENDS:
            if blend:
                scalings[blend] = InputScaling.fit(rows.X, names, blend=blend, weight=rows.weight)
    seen, many = _Sample(rows, data.view.targets, scalings), data.n_distinct > FEW_ROWS
    found = []
    for blend, evidence, gain in _choose_kernels(seen, workers, many):
        layout = seen.layout(blend, evidence, gain, data.n_rows, settings)
        found.append(LearnedFeatures(scalings[blend], layout, evidence))
    return found


@dataclass(frozen=True)
class _Sample:
    """Rows in memory in their own units, and the ways to scale them."""

    rows: Rows
    targets: TargetScaling
    scalings: dict[float, InputScaling]

    def take(self, n_rows: int) -> _Sample:
        """Return some of the rows, copies merged: to the evidence they seem to be without noise."""
        # By a hash of their own units, so that neither order nor rounding of targets matters.
        index = np.argsort(row_hash([self.rows.X, self.rows.y], 1), kind="stable")[:n_rows]
        return _Sample(merge_copies(self.rows.take(index)), self.targets, self.scalings)

    @property
    def y(self) -> NDArray[np.float64]:
        """The standardised targets."""
        columns = enumerate(self.rows.y.T)
        return np.column_stack([self.targets.apply(column, t) for t, column in columns])

    def scaled(self, blend: float) -> NDArray[np.float64]:
        """Return the inputs in units of their range, on which length scales are learned."""
        X = np.asarray(self.scalings[blend].apply(self.rows.X))
        low, high = self.range(blend)
        return (X - low) / np.where(high > low, high - low, 1.0)

    def range(self, blend: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends of the scaled inputs: the unit interval, or what users scaled them to."""
        scaled = [len(values) > 1 for values in self.scalings[blend].values]
        if all(scaled):
            return np.zeros(len(scaled)), np.ones(len(scaled))
        X = np.asarray(self.scalings[blend].apply(self.rows.X))
        return np.where(scaled, 0.0, X.min(axis=0)), np.where(scaled, 1.0, X.max(axis=0))

    def layout(
        self, blend: float, evidence: Evidence, gain: float, n_rows: int, settings: Settings
    ) -> TensorLayout:
        """Return the tables of one kernel; inputs that do not matter take no part.

        Length scales follow noise as well, and rows that they were learned from cannot judge
        them later.  So by Akaike's rule each, the signal and the noise must gain one unit of
        log evidence over noise alone.
        """
        X, (low, high) = np.asarray(self.scalings[blend].apply(self.rows.X)), self.range(blend)
        ratio = max(evidence.noise / evidence.signal, _LEAST_RATIO)
        lengths, kernel = evidence.length_scales, evidence.kernel
        masses = [
            knot_mass(positions(X[:, d], low[d], high[d]), self.rows.weight)
            for d in range(len(lengths))
        ]
        varies = [variation(kernel, *each) for each in zip(lengths, masses, strict=True)]
        least = max(_CUT * ratio / n_rows, _LEAST_EIGENVALUE)
        # The variation of a smooth kernel falls with the square of its length scale.
        power = 1 if kernel == "matern12" else 2
        needed = max(least, _LEAST_VARIATION**power * max(varies))
        inputs: list[Tabled | Unused] = []
        for d, mass in enumerate(masses):
            fixed = None if settings.n_basis is None else settings.n_basis[d]
            if high[d] <= low[d] or fixed == 1 or (fixed is None and varies[d] < needed):
                inputs.append(Unused())
                continue
            table = Table.mercer(
                kernel,
                lengths[d],
                low=float(low[d]),
                high=float(high[d]),
                mass=mass,
                n_basis=fixed,
                least=least,
                most=_MOST_BASIS,
            )
            inputs.append(Tabled(table) if table.n_basis > 1 else Unused())
        used = sum(type(each) is Tabled for each in inputs)
        if settings.n_basis is None and gain < used + 2:
            inputs = [Unused()] * len(inputs)
        if all(type(each) is Unused for each in inputs):
            inputs[int(np.argmin(lengths))] = Tabled(_constant())
        typical = float(np.exp(np.median(np.log(lengths))))
        return TensorLayout((MercerFeatures(kernel, typical),), tuple(inputs))


def _constant() -> Table:
    """Return the table of a model that says the same for every row."""
    return Table.mercer("rbf", 1e4, n_basis=1)


def _choose_kernels(
    sample: _Sample, workers: Workers, many: bool
) -> list[tuple[float, Evidence, float]]:
    """Return scalings and kernels, best first: judged on few rows, then learned from more.

    With each comes what it gains over noise alone, in units of log evidence.
    """
    few, more = sample.take(_SCREENED_ROWS), sample.take(_LEARNED_ROWS[many])
    views = {blend: few.scaled(blend) for blend in BLENDS if blend in sample.scalings}
    sparse = few.rows.X.shape[1] > _MANY_INPUTS
    screened = screen(views, few.y, weight=few.rows.weight, sparse=sparse, max_evaluations=25)
    # Few rows tell the scaling, but not which kernel all rows want: held-out rows will.
    best_views = [next(each for each in screened if each[1] == kernel) for kernel in KERNELS]
    # Two climbs find more: one goes on from what fewer rows said and lets inputs go, the other
    # begins afresh and keeps them, unless they are many.
    starts = [(None, sparse)] if many else [(None, sparse), (True, True)]
    climbs = [(b, e, e if warm else None, p) for b, _, e in best_views for warm, p in starts]
    learned = workers.map(lambda climb: _learn(more, *climb), climbs)
    best: dict[tuple[float, str], tuple[float, Evidence]] = {}
    for (blend, *_), (value, evidence) in zip(climbs, learned, strict=True):
        key = blend, evidence.kernel
        if key not in best or value > best[key][0]:
            best[key] = value, evidence
    ranked = sorted(best.items(), key=lambda each: -each[1][0])
    y, noise = more.y, noise_evidence(more.y, more.rows.weight)
    # Where rows are many, most that judge are others.
    gains = [np.inf if many else y.size * (e.value - noise) for _, (_, e) in ranked]
    return [(blend, e, gain) for ((blend, _), (_, e)), gain in zip(ranked, gains, strict=True)]


def _learn(
    sample: _Sample, blend: float, found: Evidence, start: Evidence | None, sparse: bool
) -> tuple[float, Evidence]:
    """Return what more rows say of a kernel, and how good it is.

    The evidence alone is partial to kernels that are sure of themselves; leaving rows out
    tells which of them predict.
    """
    X, rows = sample.scaled(blend), sample.rows
    evidence = maximise_evidence(
        X,
        sample.y,
        found.kernel,
        weight=rows.weight,
        start=start,
        sparse=sparse,
        max_evaluations=20,
    )
    return evidence.value + leave_one_out(X, sample.y, evidence, rows.weight), evidence
