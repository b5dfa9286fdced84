"""The covariance of a core as a curve of small matrices, for rows one by one.

A row of the system of a core is a = Σₚ λₚ ψₚ(x) ⊗ zₚ: the features ψₚ hang on one number x, and
zₚ, the product of what all other cores say, on all other inputs.  What the posterior leaves open
of the row is a quadratic form of z, all zₚ one below the other, whose matrix hangs on x alone:

    aᵀ cov(v) a / σ² = zᵀ S(x) z ≈ Σₖ gₖ(x) zᵀ S(xₖ) z

Features are smooth, so in each of some cells S(x) is a polynomial through a few nodes xₖ.  A row
then takes a few products of (2 P R)² numbers instead of one of (I R)².  What polynomials leave out
is measured between their nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features import FeatureMap, TensorLayout
from polyadic.features.tables import MARGIN, N_KNOTS
from polyadic.model import cpd
from polyadic.model.normal import as_real, principal_axes

_LEAST_UNKNOWNS = 64  # of a core that is worth a curve
_MOST_WORK = 0.4  # beside that of the root, for a curve that is worth it
_TO_BALANCE = 17  # places by whose mean directions are told
# Degree of the polynomials, cells at first and at most: doubled where they leave out too much.
_SMOOTH = (8, 5, 40)
_KNOTS = round((N_KNOTS - 1) / (1 + 2 * MARGIN))  # of tables, which are straight lines between
_KINKED = (2, _KNOTS, _KNOTS)
_LEFT_OUT = 5e-4  # of directions that are open by 1 in the mean
_PLACES_AT_ONCE = 16
_EPS = float(np.finfo(np.float32).eps)
_LEAST = np.sqrt(np.finfo(np.float32).tiny)


@dataclass(frozen=True, eq=False)
class CovarianceCurve:
    """S(x) of one core, where rows of the fit are.

    Parameters
    ----------
    low, high : float
        The range of x.
    whitening : ndarray of shape (parts, 2 P' R), or (parts, P' R) of real models
        Takes all zₚ, real above imaginary parts, to directions that are open alike.
    degree : int
        Of the polynomials.
    nodes : ndarray of shape (cells · degree + 1, parts, parts)
        S at even steps from `low` to `high`; neighbouring cells share one.
    doubt : float
        How much rounding and what was left out may be, for each unit of ‖z‖² in these directions.
    """

    low: float
    high: float
    whitening: NDArray[np.float32]
    degree: int
    nodes: NDArray[np.float32]
    doubt: float

    @property
    def is_finite(self) -> bool:
        """Whether all that it holds is finite."""
        held = (self.whitening, self.nodes, self.doubt)
        return all(bool(np.isfinite(each).all()) for each in held)

    def leverage(
        self, x: NDArray[Any], Z: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return zᵀ S(x) z of each row, and how far that may be off: infinitely out of range.

        Parameters
        ----------
        x : ndarray of shape (n,)
            The number that the core meets.
        Z : ndarray of shape (P', R, n)
            What the other cores say under each map that takes part.
        """
        parts = _stack_parts(Z)
        z = self.whitening @ parts
        z[np.abs(z) < _LEAST] = 0.0  # whose products would be subnormal, and slow
        n_cells = len(self.nodes) // self.degree
        place = np.nan_to_num(np.clip((x - self.low) / (self.high - self.low), 0, 1)) * n_cells
        cells = np.minimum(place.astype(np.intp), n_cells - 1)
        functions = _polynomials(self.degree, place - cells).astype(np.float32)
        order = np.argsort(cells, kind="stable")
        ends = np.searchsorted(cells[order], np.arange(n_cells + 1))
        found = np.empty(len(x))
        for cell in np.flatnonzero(np.diff(ends)).tolist():
            rows = order[ends[cell] : ends[cell + 1]]
            nodes, inside = self.nodes[cell * self.degree :][: self.degree + 1], z[:, rows]
            products = nodes.reshape(-1, len(z)) @ inside
            each = np.einsum("kin,in->kn", products.reshape(*nodes.shape[:2], -1), inside)
            found[rows] = np.einsum("kn,kn->n", functions[:, rows], each)
        known = (x >= self.low) & (x <= self.high) & np.isfinite(found)
        found = np.maximum(found, 0.0)
        # Errors of z as a sum of independent ones, as large as its numbers are beside what is open.
        moved = _EPS * np.sqrt((self.whitening**2).sum(axis=0, dtype=np.float64) @ parts**2)
        off = self.doubt * (z * z).sum(axis=0, dtype=np.float64)
        off += moved * (2 * np.sqrt(found) + moved)
        return found, np.where(known, off, np.inf)


def _polynomials(degree: int, t: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the polynomials that are 1 at one node of a cell and 0 at the others.

    Parameters
    ----------
    degree : int
        One less than the nodes, which are even.
    t : ndarray of shape (n,)
        Where they are wanted, from 0 to 1.
    """
    powers = np.arange(degree + 1)
    nodes = powers / degree
    return np.asarray(np.linalg.inv(np.vander(nodes, increasing=True)).T @ t ** powers[:, None])


def covariance_curve(
    root: NDArray[np.float64],
    core: int,
    cores: cpd.Cores,
    map_weights: NDArray[np.float64],
    layout: TensorLayout,
    span: tuple[float, float],
) -> CovarianceCurve | None:
    """Return the curve of a core's covariance, given by a root of it.

    None if it saves little, or if single precision has no numbers as large.
    """
    low, high = span
    # A model of one core is exactly a linear one.
    if len(root) < _LEAST_UNKNOWNS or len(cores) == 1 or not low < high:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        curve = _fit_curve(root, core, cores, map_weights, layout, (low, high))
    return curve if curve is not None and curve.is_finite else None


def _fit_curve(
    root: NDArray[np.float64],
    core: int,
    cores: cpd.Cores,
    map_weights: NDArray[np.float64],
    layout: TensorLayout,
    span: tuple[float, float],
) -> CovarianceCurve | None:
    low, high = span
    others = cpd.gram_product(cpd.grams(cores), without=core)
    if not np.isfinite(others).all() or not map_weights.any():
        return None
    vectors, scale = principal_axes(others)
    form = _Form.of(root, core, map_weights, layout, vectors.conj() * scale)
    directions = (vectors / scale).T
    open_part = form.at(np.linspace(low, high, _TO_BALANCE)).mean(axis=0)
    if not 0 < np.linalg.norm(open_part) < np.inf:
        return None
    vectors, scale = principal_axes(open_part)
    form = replace(form, turn=(vectors / scale).T)
    whitening = (vectors * scale).T @ np.kron(np.eye(len(form.maps)), as_real(directions))
    if (_SMOOTH[0] + 1) * len(whitening) ** 2 > _MOST_WORK * root.size:
        return None
    degree, nodes, left_out = _find_nodes(form, span, *_SMOOTH)
    if left_out > _LEFT_OUT:
        kinked = _find_nodes(form, span, *_KINKED)
        degree, nodes, left_out = min(kinked, (degree, nodes, left_out), key=lambda found: found[2])
    rounding = _EPS * np.linalg.norm(nodes, axis=(1, 2)).max()
    return CovarianceCurve(
        low,
        high,
        whitening.astype(np.float32),
        degree,
        nodes.astype(np.float32),
        float(left_out + rounding),
    )


def _find_nodes(
    form: _Form, span: tuple[float, float], degree: int, n_cells: int, most_cells: int
) -> tuple[int, NDArray[np.float64], float]:
    """Return the degree, S at the nodes of cells that are small enough, and what is left out."""
    low, high = span
    nodes = form.at(np.linspace(low, high, n_cells * degree + 1))
    functions = _polynomials(degree, (np.arange(degree) + 0.5) / degree).T
    while True:
        steps = n_cells * degree
        between = form.at(low + (np.arange(steps) + 0.5) * ((high - low) / steps))
        left_out = 0.0
        for first in range(0, steps, degree):
            off = np.tensordot(functions, nodes[first : first + degree + 1], 1)
            off -= between[first : first + degree]
            left_out = max(left_out, float(np.linalg.norm(off, axis=(1, 2)).max()))
        if left_out < _LEFT_OUT or n_cells >= most_cells:
            return degree, nodes, left_out
        finer = np.empty((2 * steps + 1, *nodes.shape[1:]))
        finer[::2], finer[1::2] = nodes, between
        nodes, n_cells = finer, 2 * n_cells


@dataclass(frozen=True, eq=False)
class _Form:
    """zᵀ S(x) z as it is: ‖Re Σₚ ψₚ(x)ᵀ Λ zₚ‖², Λ being the root with a complex number for two."""

    terms: NDArray[Any]  # Λ, features × whitened directions × columns of the root
    maps: tuple[tuple[float, FeatureMap], ...]
    layout: TensorLayout
    place: tuple[int, int]  # the input of the core, and which of its cores
    turn: NDArray[np.float64] | None = None  # of z

    @classmethod
    def of(
        cls,
        root: NDArray[np.float64],
        core: int,
        map_weights: NDArray[np.float64],
        layout: TensorLayout,
        directions: NDArray[Any],
    ) -> _Form:
        whole: NDArray[Any] = root
        if layout.is_complex:
            real, imaginary = np.split(root, 2)
            whole = real + 1j * imaginary
        blocks = whole.reshape(-1, len(directions), root.shape[1])
        weights = [(weight, layout.maps[p]) for p, weight in enumerate(map_weights.tolist())]
        maps = tuple((weight, feature_map) for weight, feature_map in weights if weight)
        return cls(directions.T @ blocks, maps, layout, layout.core_places[core])

    def at(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return S at each x."""
        pieces = np.array_split(x, -(-len(x) // _PLACES_AT_ONCE))
        return np.concatenate([self._matrices_at(piece) for piece in pieces])

    def _matrices_at(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        parts: list[NDArray[np.float64]] = []
        column, place = self.place
        for weight, feature_map in self.maps:
            psi = weight * self.layout.inputs[column].factors(x, feature_map)[place]
            each = np.tensordot(psi, self.terms, 1)
            parts += [each.real, -each.imag] if np.iscomplexobj(each) else [each]
        B = np.concatenate(parts, axis=1)
        if self.turn is not None:
            B = self.turn @ B
        return np.asarray(B @ B.transpose(0, 2, 1))


def _stack_parts(Z: NDArray[Any]) -> NDArray[np.float32]:
    """Return real above imaginary parts of each map, or real numbers, all one below the other."""
    parts = np.concatenate([Z.real, Z.imag], axis=1) if np.iscomplexobj(Z) else Z
    return np.asarray(parts.reshape(-1, Z.shape[-1]).astype(np.float32))
