"""The posterior of one core, the others held fixed: Laplace's approximation of a fit.

A model is linear in each of its cores, f = A v, so with noise of variance σ² and the penalty α
the posterior of the last core's v is exactly normal,

    cov v = σ² (AᵀA + α I ⊗ H)⁻¹,        σ² = (‖y − A v‖² + α vᵀ(I ⊗ H)v) / N

where that σ² is the one of greatest evidence.  A model of one core is Bayesian linear regression,
and this is all there is to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features import TensorLayout
from polyadic.model import cpd
from polyadic.model.covariance_curve import CovarianceCurve, covariance_curve
from polyadic.model.normal import (
    NormalEquations,
    as_real,
    complex_gram,
    core_system,
    principal_axes,
)

MOST_UNKNOWNS = 2_000  # of a core whose covariance is kept
_PANEL = 128  # columns: narrower products are slow, wider ones meet more zeros of a root
_WIDE = 64  # unknowns from which on products are most of the work
_ROOT_FOR, _CURVE_FOR = 22, 0.6  # multiplications for one of a prediction: these take twice as long
_MOVED = 1e-3  # parts of a deviation that faster ways may move it, as an estimate


@dataclass(frozen=True, eq=False)
class CorePosterior:
    """The covariance of a core in units of the noise, by a root of it.

    Parameters
    ----------
    core : int
        Which core it is.
    root : ndarray of shape (unknowns, k)
        Real and imaginary parts of the core are unknowns of their own; a triangular one is
        multiplied in half the time.
    curve : CovarianceCurve, optional
        The same, where it saves time, up to an error that it tells for each row.
    """

    core: int
    root: NDArray[np.float64]
    curve: CovarianceCurve | None = None

    def variance(self, A: NDArray[np.complexfloating] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Return aᵀ cov(v) a / σ² for each row a of A."""
        block = np.hstack([A.real, -A.imag]) if np.iscomplexobj(A) else A
        return np.asarray(((block @ self.root) ** 2).sum(axis=1))

    def with_curve(
        self,
        cores: cpd.Cores,
        map_weights: NDArray[np.float64],
        layout: TensorLayout,
        span: tuple[float, float],
    ) -> CorePosterior:
        """Return the same with a curve over a range of what the core meets, if that pays."""
        curve = covariance_curve(self.root, self.core, cores, map_weights, layout, span)
        return replace(self, curve=curve)

    @property
    def width(self) -> int:
        """About how many numbers of a row are met at a time."""
        if self.curve is None:
            return len(self.root)
        return int(self.curve.whitening.shape[1])

    @property
    def met_together(self) -> int:
        """How many rows are worth a call: of a curve, those of a cell take a product together."""
        return 1024 if self.curve is None else 8192

    @cached_property
    def panels(self) -> tuple[tuple[int, NDArray[np.float64]], ...]:
        """The root in panels of columns, transposed, each with the first row it does not skip."""
        panels = []
        for panel in np.array_split(self.root, -(-self.root.shape[1] // _PANEL) or 1, axis=1):
            rows = np.flatnonzero(panel.any(axis=1))
            if len(rows):
                panels.append((int(rows[0]), np.ascontiguousarray(panel[rows[0] :].T)))
        return tuple(panels)

    def curve_leverage(
        self, x: NDArray[Any], Z: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return what `leverage` does by the curve, and for which rows that is good enough."""
        assert self.curve is not None
        found, off = self.curve.leverage(x, Z)
        return found, off < 2 * _MOVED * (1 + found)  # squares move twice as far

    @property
    def is_wide(self) -> bool:
        """Whether single precision, where it is enough, saves time."""
        return len(self.root) >= _WIDE

    @cached_property
    def single_panels(self) -> tuple[tuple[int, NDArray[np.float32]], ...]:
        """The panels in single precision, which take half the time."""
        return tuple((first, panel.astype(np.float32)) for first, panel in self.panels)

    @cached_property
    def _squares(self) -> NDArray[np.float32]:
        """The squared norm of each row of the root."""
        return np.asarray((self.root**2).sum(axis=1), dtype=np.float32)

    def single_leverage(
        self, columns: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return what `leverage` does, and for which rows single precision is good enough.

        As a sum of independent errors it moves each Lᵀa by ε²Σ aᵢ²‖Lᵢ‖² in squares; what is
        wanted is the deviation of noise and core together, √(1 + ‖Lᵀa‖²).
        """
        found = leverage(self.single_panels, columns).astype(np.float64)
        moved = float(np.finfo(np.float32).eps) ** 2 * (self._squares @ (columns * columns))
        return found, moved < _MOVED**2 * (1 + found)


def leverage(panels: Iterable[tuple[int, Any]], columns: Any) -> Any:
    """Return what `variance` does, for columns of [Re A, −Im A]ᵀ, arrays or tensors as panels are.

    A panel of a triangular root skips the rows in which it is zero: half of all there are.
    """
    found = 0.0 * columns[0]
    for first, panel in panels:
        product = panel @ columns[first:]
        product *= product
        found += product.sum(0)
    return found


def core_posterior(
    equations: NormalEquations,
    cores: cpd.Cores,
    core: int,
    alpha: float,
    most_directions: int | None = None,
) -> tuple[CorePosterior, float]:
    """Return the posterior of a core, and the sum of squares that makes the noise.

    With at most `most_directions` of its rank open: those of v in which the rows move most, for
    what the penalty lets them.  The others are taken for certain.
    """
    H = cpd.gram_product(cpd.grams(cores), without=core)
    matrix, moment, v = core_system(equations, H, cores[core], alpha)
    squares = equations.target_norm2 - 2 * float(moment @ v) + float(v @ matrix @ v)
    basis = _leading_directions(equations.gram, H, most_directions)
    if basis is not None:
        matrix = basis.T @ matrix @ basis
    vectors, scale = principal_axes((matrix + matrix.T) / 2)
    root = vectors / scale
    # Any root rotates into a triangular one, half of whose products are with zeros.
    root = np.asarray(np.linalg.qr(root.T, mode="r")).T
    if basis is not None:
        root = basis @ root
    return CorePosterior(core, np.ascontiguousarray(root)), max(squares, 0.0)


def affordable_directions(layout: TensorLayout, cores: cpd.Cores, n_maps: int) -> int:
    """Return of how many directions of the rank of the last core deviations cost little.

    Predictions take each core under each map; a deviation takes the square of all unknowns by the
    root of their covariance, or that of all directions under each map by its curve.
    """
    parts, rank = (2 if layout.is_complex else 1), int(cores[-1].shape[1])
    work = n_maps * parts**2 * sum(core.size for core in cores)
    if (parts * cores[-1].size) ** 2 < _ROOT_FOR * work:
        return rank
    return max(1, min(rank, int(np.sqrt(_CURVE_FOR * work) / (parts * n_maps))))


def _leading_directions(
    gram: NDArray[np.float64], H: NDArray[Any], most: int | None
) -> NDArray[np.float64] | None:
    """Return what the leading directions of the rank make of the unknowns, if they are not all."""
    rank = len(H)
    if most is None or most >= rank:
        return None
    whole: NDArray[Any] = complex_gram(gram) if np.iscomplexobj(H) else gram
    size = len(whole) // rank
    met = np.einsum("iris->rs", whole.reshape(size, rank, size, rank))
    vectors, scale = principal_axes(H)
    if len(scale) <= most:
        return None
    whitening = vectors / scale
    _, turn = np.linalg.eigh(whitening.conj().T @ met @ whitening)
    leading = np.linalg.qr(whitening @ turn[:, -most:])[0]
    return as_real(np.kron(np.eye(size), leading))
