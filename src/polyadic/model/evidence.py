"""The evidence of a Gaussian process: which kernel, and how long it reaches along each input.

    y = f(x) + e,   cov f = signal · Π_d k(|x_d − x'_d| / ℓ_d),   var e = noise / weight

Its log evidence log p(y | X, ℓ, signal, noise) is exact and has an exact gradient, so that the
length scales of some hundreds of rows are found by a few dozen steps of L-BFGS.  An input that
does not matter ends with a long length scale.

Of a category, two levels are the same or are not: its factor is 1 or exp(−1/ℓ), so that a long
length scale takes the levels together and a short one tells them apart.

For length scales and a ratio noise/signal the best signal is known in closed form, so only
these are searched for; the gradient is the partial one, as the signal is at its best.

The factorisations are BLAS's, which the caller holds to one thread, as for any fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack
from scipy.optimize import minimize

from polyadic.features.kernels import KERNELS, log_kernel

K = TypeVar("K", bound=Hashable)
# Returns the log density of log length scales, and its slopes.
_Prior = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]

SHORTEST, LONGEST = 1e-2, 1e4  # length scales, in units of scaled inputs
RATIOS = (1e-6, 1e3)  # noise over signal
_JITTER = 1e-8  # beside the signal's 1; keeps the factorisation sound where rows are heavy
_LEAST_WEIGHT = 1e-9  # beside a mean of 1
_LEAST_SIGNAL = 1e-12
_NOTHING = 1e10  # minus this is the value where there is no factorisation
_FIRST_RATIO = 0.1
_FIRST_EVALUATIONS = 5  # of the first stage
_LONG = math.log(10.0)  # above the even start, the longest length scale that is taken over
_BLOCK = 128  # rows of a triangle that is inverted in one go
_PACE = 5  # evaluations over which the pace of a search is taken


@dataclass(frozen=True)
class Evidence:
    """A kernel at the maximum of the evidence.

    Parameters
    ----------
    kernel : {"matern12", "matern32", "rbf"}
        The kernel along each input; these are multiplied.
    length_scales : ndarray of shape (D,)
        How far the kernel reaches along each input, in units of the scaled inputs.
    signal, noise : float
        Variances of the function and of the noise, in units of the scaled targets.
    value : float
        Log evidence for each row and target, the prior of the length scales included.
    evaluations : int
        How often the evidence was computed.
    """

    kernel: str
    length_scales: NDArray[np.float64]
    signal: float
    noise: float
    value: float
    evaluations: int = 0


def log_evidence(
    X: NDArray[Any],
    y: NDArray[Any],
    kernel: str,
    length_scales: NDArray[Any],
    signal: float,
    noise: float,
    weight: NDArray[Any] | None = None,
    levels: NDArray[np.bool_] | None = None,
) -> tuple[float, NDArray[np.float64]]:
    """Return the log evidence for each row and target, and its gradient, in plain NumPy.

    The gradient is by log length scales, log signal and log noise.  This is the definition,
    which the compiled way is checked against; it holds pairs × inputs in memory.
    """
    y = y.reshape(len(y), -1)
    n, targets = y.shape
    s = np.abs(X[:, None, :] - X[None]) / length_scales
    if kernel == "matern12":
        log_k, slope = -s, s
    elif kernel == "matern32":
        a = np.sqrt(3) * s
        log_k, slope = np.log1p(a) - a, a**2 / (1 + a)
    else:
        log_k, slope = -0.5 * s**2, s**2
    if levels is not None:
        differ = (s[:, :, levels] > 0) / length_scales[levels]
        log_k[:, :, levels], slope[:, :, levels] = -differ, differ
    covariance = signal * np.exp(log_k.sum(axis=2))
    diagonal = np.diag(noise / (np.ones(n) if weight is None else weight))
    total = covariance + diagonal + signal * _JITTER * np.eye(n)
    inverse = np.linalg.inv(total)
    answers = inverse @ y
    value = -0.5 * (np.sum(y * answers) / targets + np.linalg.slogdet(total)[1])
    M = answers @ answers.T / targets - inverse
    of_signal = np.sum(M * (covariance + signal * _JITTER * np.eye(n)))
    slopes = np.append(
        np.einsum("ij,ijd->d", M * covariance, slope), [of_signal, np.sum(M * diagonal)]
    )
    return (value - 0.5 * n * np.log(2 * np.pi)) / n, 0.5 * slopes / n


@dataclass
class _Process:
    """The evidence of one kernel on given rows, its signal at its best, ready to be computed."""

    rows: _Rows
    kernel: str
    evaluations: int = 0

    def __post_init__(self) -> None:
        n = len(self.rows.weight)
        self._memory = np.empty((n, n)), np.empty((n, n))

    def __call__(
        self, log_lengths: NDArray[np.float64], log_ratio: float
    ) -> tuple[float, NDArray[np.float64], float, float]:
        """Return the value, its slopes by log length scales and by log ratio, and the signal."""
        from polyadic.model import compiled_evidence  # numba is loaded when it is needed

        self.evaluations += 1
        y, (targets, n) = self.rows.y, self.rows.y.shape
        matrix, work = self._memory
        scaled = self.rows.scale(np.exp(log_lengths), self.kernel)
        compiled_evidence.kernel_matrix(*scaled, matrix)
        np.copyto(work, matrix)
        noise = np.exp(log_ratio) / self.rows.weight
        work.flat[:: n + 1] += noise + _JITTER
        # What is above the diagonal here is below it for LAPACK, which counts by columns.
        factor, failed = lapack.dpotrf(work.T, lower=1, overwrite_a=1, clean=0)
        if failed:
            return -_NOTHING, np.zeros(len(log_lengths)), 0.0, 1.0
        half_log_determinant = float(np.log(work.diagonal()).sum())
        answers = np.ascontiguousarray(lapack.dpotrs(factor, y.T, lower=1)[0].T)
        _invert_triangle(factor)
        lapack.dlauum(factor, lower=1, overwrite_c=1)  # C⁻¹ = L⁻ᵀL⁻¹, in `work` as well
        power = float(np.sum(y * answers)) / (n * targets)
        signal = max(power, _LEAST_SIGNAL)
        answers /= np.sqrt(targets * signal)
        slopes = compiled_evidence.length_scale_slopes(*scaled, matrix, work, answers)
        by_ratio = 0.5 * float(noise @ (np.sum(answers**2, axis=0) - work.diagonal()))
        value = -0.5 * (power / signal + math.log(2 * np.pi * signal)) - half_log_determinant / n
        return value, slopes / n, by_ratio / n, signal


def _invert_triangle(L: NDArray[np.float64]) -> None:
    """Replace the lower triangle by that of L⁻¹.

    By halves, down to blocks that LAPACK inverts well: its own way through a matrix of 500
    rows takes twice the time.
    """
    n = len(L)
    if n <= _BLOCK:
        L[:] = lapack.dtrtri(L, lower=1)[0]
        return
    first, second = slice(None, n // 2), slice(n // 2, None)
    _invert_triangle(L[first, first])
    _invert_triangle(L[second, second])
    below = blas.dtrmm(-1.0, L[second, second], L[second, first], lower=1)
    L[second, first] = blas.dtrmm(1.0, L[first, first], below, side=1, lower=1, overwrite_b=1)


def maximise_evidence(
    X: NDArray[Any],
    y: NDArray[Any],
    kernel: str,
    *,
    weight: NDArray[Any] | None = None,
    levels: NDArray[np.bool_] | None = None,
    start: Evidence | None = None,
    sparse: bool = True,
    max_evaluations: int = 40,
    tol: float = 1e-4,
) -> Evidence:
    """Find the length scales, signal and noise of the greatest evidence.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        Inputs, each scaled to about [0, 1].
    y : ndarray of shape (n,) or (n, T)
        Standardised targets, which share the kernel.
    kernel : {"matern12", "matern32", "rbf"}
        The kernel along each input.
    weight : ndarray of shape (n,), optional
        The noise of a row is noise/weight, weights taken to a mean of 1.  Rows without
        weight are left out.
    levels : ndarray of bool of shape (D,), optional
        Which inputs are codes of the levels of a category.
    start : Evidence, optional
        Where to begin, as found for this kernel with other rows or inputs scaled otherwise.
    max_evaluations : int
        How often the evidence may be computed.
    tol : float
        End when two steps have gained less than this for each row.

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(size=(80, 3))
    >>> y = np.sin(6 * X[:, 1]) + 0.1 * rng.standard_normal(80)
    >>> found = maximise_evidence(X, (y - y.mean()) / y.std(), "rbf")
    >>> int(np.argmin(found.length_scales))  # the one input that matters
    1
    """
    prior = _sparse_prior if sparse else _wide_prior
    return _search(_rows(X, y, weight, levels), kernel, start, max_evaluations, tol, prior)


def screen(
    views: Mapping[K, NDArray[Any]],
    y: NDArray[Any],
    kernels: Sequence[str] = KERNELS,
    *,
    weight: NDArray[Any] | None = None,
    levels: NDArray[np.bool_] | None = None,
    sparse: bool = True,
    max_evaluations: int = 40,
    tol: float = 1e-4,
) -> list[tuple[K, str, Evidence]]:
    """Maximise the evidence of every kernel on every view of the inputs; the best comes first.

    A kernel begins on a further view with what it has found on the first, and a search ends
    once it would not reach the best so far at its present pace.  So the first are nearly always
    what `maximise_evidence` finds; those behind may be better than their values say.

    Parameters
    ----------
    views : mapping to ndarray of shape (n, D)
        The same rows, scaled in several ways.
    y, weight, levels, sparse, max_evaluations, tol
        As in `maximise_evidence`, for each pair.
    kernels : sequence of str
        The kernels to try.

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(size=(80, 2))
    >>> y = np.sin(6 * X[:, 1])
    >>> found = screen({"as they are": X, "squared": X**2}, (y - y.mean()) / y.std())
    >>> found[0][:2]
    ('as they are', 'rbf')
    """
    rows = {key: _rows(X, y, weight, levels) for key, X in views.items()}
    prior = _sparse_prior if sparse else _wide_prior
    found: list[tuple[K, str, Evidence]] = []
    best = -np.inf
    firsts: dict[str, Evidence] = {}
    for key in rows:
        # The kernel that does best so far goes first: it sets the mark for the others.
        for kernel in sorted(kernels, key=lambda each: -firsts[each].value if firsts else 0.0):
            start = firsts.get(kernel)
            evidence = _search(rows[key], kernel, start, max_evaluations, tol, prior, best)
            found.append((key, kernel, evidence))
            best = max(best, evidence.value)
        firsts = firsts or {kernel: evidence for _, kernel, evidence in found}
    return sorted(found, key=lambda each: -each[2].value)


@dataclass(frozen=True)
class _Rows:
    """Rows in the shape that the compiled passes read, without what tells nothing."""

    columns: NDArray[np.float64]  # one row for each number that varies
    codes: NDArray[np.float64]  # and one for each category that does
    y: NDArray[np.float64]  # one row for each target
    weight: NDArray[np.float64]
    used: NDArray[np.intp]  # which inputs these are
    n_inputs: int

    def scale(
        self, lengths: NDArray[np.float64], kernel: str
    ) -> tuple[NDArray[np.float64], int, NDArray[np.float64], NDArray[np.float64]]:
        """Return what a compiled pass reads: inputs by length scales, the kernel, codes, rates."""
        n_numbers = len(self.columns)
        Z = self.columns / lengths[:n_numbers, None]
        return Z, KERNELS.index(kernel), self.codes, 1 / lengths[n_numbers:]


def _rows(
    X: NDArray[Any],
    y: NDArray[Any],
    weight: NDArray[Any] | None,
    levels: NDArray[np.bool_] | None = None,
) -> _Rows:
    """Check rows; leave out those of no weight and constant inputs."""
    X = np.asarray(X, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=np.float64)
    if not len(X) == len(y) == len(weight):
        raise ValueError(
            f"X, y and weight must have as many rows as each other, got {len(X)}, {len(y)} and "
            f"{len(weight)}. Give one row of each for every sample."
        )
    counts = weight > 0
    if not counts.any() or not np.isfinite(weight[counts]).all():
        raise ValueError(
            f"weight must be finite, and positive for at least one of {len(X)} rows, got "
            f"{weight.tolist()[:3]}, and so on. Give rows that count."
        )
    X, y, weight = X[counts], y[counts], weight[counts]
    weight = weight / weight.max()  # no sum of huge weights is infinite
    weight = np.maximum(weight / weight.mean(), _LEAST_WEIGHT)
    varies = np.ptp(X, axis=0) > 0
    levels = np.zeros(X.shape[1], dtype=bool) if levels is None else levels
    numbers, codes = np.flatnonzero(varies & ~levels), np.flatnonzero(varies & levels)
    return _Rows(
        np.ascontiguousarray(X[:, numbers].T),
        np.ascontiguousarray(X[:, codes].T),
        np.ascontiguousarray(y.T),
        weight,
        np.concatenate([numbers, codes]),
        X.shape[1],
    )


def _search(
    rows: _Rows,
    kernel: str,
    start: Evidence | None,
    max_evaluations: int,
    tol: float,
    prior: _Prior,
    rival: float = -np.inf,
) -> Evidence:
    """Climb from a start, or from an even one in two stages; give up far behind a rival."""
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {kernel!r}.")
    if max_evaluations < 1:
        raise ValueError(f"max_evaluations must be at least 1, got {max_evaluations}. Try 40.")
    if start is not None and len(start.length_scales) != rows.n_inputs:
        raise ValueError(
            f"start must have a length scale for each of {rows.n_inputs} inputs, got "
            f"{len(start.length_scales)}. Take one found for the same inputs."
        )
    process = _Process(rows, kernel)
    even = _even_start(rows, kernel)
    if start is None:
        point = np.append(np.full(len(rows.used), even), math.log(_FIRST_RATIO))
        if max_evaluations > _FIRST_EVALUATIONS:
            # With the sparse prior from the first step, all inputs are sometimes let go at once.
            point, _, _ = _climb(process, point, _wide_prior, _FIRST_EVALUATIONS, tol)
    else:
        # Along a very long length scale there is no slope to come back by.
        lengths = np.minimum(np.log(start.length_scales[rows.used]), even + _LONG)
        point = np.append(lengths, math.log(start.noise / start.signal))
    left = max_evaluations - process.evaluations
    point, value, signal = _climb(process, point, prior, left, tol, rival)
    lengths = np.full(rows.n_inputs, LONGEST)
    lengths[rows.used] = np.exp(point[:-1])
    noise = signal * math.exp(point[-1])
    return Evidence(kernel, lengths, signal, noise, value, process.evaluations)


def _wide_prior(log_lengths: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return the log density and its slopes where log ℓ is normal, of deviation 3."""
    return -float(np.sum(log_lengths**2)) / 18, -log_lengths / 9


def _sparse_prior(log_lengths: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return Σ −log(1 + D/3ℓ), summed over D inputs, and its slopes.

    An input that matters pays about log D, as one chosen among D should, and little more for
    a still shorter length scale.  A long one is cheap, yet its price falls as 1/ℓ where the
    gain of smooth kernels falls as 1/ℓ², so that an input of little use is let go.
    """
    c = len(log_lengths) / 3 * np.exp(-log_lengths)
    return -float(np.sum(np.log1p(c))), c / (1 + c)


class _Enough(Exception):  # noqa: N818  it ends a search, nothing went wrong
    """The evidence has been computed as often as it may be."""


def _climb(
    process: _Process,
    point: NDArray[np.float64],
    prior: _Prior,
    max_evaluations: int,
    tol: float,
    rival: float = -np.inf,
) -> tuple[NDArray[np.float64], float, float]:
    """Climb by L-BFGS; return the best point met, its value and its signal.

    It ends where steps gain little, after so many evaluations, or where the rival's value is
    out of reach at the present pace.
    """
    low = np.log(np.append(np.full(len(point) - 1, SHORTEST), RATIOS[0]))
    high = np.log(np.append(np.full(len(point) - 1, LONGEST), RATIOS[1]))
    begin = np.clip(point, low, high)
    best: tuple[NDArray[np.float64], float, float] = (begin, -np.inf, 1.0)
    values: list[float] = []  # the best after each evaluation
    steps: list[float] = []  # the best after each step

    def compute(p: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal best
        if len(values) >= max_evaluations:
            raise _Enough
        value, slopes, by_ratio, signal = process(p[:-1], p[-1])
        of_prior, prior_slopes = prior(p[:-1])
        value += of_prior / process.rows.y.size
        if value > best[1]:
            best = p.copy(), value, signal
        values.append(best[1])
        return -value, -np.append(slopes + prior_slopes / process.rows.y.size, by_ratio)

    first = compute(begin)
    # The first step is the gradient itself; in these units it is at most one.
    unit = max(float(np.abs(first[1]).max()), 1e-3)

    def objective(p: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, slopes = first if np.array_equal(p, begin) else compute(p)
        return value / unit, slopes / unit

    def after_step(_: Any) -> None:
        steps.append(best[1])
        if len(steps) > 2 and steps[-1] - steps[-2] < tol and steps[-2] - steps[-3] < tol:
            raise StopIteration
        if len(values) > _PACE:
            pace = (values[-1] - values[-1 - _PACE]) / _PACE
            if values[-1] + pace * (max_evaluations - len(values)) < rival:
                raise StopIteration

    with suppress(_Enough):
        minimize(
            objective,
            begin,
            jac=True,
            method="L-BFGS-B",
            bounds=np.column_stack([low, high]),
            callback=after_step,
            options={"maxiter": max_evaluations, "ftol": 0.0, "gtol": 1e-6 / unit, "maxcor": 20},
        )
    return best


def _even_start(rows: _Rows, kernel: str) -> float:
    """Return the one log length scale at which kernels are about 1/e for a usual pair of rows."""
    # Rows half the table apart are pairs enough, and the same ones each time.
    half = len(rows.weight) // 2
    s = np.abs(rows.columns - np.roll(rows.columns, half, axis=1))
    differ = float((rows.codes != np.roll(rows.codes, half, axis=1)).sum())
    low, high = np.log(SHORTEST), np.log(LONGEST)
    for _ in range(15):  # to one part in a thousand
        middle = (low + high) / 2
        power = differ * np.exp(-middle) - log_kernel(s * np.exp(-middle), kernel).sum()
        low, high = (middle, high) if power > len(rows.weight) else (low, middle)
    return float(low)


def noise_evidence(y: NDArray[Any], weight: NDArray[Any] | None = None) -> float:
    """Return the log evidence for each row and target where there is nothing but noise.

    That of any kernel as its signal goes to zero, the noise at its best.
    """
    rows = _rows(np.zeros((len(y), 1)), y, weight)
    power = max(float(np.mean(rows.weight * rows.y**2)), _LEAST_SIGNAL)
    return 0.5 * (float(np.mean(np.log(rows.weight))) - 1 - math.log(2 * np.pi * power))


def leave_one_out(
    X: NDArray[Any],
    y: NDArray[Any],
    evidence: Evidence,
    weight: NDArray[Any] | None = None,
    levels: NDArray[np.bool_] | None = None,
) -> float:
    """Return the mean log density of each row, predicted from all others.

    With C the covariance of the rows, the others predict row i with the error
    (C⁻¹y)ᵢ / (C⁻¹)ᵢᵢ and the variance 1 / (C⁻¹)ᵢᵢ, so that no row need be left out.
    """
    from polyadic.model import compiled_evidence

    rows = _rows(X, y, weight, levels)
    n, signal = len(rows.weight), evidence.signal
    covariance = np.empty((n, n))
    scaled = rows.scale(evidence.length_scales[rows.used], evidence.kernel)
    compiled_evidence.kernel_matrix(*scaled, covariance)
    covariance.flat[:: n + 1] += evidence.noise / signal / rows.weight + _JITTER
    factor, failed = lapack.dpotrf(covariance.T, lower=1, overwrite_a=1, clean=0)
    if failed:
        return -_NOTHING
    answers = lapack.dpotrs(factor, rows.y.T, lower=1)[0].T
    diagonal = lapack.dpotri(factor, lower=1, overwrite_c=1)[0].diagonal()
    errors = answers**2 / (diagonal * signal)
    return -0.5 * float(np.mean(errors + np.log(2 * np.pi * signal / diagonal)))
