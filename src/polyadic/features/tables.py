"""Tables: the basis functions of one input, by their values at points.

A kernel k of one input has eigenfunctions under the distribution of that input; each, times
the root of its eigenvalue, is a column of the table, so that Σᵢ ψᵢ(x)ψᵢ(x′) ≈ k(x, x′).

The points of a number are knots.  A value is looked up by the knot below it and the fraction of
the way to the next:

    ψ(x) = (1 − t)·values[j] + t·values[j + 1]

Beyond the training range positions slow down and come to rest a little outside of it, so
that what the model says there is bounded and smooth.

The points of a category are its levels.  Two of them have the kernel exp(−1/ℓ), which a short
length scale makes 0 and a long one 1; a level that the training rows do not have is like that
to all of them, which makes it their average.

A gap is one more level of a category.  Gaps of a number are filled in before it is looked up; one
that is not, because training rows had none, is a value in the middle.  What was filled in may have
knots of its own, whose values are means over all that may be hidden there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from polyadic.features.kernels import log_kernel

N_KNOTS = 193
MARGIN = 0.1  # how far tables reach beyond the training range, in units of it
APART = 8.0  # ranges by which what was filled in lies above what it is, to be told from the known
_FLOOR = 1e-5  # mass of every point, so that functions are smooth where there are no rows


@dataclass(frozen=True, eq=False)
class Table:
    """Values of basis functions at the points of one input.

    Parameters
    ----------
    low, high : float
        Training range of a number; its knots are even, a margin beyond on both sides.
    values : ndarray of shape (n_points, n_basis)
        The basis functions at the points.
    kernel, length_scale : str and float, optional
        What they are the eigenfunctions of.
    n_levels : int
        Of a category, how many levels have a row of their own; the next row is for all others.
    gap : float, optional
        Position of a gap; without, what is not a number has no place.
    has_filled : bool
        Whether there are as many knots again, of numbers that were filled in.

    Examples
    --------
    >>> import numpy as np
    >>> from polyadic.features import Table
    >>> table = Table.mercer("rbf", 0.5, n_basis=4)
    >>> psi = table.features(np.array([0.2, 0.7]))
    >>> psi.shape, round(float(psi[0] @ psi[1]), 2)  # the kernel, exp(-½)
    ((2, 4), 0.61)
    """

    low: float
    high: float
    values: NDArray[np.float64]
    kernel: str | None = None
    length_scale: float | None = None
    n_levels: int = 0
    gap: float | None = None
    has_filled: bool = False

    @classmethod
    def mercer(
        cls,
        kernel: str,
        length_scale: float,
        *,
        low: float = 0.0,
        high: float = 1.0,
        mass: NDArray[Any] | None = None,
        middle: float | None = None,
        chances: NDArray[Any] | None = None,
        n_basis: int | None = None,
        least: float = 0.0,
        most: int = N_KNOTS,
    ) -> Table:
        """Return the eigenfunctions of a kernel of a number, the largest first.

        Parameters
        ----------
        kernel : {"matern12", "matern32", "rbf"}
            Of the distance in length scales.
        length_scale : float
            In units of the training range.
        low, high : float
            Training range.
        mass : ndarray of shape (N_KNOTS,), optional
            Share of the rows at each knot; by default even over the training range.
        middle : float, optional
            The value, in units of the training range, that a gap is like.
        chances : ndarray of shape (N_KNOTS, N_KNOTS), optional
            How likely each knot is where another was filled in, a row for each of these.
        n_basis : int, optional
            Number of functions; by default those with eigenvalues above `least`, one at least
            and `most` at most.
        least, most
            Where to cut.
        """
        if n_basis is not None and n_basis > N_KNOTS:
            raise ValueError(
                f"`n_basis` must be at most {N_KNOTS} for the eigenfunctions of a kernel, got "
                f"{n_basis}. Use fewer; 32 are enough for nearly anything."
            )
        K = number_kernel(kernel, length_scale)
        if mass is None:
            u = knots()
            mass = ((u > -1e-9) & (u < 1 + 1e-9)).astype(float)
        values = _eigenfunctions(K, mass, K, n_basis, least, most)
        gap = None if middle is None else float(positions(np.array(middle), 0.0, 1.0))
        if chances is not None:
            values = np.vstack([values, chances @ values])
        scale = float(length_scale)
        return cls(low, high, values, kernel, scale, gap=gap, has_filled=chances is not None)

    @classmethod
    def of_levels(
        cls,
        length_scale: float,
        mass: NDArray[Any],
        *,
        has_gaps: bool = False,
        n_basis: int | None = None,
        least: float = 0.0,
        most: int = N_KNOTS,
    ) -> Table:
        """Return the eigenfunctions of the kernel of a category, the largest first.

        Parameters
        ----------
        length_scale : float
            Two levels have the kernel exp(−1 / length_scale).
        mass : ndarray of shape (n_levels,) or, with gaps, (n_levels + 1,)
            Share of the rows at each level, that of gaps last.
        has_gaps : bool
            Whether gaps are a level of their own; without, they are the average one.
        n_basis, least, most
            As for a number.
        """
        n_levels = len(mass) - has_gaps
        K = level_kernel(len(mass), length_scale)
        unseen = np.full(len(K), np.exp(-1 / length_scale))
        everywhere = np.vstack([K[:n_levels], unseen, K[n_levels:]])
        values = _eigenfunctions(K, mass, everywhere, n_basis, least, most)
        values = np.vstack([values, values[-1]])  # positions lie between two rows
        gap = float(n_levels + has_gaps)
        return cls(0.0, 1.0, values, "levels", float(length_scale), n_levels, gap)

    @property
    def n_basis(self) -> int:
        """Number of basis functions."""
        return int(self.values.shape[1])

    @property
    def n_points(self) -> int:
        """Number of rows that positions may ask for."""
        own = self.n_levels + 2 if self.n_levels else N_KNOTS * (1 + self.has_filled)
        return own if self.gap is None else max(own, int(self.gap) + 2)

    def positions(self, x: Any) -> Any:
        """Return where values lie among the points: the one below, and the way to the next."""
        xp = array_namespace(x)
        if self.n_levels:
            found = xp.clip(x, max=float(self.n_levels))
        elif self.has_filled:
            apart = APART * (self.high - self.low)
            is_filled = x > self.low + apart / 2
            found = positions(xp.where(is_filled, x - apart, x), self.low, self.high)
            found = xp.where(is_filled, found + N_KNOTS, found)
        else:
            found = positions(x, self.low, self.high)
        return found if self.gap is None else xp.where(xp.isnan(x), self.gap, found)

    def features(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return the n × `n_basis` values of the basis functions."""
        position = self.positions(np.asarray(x, dtype=np.float64))
        # What is not a number has no point, but its fraction makes the answer none either.
        below = np.where(position >= 0, position, 0.0).astype(np.intp)
        t = (position - below)[:, None]
        return np.asarray((1 - t) * self.values[below] + t * self.values[below + 1])

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        own = self.low, self.high, self.n_levels, self.gap, self.has_filled
        return *own, self.values.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def number_kernel(kernel: str, length_scale: float) -> NDArray[np.float64]:
    """Return the kernel of a number at all pairs of knots."""
    u = knots()
    return np.exp(log_kernel(np.abs(u[:, None] - u) / length_scale, kernel))


def level_kernel(n_levels: int, length_scale: float) -> NDArray[np.float64]:
    """Return the kernel of a category at all pairs of levels."""
    other = np.exp(-1 / length_scale)
    return np.asarray(np.full((n_levels, n_levels), other) + (1 - other) * np.eye(n_levels))


def variation(K: NDArray[np.float64], mass: NDArray[Any]) -> float:
    """Return a bound of all eigenvalues but the first, at the cost of none of them.

    They sum to one, and the first is no less than what a constant function gets.
    """
    return float(1 - mass @ K @ mass / mass.sum() ** 2)


def _eigenfunctions(
    K: NDArray[np.float64],
    mass: NDArray[Any],
    everywhere: NDArray[np.float64],
    n_basis: int | None,
    least: float,
    most: int,
) -> NDArray[np.float64]:
    """Return the eigenfunctions of K under a mass, at the points that `everywhere` are rows of."""
    root = np.sqrt(mass / mass.sum() + _FLOOR)
    eigenvalues, vectors = np.linalg.eigh(root[:, None] * K * root)
    if n_basis is None:
        n_basis = int(np.clip((eigenvalues > least).sum(), 1, min(most, len(K))))
    kept = slice(-1, -1 - n_basis, -1)
    roots = np.sqrt(np.maximum(eigenvalues[kept], 1e-14))
    values = (everywhere * root) @ vectors[:, kept] / roots
    # The sign of an eigenvector is a matter of the library that finds it.
    largest = values[np.abs(values).argmax(axis=0), np.arange(values.shape[1])]
    return np.ascontiguousarray(values * np.sign(largest))


def knots() -> NDArray[np.float64]:
    """Return the knots of every number, in units of the training range."""
    return np.linspace(-MARGIN, 1 + MARGIN, N_KNOTS)


def positions(x: Any, low: float, high: float) -> Any:
    """Return where values of a training range lie among the knots, arrays or tensors.

    Beyond the range the position approaches the last knot but never quite, its slope the same
    at the end of the range.
    """
    xp = array_namespace(x)
    u = (x - low) / (high - low if high > low else 1.0)
    # The method of arrays and tensors: the function of the standard takes longer.
    inside = u.clip(0.0, 1.0)
    beyond = u - inside
    if beyond.any():  # which rows of the training range never are
        # tanh is smooth, odd and of slope one at zero: one formula for both sides.
        inside = inside + MARGIN * xp.tanh(beyond / MARGIN)
    last = N_KNOTS - 1
    return ((inside + MARGIN) * (last / (1 + 2 * MARGIN))).clip(0.0, last * (1 - 1e-6))


def point_mass(
    position: NDArray[Any], n_points: int, weight: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """Return the share of the rows at each point, those between two points split among them."""
    below = position.astype(np.intp)
    weight = np.ones(len(position)) if weight is None else weight
    upper = weight * (position - below)
    mass = np.bincount(below, weight - upper, n_points + 1)
    mass += np.bincount(below + 1, upper, n_points + 1)
    return np.asarray(mass[:n_points] / weight.sum())
