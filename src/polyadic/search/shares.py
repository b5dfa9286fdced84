"""The shares of a mean of models and of a linear trend, by the rows that are held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from polyadic.model.normal import NormalEquations

_UNLIKELY = 12.0  # units of log-likelihood that shares may cost to count
_LIKELY_SHARES = 15  # how many are tried


def shrunk_shares(equations: NormalEquations) -> list[tuple[float, float]]:
    """Return the best shares of the first of two models alone, and of both together.

    Shares are not negative and sum to one at most.  Of a quadratic of two unknowns the least
    is inside of that triangle or on one of its sides.
    """
    (a, b), (_, c), moment = *equations.gram, equations.moment
    alone = float(np.clip(moment[0] / a, 0.0, 1.0)) if a > 0 else 0.0
    other = float(np.clip(moment[1] / c, 0.0, 1.0)) if c > 0 else 0.0
    spread = a - 2 * b + c
    t = float(np.clip((moment[0] - moment[1] - b + c) / spread, 0.0, 1.0)) if spread > 0 else 1.0
    inside = np.linalg.lstsq(equations.gram, moment, rcond=None)[0]
    both = [(alone, 0.0), (0.0, other), (t, 1 - t)]
    if (inside >= 0).all() and inside.sum() <= 1:
        both.append((float(inside[0]), float(inside[1])))
    best = min(both, key=lambda shares: equations.squared_error(np.array(shares)))
    return [(alone, 0.0), best]


def likely_shares(
    error: Callable[[Sequence[float]], float],
    best: tuple[float, float],
    n_rows: int,
    most: float,
    has_line: bool,
) -> tuple[float, float]:
    """Return the mean of the shares of a model and of a line, weighted by their likelihood.

    A log-loss is minus the logarithm of a likelihood, so with few rows many shares are likely, and
    their mean is a mixture of both models; with many rows it is the best one.  All stretches, up
    to `most`, and all parts of the line in them count the same beforehand.

    Parameters
    ----------
    error : callable
        The mean loss of `n_rows` rows with some shares.
    best : pair of float
        The shares where it is least.
    n_rows : int
        How many rows tell.
    most : float
        The greatest sum of both shares.
    has_line : bool
        Whether there is a line to have a share.
    """

    def cost(stretch: float, part: float) -> float:
        return n_rows * error(((1 - part) * stretch, part * stretch))

    stretch, part = sum(best), best[1] / sum(best)
    stretches = _likely_range(lambda each: cost(each, part), stretch, 0.0, max(most, stretch))
    parts = np.zeros(1)
    if has_line:
        parts = _likely_range(lambda each: cost(stretch, each), part, 0.0, 1.0)
    costs = np.array([[cost(t, u) for u in parts] for t in stretches])
    weights = np.exp(costs.min() - costs)
    weights /= weights.sum()
    means = (weights * np.outer(stretches, shares) for shares in (1 - parts, parts))
    model, line = (float(each.sum()) for each in means)
    return model, line


def _likely_range(
    cost: Callable[[float], float], middle: float, low: float, high: float
) -> NDArray[np.float64]:
    """Return numbers around the likely one up to where others are not likely at all."""
    most = cost(middle) + _UNLIKELY
    while cost(low) > most and middle - low > 1e-6:
        low = 0.5 * (low + middle)
    while cost(high) > most and high - middle > 1e-6:
        high = 0.5 * (high + middle)
    return np.linspace(low, high, _LIKELY_SHARES)
