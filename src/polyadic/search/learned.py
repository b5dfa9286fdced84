"""Features learned from few rows: kernels, length scales and tables, input by input.

    few rows ─► evidence of each kernel and scaling ─► the best of them on more rows
             ─► the same with directions, if that is much better ─► tables

An input's kernel is the one whose Gaussian process explains the rows best; its eigenfunctions
under the distribution of that input are the table.  Several ways to see the inputs that
explain the rows about as well make members that differ, and so a better mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from polyadic.features import MercerFeatures, Table, Tabled, TensorLayout, Unused
from polyadic.features.kernels import KERNELS
from polyadic.features.tables import (
    N_KNOTS,
    level_kernel,
    number_kernel,
    point_mass,
    positions,
    variation,
)
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
from polyadic.rows.inputs import Inputs
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import InputScaling, TargetScaling, column_ranges
from polyadic.rows.view import Trust
from polyadic.samples.workers import Workers
from polyadic.search.directions import leading_directions
from polyadic.search.gaps import Chances, learn_chances, trust_of, weigh
from polyadic.search.settings import FEW_ROWS, Settings
from polyadic.sources.data import Data

# How inputs may be scaled: by a line, by their distribution, or by the mean of both.
BLENDS = (0.5, 0.0, 1.0)
# Rows from which the distribution of each input is learned.
_SCALING_ROWS = 250_000
# Rows that all kernels and scalings are compared on, and rows that the best are learned from.
_SCREENED_ROWS = 300
_LEARNED_ROWS = {False: 600, True: 1_500}  # the latter where rows are many
_LABELLED_ROWS = 1_200  # at least, of targets of two values, which tell less than numbers
_MANY_INPUTS = 30
# A function takes part if its eigenvalue is above this, times noise over signal and rows.
_CUT, _LEAST_EIGENVALUE, _MOST_BASIS = 1.0, 1e-7, 64
_LEAST_RATIO = 1e-6  # of noise to signal
_FILLING_ROWS = 20_000  # rows from which gaps are learned to be filled in
_RATIOS = 0.0, 1.0, 3.0, 10.0, 30.0, 100.0  # signal over noise that rows with gaps are doubted by
_MOST_LEVELS = 512  # of a category that have a row of their own, the most frequent ones
# A target whose fourth moment is beyond this has heavy tails; that of a normal one is 3.
_HEAVY = 6.0
# Of a kernel of short reach: functions with smaller eigenvalues are left out.
_LEAST_OF_SHORT, _PAIRED_ROWS = 1e-3, 400
# An input takes part if its kernel varies by this much of what the most relevant one does.
_LEAST_VARIATION = 1e-3
# Directions are there if one kernel gains this much log likelihood by them, or so much for each
# row; the Gaussian kernel, which is asked first, half of it, and each that has them a fifth.
_GAIN_OF_DIRECTIONS, _GAIN_OF_A_ROW, _FIRST_GAIN, _LEAST_GAIN = 100.0, 1 / 6, 0.5, 0.2
_MOST_TURNED = 64  # numbers that directions are looked for among
_NO_DIRECTION = 30.0  # length scale along a direction that does not matter yet


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
    chances : mapping of int to ndarray
        Of each input with gaps, what may be hidden there.
    trust : Trust, optional
        How much rows with gaps tell.
    """

    scaling: InputScaling
    layout: TensorLayout
    evidence: Evidence
    chances: Chances = field(default_factory=dict)
    trust: Trust | None = None

    @property
    def alpha(self) -> float:
        """The penalty that the evidence asks for: noise over signal."""
        return max(self.evidence.noise / self.evidence.signal, _LEAST_RATIO)

    def weigh(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return how much rows in their own units tell: less than one where there are gaps."""
        return weigh(self.trust, X)


def learn_features(data: Data, settings: Settings, workers: Workers) -> list[LearnedFeatures]:
    """Return the best ways to see the inputs, the best one first."""
    rows = data.gather_about(_SCALING_ROWS, seed=0).map(on_host)
    heavy = has_heavy_tails(rows.y, rows.weight)
    scalings = _scalings(data, rows, settings)
    chances = learn_chances(scalings, rows.X, rows.weight)
    seen = _Sample(rows, data.inputs, heavy, data.view.targets, scalings, chances)
    many = data.n_distinct > FEW_ROWS
    may_turn = settings.n_basis is None
    found = []
    for way, gain in _choose_kernels(seen, workers, many, may_turn):
        evidence, blend = way.evidence, way.blend
        shown = replace(seen, scalings={blend: way.scaling})
        layout = shown.layout(blend, evidence, gain, data.n_rows, settings)
        found.append(LearnedFeatures(way.scaling, layout, evidence, chances[blend], way.trust))
    return found


def _scalings(data: Data, rows: Rows, settings: Settings) -> dict[float, InputScaling]:
    """Return the ways to scale the inputs, by their blend; all fill in gaps alike."""
    some = rows.take(slice(None, None, max(1, len(rows) // _FILLING_ROWS)))
    usual = data.view.inputs.with_filling(some.X, data.inputs, some.weight)
    found = {0.0: usual}
    if settings.scale_inputs:
        for blend in BLENDS:
            if blend:
                scaling = InputScaling.fit(rows.X, data.inputs, blend=blend, weight=rows.weight)
                found[blend] = scaling.fill_as(usual)
    return found


@dataclass(frozen=True)
class _Sample:
    """Rows in memory in their own units, what their inputs are, and the ways to scale them.

    What a scaling makes of rows has a column for each input, flag of a gap, and direction.
    """

    rows: Rows
    inputs: Inputs
    heavy: NDArray[np.bool_]  # which targets have heavy tails
    targets: TargetScaling
    scalings: dict[float, InputScaling]
    chances: dict[float, Chances]

    def take(self, n_rows: int) -> _Sample:
        """Return some of the rows, copies merged: to the evidence they seem to be without noise."""
        # By a hash of their own units, so that neither order nor rounding of targets matters.
        index = np.argsort(row_hash([self.rows.X, self.rows.y], 1), kind="stable")[:n_rows]
        return replace(self, rows=merge_copies(self.rows.take(index)))

    @property
    def y(self) -> NDArray[np.float64]:
        """The standardised targets, by their ranks where a few rows would outweigh all others."""
        return np.column_stack(
            [
                normal_scores(column, self.rows.weight) if heavy else self.targets.apply(column, t)
                for t, (column, heavy) in enumerate(zip(self.rows.y.T, self.heavy, strict=True))
            ]
        )

    @property
    def has_labels(self) -> bool:
        """Whether targets say one of two things of a row each."""
        return all(len(np.unique(column)) <= 2 for column in self.rows.y.T)

    @cached_property
    def n_levels(self) -> tuple[int, ...]:
        """How many levels each column has: two for a flag, none for a number."""
        return levels_of(self.inputs, next(iter(self.scalings.values())))

    @property
    def levels(self) -> NDArray[np.bool_]:
        """Which columns are codes of levels."""
        return np.array(self.n_levels) > 0

    def scaled(self, blend: float) -> NDArray[np.float64]:
        """Return what length scales are learned on; a missing level is one more level."""
        seen = self.see(blend)
        fill = np.where(self.levels, -1.0, seen.middles)
        return np.where(np.isnan(seen.X), fill, seen.X)

    def see(self, blend: float) -> _Seen:
        """Return the rows as a scaling shows them, numbers in units of their range."""
        scaling = self.scalings[blend]
        X = np.asarray(scaling.apply(self.rows.X, apart=False))
        low, high = np.zeros(X.shape[1]), np.ones(X.shape[1])
        # Beside what is scaled to the unit interval there is what users scaled.
        own = [len(values) == 1 for values in scaling.values] + [False] * len(scaling.flagged)
        own += [True] * (scaling.n_columns - len(own))  # directions have ranges of their own
        if any(own):
            least, greatest, _ = column_ranges(X)
            low, high = np.where(own, least, low), np.where(own, greatest, high)
        for d, ends in zip(scaling.flagged, scaling.ends, strict=True):
            low[d], high[d] = ends
        span = np.where((high > low) & ~self.levels, high - low, 1.0)
        X = (X - np.where(self.levels, 0.0, low)) / span
        there = ~np.isnan(X)
        weight = there if self.rows.weight is None else there * self.rows.weight[:, None]
        sums, total = (weight * np.nan_to_num(X)).sum(axis=0), weight.sum(axis=0)
        return _Seen(X, low, high, span, np.asarray(sums / np.where(total > 0, total, 1)))

    def layout(
        self, blend: float, evidence: Evidence, gain: float, n_rows: int, settings: Settings
    ) -> TensorLayout:
        """Return the tables of one kernel; inputs that do not matter take no part.

        Length scales follow noise as well, and rows that they were learned from cannot judge
        them later.  So by Akaike's rule each, the signal and the noise must gain one unit of
        log evidence over noise alone.
        """
        axes = self._axes(blend, evidence)
        ratio = max(evidence.noise / evidence.signal, _LEAST_RATIO)
        least = max(_CUT * ratio / n_rows, _LEAST_EIGENVALUE)
        most = max(axis.variation for axis in axes)
        inputs: list[Tabled | Unused] = []
        for d, axis in enumerate(axes):
            fixed = (
                None
                if settings.n_basis is None or d >= len(settings.n_basis)
                else settings.n_basis[d]
            )
            needed = max(least, _LEAST_VARIATION**axis.smoothness * most)
            if axis.is_constant or fixed == 1 or (fixed is None and axis.variation < needed):
                inputs.append(Unused())
                continue
            table = axis.table(fixed, least)
            inputs.append(Tabled(table) if table.n_basis > 1 else Unused())
        used = sum(each.table is not None for each in inputs)
        if settings.n_basis is None and gain < used + 2:
            inputs = [Unused()] * len(inputs)
        lengths = evidence.length_scales[: len(inputs)]
        if all(each.table is None for each in inputs):
            inputs[int(np.argmin(lengths))] = Tabled(_constant())
        typical = float(np.exp(np.median(np.log(lengths))))
        return TensorLayout((MercerFeatures(evidence.kernel, typical),), tuple(inputs))

    def _axes(self, blend: float, evidence: Evidence) -> list[_Number | _Category]:
        """Return what is known of each column besides how finely it is to be resolved."""
        seen, lengths, weight = self.see(blend), evidence.length_scales, self.rows.weight
        axes: list[_Number | _Category] = []
        for d, n_levels in enumerate(self.n_levels):
            if n_levels:
                axes.append(_Category.of(seen.X[:, d], weight, n_levels, lengths[d]))
                continue
            middle = float(seen.middles[d])
            place = positions(np.nan_to_num(seen.X[:, d], nan=middle), 0.0, 1.0)
            ends = (float(seen.low[d]), float(seen.high[d]))
            mass = point_mass(place, N_KNOTS, weight)
            chances = self.chances[blend].get(d)
            axes.append(_Number(evidence.kernel, lengths[d], ends, mass, middle, chances))
        return axes


@dataclass(frozen=True)
class _Seen:
    """Rows as a scaling shows them: numbers in units of their range, and levels by their codes.

    `span` is that range, 1 where there is none; `middles` what a gap of each number is like that
    is not filled in: the mean of all.
    """

    X: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    span: NDArray[np.float64]
    middles: NDArray[np.float64]


@dataclass(frozen=True)
class _Number:
    """A number: its kernel, range, where its rows are, their middle, and what gaps may hide."""

    kernel: str
    length_scale: float
    ends: tuple[float, float]
    mass: NDArray[np.float64]
    middle: float
    chances: NDArray[np.float64] | None = None

    @property
    def is_constant(self) -> bool:
        """Whether all rows say the same."""
        low, high = self.ends
        return not low < high

    @property
    def smoothness(self) -> int:
        """The power of its length scale that the variation of a kernel falls with."""
        return 1 if self.kernel == "matern12" else 2

    @cached_property
    def variation(self) -> float:
        """How much the kernel varies over the rows."""
        return variation(number_kernel(self.kernel, self.length_scale), self.mass)

    def table(self, n_basis: int | None, least: float) -> Table:
        """Return the table of so many functions, or of those that count."""
        low, high = self.ends
        return Table.mercer(
            self.kernel,
            self.length_scale,
            low=low,
            high=high,
            mass=self.mass,
            middle=self.middle,
            chances=self.chances,
            n_basis=n_basis,
            least=least,
            most=_MOST_BASIS,
        )


@dataclass(frozen=True)
class _Category:
    """A category: the mass of its levels, that of gaps last, and how alike levels are."""

    length_scale: float
    mass: NDArray[np.float64]
    has_gaps: bool
    smoothness = 1

    @classmethod
    def of(
        cls,
        codes: NDArray[np.float64],
        weight: NDArray[Any] | None,
        n_levels: int,
        length_scale: float,
    ) -> _Category:
        """Return the most frequent levels; the others share what is said of an unseen one."""
        kept, has_gaps = min(n_levels, _MOST_LEVELS), bool(np.isnan(codes).any())
        place = np.where(np.isnan(codes), kept + 1, np.minimum(codes, kept))
        mass = point_mass(place, kept + 2, weight)
        return cls(length_scale, mass[[*range(kept), *([kept + 1] if has_gaps else [])]], has_gaps)

    @property
    def is_constant(self) -> bool:
        """Whether all rows say the same."""
        return bool((self.mass > 0).sum() < 2)

    @cached_property
    def variation(self) -> float:
        """How much the kernel varies over the rows."""
        return variation(level_kernel(len(self.mass), self.length_scale), self.mass)

    def table(self, n_basis: int | None, least: float) -> Table:
        """Return the table of so many functions, or of those that count."""
        n_basis = None if n_basis is None else min(n_basis, len(self.mass))
        return Table.of_levels(
            self.length_scale,
            self.mass,
            has_gaps=self.has_gaps,
            n_basis=n_basis,
            least=least,
            most=_MOST_LEVELS,
        )


def short_tables(
    features: LearnedFeatures,
    inputs: Inputs,
    X: NDArray[np.float64],
    reach: float,
    of_all: bool = False,
) -> TensorLayout | None:
    """Return tables of a kernel that falls alike along inputs, or None if none of them varies.

    The kernel of two rows at the usual distance is exp(−1/reach).  Inputs are those that features
    were learned of, or all of them.
    """
    scaling, used = features.scaling, features.layout.inputs
    scaled = np.asarray(scaling.apply(X, apart=False))
    of_gaps = dict(zip(scaling.flagged, scaling.ends, strict=True))
    n_levels = levels_of(inputs, scaling)
    axes: dict[int, tuple[NDArray[np.float64], tuple[float, float]]] = {}
    distance = np.zeros((min(len(X), _PAIRED_ROWS),) * 2)
    for d, (x, each) in enumerate(zip(scaled.T, used, strict=True)):
        if each.table is None and not of_all:
            continue
        known, ends = x[~np.isnan(x)], (0.0, 1.0)
        if not n_levels[d]:
            if not known.size or known.min() == known.max():
                continue
            ends = float(known.min()), float(known.max())
            if each.table is not None and each.table.n_basis > 1:
                ends = each.table.low, each.table.high
            ends = of_gaps.get(d, ends)
            x = np.nan_to_num((x - ends[0]) / (ends[1] - ends[0]), nan=0.5)
        axes[d] = x, ends
        some = np.nan_to_num(x[:_PAIRED_ROWS], nan=-1.0)  # a missing level is one more
        distance += np.minimum(np.abs(some[:, None] - some), 1)
    length = reach * float(np.median(distance))
    if length <= 0:
        return None

    def short(d: int) -> Tabled | Unused:
        if d not in axes:
            return Unused()
        axis: _Number | _Category
        x, ends = axes[d]
        if n_levels[d]:
            axis = _Category.of(x, None, n_levels[d], length)
        else:
            mass = point_mass(positions(x, 0.0, 1.0), N_KNOTS, None)
            axis = _Number("matern12", length, ends, mass, 0.5, features.chances.get(d))
        return Unused() if axis.is_constant else Tabled(axis.table(None, _LEAST_OF_SHORT))

    layout = tuple(short(d) for d in range(len(used)))
    return TensorLayout((MercerFeatures("matern12", length),), layout)


def levels_of(inputs: Inputs, scaling: InputScaling) -> tuple[int, ...]:
    """Return how many levels each column of scaled rows has: two for a flag, none for a number."""
    flags = (2,) * len(scaling.flagged)
    n_directions = scaling.n_columns - len(inputs) - len(flags)
    return (*inputs.n_levels, *flags, *(0,) * n_directions)


def has_heavy_tails(y: NDArray[Any], weight: NDArray[Any] | None) -> NDArray[np.bool_]:
    """Return which targets have rows so far out that a Gaussian process follows little else.

    The evidence explains such a row by a spike, which is a short length scale without noise.
    """
    y = y / np.maximum(np.abs(y).max(axis=0), np.finfo(float).tiny)
    y = y - np.average(y, axis=0, weights=weight)
    second, fourth = (np.average(y**power, axis=0, weights=weight) for power in (2, 4))
    return np.asarray(fourth > _HEAVY * second**2)


def normal_scores(y: NDArray[Any], weight: NDArray[Any] | None) -> NDArray[np.float64]:
    """Return what normal numbers of the same ranks would be, equal for equal values."""
    _, inverse = np.unique(y, return_inverse=True)
    count = np.bincount(inverse, weights=weight)
    share = (np.cumsum(count) - count / 2) / count.sum()
    scores = ndtri(share)[inverse]
    return np.asarray(scores / max(float(scores.std()), np.finfo(float).tiny))


def _constant() -> Table:
    """Return the table of a model that says the same for every row."""
    return Table.mercer("rbf", 1e4, n_basis=1, middle=0.5)


@dataclass(frozen=True)
class _Way:
    """A kernel of scaled inputs, and how well it explains some rows.

    `value` is the log evidence and the log density of rows left out, for each row and target.
    """

    blend: float
    scaling: InputScaling
    evidence: Evidence
    trust: Trust | None
    value: float


def _choose_kernels(
    sample: _Sample, workers: Workers, many: bool, may_turn: bool
) -> list[tuple[_Way, float]]:
    """Return scalings and kernels, best first: judged on few rows, then learned from more.

    With each comes what it gains over noise alone, in units of log evidence.
    """
    n_learned = max(_LEARNED_ROWS[many], _LABELLED_ROWS if sample.has_labels else 0)
    few, more = sample.take(_SCREENED_ROWS), sample.take(n_learned)
    scaled = {blend: few.scaled(blend) for blend in BLENDS if blend in sample.scalings}
    sparse = len(few.levels) > _MANY_INPUTS
    screened = screen(
        scaled,
        few.y,
        weight=few.rows.weight,
        levels=few.levels,
        sparse=sparse,
        max_evaluations=25,
    )
    # Few rows tell the scaling, but not which kernel all rows want: held-out rows will.
    best_views = [next(each for each in screened if each[1] == kernel) for kernel in KERNELS]
    views = workers.map(lambda view: _doubt_gaps(more, view[0], view[2]), best_views)
    # Two climbs find more: one goes on from what fewer rows said and lets inputs go, the other
    # begins afresh and keeps them, unless they are many.
    starts = [(False, sparse)] if many else [(False, sparse), (True, True)]
    climbs = [
        (blend, evidence.kernel, trust, evidence if warm else None, prior)
        for blend, evidence, trust in views
        for warm, prior in starts
    ]
    learned = workers.map(lambda climb: _learn(more, *climb), climbs)
    best: dict[tuple[float, str], _Way] = {}
    for each in learned:
        key = each.blend, each.evidence.kernel
        if key not in best or each.value > best[key].value:
            best[key] = each
    ways = list(best.values())
    if may_turn:
        ways = _turn(more, ways, workers)
    y, noise = more.y, noise_evidence(more.y, more.rows.weight)
    # Where rows are many, most that judge are others.
    return [
        (way, np.inf if many else y.size * (way.evidence.value - noise))
        for way in sorted(ways, key=lambda way: -way.value)
    ]


def _turn(sample: _Sample, ways: list[_Way], workers: Workers) -> list[_Way]:
    """Return ways with directions, where these explain rows much better.

    The Gaussian kernel, which finds them, is asked first, on no more rows than a few.
    """
    is_filled = any(scaling.filling is not None for scaling in sample.scalings.values())
    n_numbers = int((~sample.levels).sum())
    if is_filled or sample.has_labels or not 2 <= n_numbers <= _MOST_TURNED:
        return ways

    def gain(sample: _Sample, turned: _Way, way: _Way) -> float:
        """Return what is gained, in units of what is enough."""
        size = sample.y.size
        enough = max(_GAIN_OF_DIRECTIONS, _GAIN_OF_A_ROW * size)
        return size * (turned.value - way.value) / enough

    smooth = next(way for way in ways if way.evidence.kernel == "rbf")
    few, first = sample, smooth
    if len(sample.rows) > _LEARNED_ROWS[False]:
        few = sample.take(_LEARNED_ROWS[False])
        first = _learn(few, first.blend, "rbf", first.trust, first.evidence, False, 5)
    tried = _along_directions(few, first, first)
    if gain(few, tried, first) < _FIRST_GAIN:
        return ways
    known = {"rbf": tried} if few is sample else {}
    rest = [way for way in ways if way.evidence.kernel not in known]
    found = workers.map(lambda way: _along_directions(sample, way, smooth), rest)
    known |= {way.evidence.kernel: way for way in found}
    gains = [gain(sample, known[way.evidence.kernel], way) for way in ways]
    if max(gains) < 1:
        return ways
    return [
        known[way.evidence.kernel] if gained > _LEAST_GAIN else way
        for way, gained in zip(ways, gains, strict=True)
    ]


def _along_directions(sample: _Sample, way: _Way, smooth: _Way) -> _Way:
    """Return a way that also sees the directions of a smooth one."""
    blend, weight = way.blend, sample.rows.weight
    if smooth.blend != blend:
        smooth = _learn(sample, blend, "rbf", way.trust, None, False)
    seen = sample.see(blend)
    V = leading_directions(sample.scaled(blend), sample.y, smooth.evidence, weight, sample.levels)
    scaling = replace(way.scaling, directions=V / seen.span[:, None])
    turned = replace(sample, scalings={blend: scaling})
    # As before: one climb goes on, the other begins afresh.
    lengths = np.append(way.evidence.length_scales, np.full(V.shape[1], _NO_DIRECTION))
    starts = [(replace(way.evidence, length_scales=lengths), False), (None, True)]
    kernel = way.evidence.kernel
    climbs = [_learn(turned, blend, kernel, way.trust, *start) for start in starts]
    return max(climbs, key=lambda each: each.value)


def _doubt_gaps(
    sample: _Sample, blend: float, found: Evidence
) -> tuple[float, Evidence, Trust | None]:
    """Return what rows say of a kernel once they say how much those with gaps are doubted.

    The kernel alone would say too much where signal is strong, and noise is not known before.
    """
    scaling, chances = sample.scalings[blend], sample.chances[blend]
    if not chances or sample.has_labels:
        return blend, found, None
    tried = (
        _learn(
            sample, blend, found.kernel, trust_of(scaling, chances, found, ratio), found, False, 4
        )
        for ratio in _RATIOS
    )
    ratio, best = max(zip(_RATIOS, tried, strict=True), key=lambda each: each[1].value)
    return blend, best.evidence, trust_of(scaling, chances, best.evidence, ratio)


def _learn(
    sample: _Sample,
    blend: float,
    kernel: str,
    trust: Trust | None,
    start: Evidence | None,
    sparse: bool,
    max_evaluations: int = 20,
) -> _Way:
    """Return how good a kernel is and what more rows say of it, with what they are trusted by.

    The evidence alone is partial to kernels that are sure of themselves; leaving rows out
    tells which of them predict.
    """
    X, y, rows = sample.scaled(blend), sample.y, sample.rows
    usual = np.ones(len(rows)) if rows.weight is None else rows.weight
    weight = usual * weigh(trust, rows.X)
    evidence = maximise_evidence(
        X,
        y,
        kernel,
        weight=weight,
        levels=sample.levels,
        start=start,
        sparse=sparse,
        max_evaluations=max_evaluations,
    )
    value = evidence.value + leave_one_out(X, y, evidence, weight, sample.levels)
    # Noise is that of a usual row without gaps.
    noise = evidence.noise * float(weight.mean() / usual.mean())
    return _Way(blend, sample.scalings[blend], replace(evidence, noise=noise), trust, value)
