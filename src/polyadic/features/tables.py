"""Tables: the basis functions of one input, by their values at knots.

A one-dimensional kernel k has eigenfunctions under the distribution of the input; each, times
the root of its eigenvalue, is a column of the table, so that Σᵢ ψᵢ(x)ψᵢ(x′) ≈ k(x, x′).  A
value is looked up by the knot below it and the fraction of the way to the next:

    ψ(x) = (1 − t)·values[j] + t·values[j + 1]

Beyond the training range positions slow down and come to rest a little outside of it, so
that what the model says there is bounded and smooth.
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
_FLOOR = 1e-5  # mass of every knot, so that functions are smooth where there are no rows


@dataclass(frozen=True, eq=False)
class Table:
    """Values of basis functions at even knots, a margin beyond [low, high] on both sides.

    Parameters
    ----------
    low, high : float
        Training range of the input.
    values : ndarray of shape (n_knots, n_basis)
        The basis functions at the knots.
    kernel, length_scale : str and float, optional
        What they are the eigenfunctions of.

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

    @classmethod
    def mercer(
        cls,
        kernel: str,
        length_scale: float,
        *,
        low: float = 0.0,
        high: float = 1.0,
        mass: NDArray[Any] | None = None,
        n_basis: int | None = None,
        least: float = 0.0,
        most: int = N_KNOTS,
    ) -> Table:
        """Return the eigenfunctions of a kernel, the largest first.

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
        u = knots()
        if mass is None:
            mass = ((u > -1e-9) & (u < 1 + 1e-9)).astype(float)
        root = np.sqrt(mass / mass.sum() + _FLOOR)
        K = np.exp(log_kernel(np.abs(u[:, None] - u) / length_scale, kernel))
        eigenvalues, vectors = np.linalg.eigh(root[:, None] * K * root)
        if n_basis is None:
            n_basis = int(np.clip((eigenvalues > least).sum(), 1, most))
        kept = slice(-1, -1 - n_basis, -1)
        roots = np.sqrt(np.maximum(eigenvalues[kept], 1e-14))
        values = (K * root) @ vectors[:, kept] / roots
        # The sign of an eigenvector is a matter of the library that finds it.
        largest = values[np.abs(values).argmax(axis=0), np.arange(n_basis)]
        values = np.ascontiguousarray(values * np.sign(largest))
        return cls(low, high, values, kernel, float(length_scale))

    @property
    def n_basis(self) -> int:
        """Number of basis functions."""
        return int(self.values.shape[1])

    def positions(self, x: Any) -> Any:
        """Return where values lie among the knots, from 0 to the number of knots less one."""
        return positions(x, self.low, self.high)

    def features(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return the n × `n_basis` values of the basis functions."""
        position = self.positions(np.asarray(x, dtype=np.float64))
        # What is not a number has no knot, but its fraction makes the answer none either.
        below = np.where(position >= 0, position, 0.0).astype(np.intp)
        t = (position - below)[:, None]
        return np.asarray((1 - t) * self.values[below] + t * self.values[below + 1])

    @cached_property
    def _key(self) -> tuple[float, float, bytes]:
        return self.low, self.high, self.values.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def variation(kernel: str, length_scale: float, mass: NDArray[Any]) -> float:
    """Return a bound of all eigenvalues but the first, at the cost of none of them.

    They sum to one, and the first is no less than what a constant function gets.
    """
    u = knots()
    K = np.exp(log_kernel(np.abs(u[:, None] - u) / length_scale, kernel))
    return float(1 - mass @ K @ mass / mass.sum() ** 2)


def knots() -> NDArray[np.float64]:
    """Return the knots of every table, in units of the training range."""
    return np.linspace(-MARGIN, 1 + MARGIN, N_KNOTS)


def positions(x: Any, low: float, high: float) -> Any:
    """Return where values of a training range lie among the knots, arrays or tensors.

    Beyond the range the position approaches the last knot but never quite, its slope the same
    at the end of the range.
    """
    xp = array_namespace(x)
    u = (x - low) / (high - low if high > low else 1.0)
    inside = xp.clip(u, min=0.0, max=1.0)
    # tanh is smooth, odd and of slope one at zero: one formula for both sides.
    u = inside + MARGIN * xp.tanh((u - inside) / MARGIN)
    last = N_KNOTS - 1
    return xp.clip((u + MARGIN) * (last / (1 + 2 * MARGIN)), min=0.0, max=last * (1 - 1e-6))


def knot_mass(position: NDArray[Any], weight: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Return the share of the rows at each knot, those between two knots split among them."""
    below = position.astype(np.intp)
    weight = np.ones(len(position)) if weight is None else weight
    upper = weight * (position - below)
    mass = np.bincount(below, weight - upper, N_KNOTS) + np.bincount(below + 1, upper, N_KNOTS)
    return np.asarray(mass / weight.sum())
