"""The covariance of a core as a curve of small matrices, for rows one by one.

A row of the system of a core is a = Σₚ λₚ ψₚ(x) ⊗ zₚ: the features ψₚ hang on one number x, and
zₚ, the product of what all other cores say, on all other inputs.  What the posterior leaves open
of the row is a quadratic form of z, all zₚ one below the other, whose matrix hangs on x alone:

    aᵀ cov(v) a / σ² = zᵀ S(x) z = Σₖ gₖ(x) zᵀ Wₖ z

Features are smooth, so a few matrices Wₖ, by singular values, say all that S(x) is anywhere.  A
row then takes K products of R² / 2 numbers instead of (I R)² / 2.  The functions gₖ are cubic in
each of many cells; what they and the Wₖ leave out is measured between the nodes of the cubics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features import FeatureMap, TensorLayout
from polyadic.features.tables import MARGIN, N_KNOTS
from polyadic.model import cpd

_LEAST_UNKNOWNS = 64  # of a core that is worth a curve
_MOST_WORK = 0.4  # beside that of the root, for a curve that is worth it
_FORMING = 12  # multiplications that it takes to form a pair, in time
_FEW = 8  # matrices that any curve has
_LEFT_OUT = 1e-7  # singular values of matrices that are no part of the sum, beside the greatest
_LEAST_OF_OTHERS = 1e-12  # eigenvalues of the Gram matrix of the other cores, beside the greatest
_CELLS = round((N_KNOTS - 1) / (1 + 2 * MARGIN))  # their ends are knots of tables
_EVERY = 4  # of the nodes one is enough to find the matrices
_NODES = np.arange(4) / 3  # of the cubic of a cell
_BETWEEN = 1 / 8  # where a cubic through these nodes is as wrong as anywhere, or nearly so
_CUBIC = np.linalg.inv(np.vander(_NODES, increasing=True))  # powers of a cubic by its nodes
_AT_ONCE = 2**20  # pairs, which caches hold
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
    whitening : ndarray of shape (R', R)
        Takes each zₚ to the directions it can have, in units of the other cores.
    cubics : ndarray of shape (cells, 4, K)
        The functions gₖ: in each cell, the coefficients of a cubic.
    matrices : ndarray of shape (K, pairs)
        The Wₖ by pairs of entries of z, each pair once, whose order is that of `_form_pairs`.
    doubt : float
        How much rounding and what was left out may be, for each unit of ‖z‖².
    """

    low: float
    high: float
    whitening: NDArray[np.complexfloating] | NDArray[np.float64]
    cubics: NDArray[np.float32]
    matrices: NDArray[np.float32]
    doubt: float

    @property
    def is_finite(self) -> bool:
        """Whether all that it holds is finite."""
        held = (self.whitening, self.cubics, self.matrices, self.doubt)
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
        z = _stack_parts(self.whitening.astype(Z.dtype) @ Z)
        found, step = np.empty(len(x)), max(16, _AT_ONCE // self.matrices.shape[1])
        for first in range(0, len(x), step):
            part = slice(first, first + step)
            products = self.matrices @ _form_pairs(z[:, part])
            found[part] = np.einsum("nk,kn->n", self._functions(x[part]), products)
        off = self.doubt * (z * z).sum(axis=0, dtype=np.float64)
        known = (x >= self.low) & (x <= self.high) & np.isfinite(found)
        return np.maximum(found, 0.0), np.where(known, off, np.inf)

    def _functions(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Return the gₖ at each x, those of an end where it is beyond."""
        cells = len(self.cubics)
        place = np.nan_to_num(np.clip((x - self.low) / (self.high - self.low), 0, 1)) * cells
        cell = np.minimum(place.astype(np.intp), cells - 1)
        t = (place - cell).astype(np.float32)[:, None]
        cubic = self.cubics[cell]
        return np.asarray(((cubic[:, 3] * t + cubic[:, 2]) * t + cubic[:, 1]) * t + cubic[:, 0])


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
    if not np.isfinite(others).all():
        return None
    values, vectors = np.linalg.eigh(others)
    kept = values > _LEAST_OF_OTHERS * values[-1]
    vectors, scale = vectors[:, kept], np.sqrt(values[kept])
    form = _Form.of(root, core, map_weights, layout, vectors.conj() * scale)
    most = _MOST_WORK * root.size / max(form.n_pairs, 1) - _FORMING
    if most < _FEW or not form.n_pairs:
        return None
    places = np.linspace(low, high, 3 * _CELLS + 1)
    sample = form.at(places[::_EVERY])
    if not np.isfinite(sample).all():
        return None
    _, strength, matrices = np.linalg.svd(sample, full_matrices=False)
    matrices = matrices[strength > _LEFT_OUT * strength[0]]
    if len(matrices) > most:
        return None
    heights = form.at(places) @ matrices.T
    nodes = 3 * np.arange(_CELLS)[:, None] + np.arange(4)  # neighbours share a node
    cubics = np.einsum("pn,cnk->cpk", _CUBIC, heights[nodes])
    truth = form.at(low + (np.arange(_CELLS) + _BETWEEN) * ((high - low) / _CELLS))
    between = np.einsum("p,cpk->ck", _BETWEEN ** np.arange(4), cubics)
    left_out = np.linalg.norm(between @ matrices - truth, axis=1).max()
    rounding = _EPS * np.linalg.norm(truth, axis=1).max()
    return CovarianceCurve(
        low,
        high,
        (vectors / scale).T,
        cubics.astype(np.float32),
        (matrices * form.pair_norms).astype(np.float32),
        float(left_out + rounding),
    )


@dataclass(frozen=True, eq=False)
class _Form:
    """zᵀ S(x) z as it is: ‖Re Σₚ ψₚ(x)ᵀ Λ zₚ‖², Λ being the root with a complex number for two.

    S is told by its pairs, so that products of two of them are those of the matrices: an entry
    off the diagonal stands for two, and counts √2 times.
    """

    terms: NDArray[Any]  # Λ, features × whitened directions × columns of the root
    maps: tuple[tuple[float, FeatureMap], ...]
    layout: TensorLayout
    place: tuple[int, int]  # the input of the core, and which of its cores

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

    @property
    def n_parts(self) -> int:
        """Number of entries of z, real and imaginary ones."""
        return len(self.maps) * int(self.terms.shape[1]) * (2 if self.layout.is_complex else 1)

    @property
    def n_pairs(self) -> int:
        """Number of pairs of them."""
        return self.n_parts * (self.n_parts + 1) // 2

    @property
    def pair_norms(self) -> NDArray[np.float64]:
        """The weight of each pair."""
        i, j = np.triu_indices(self.n_parts)
        return np.where(i == j, 1.0, np.sqrt(2))

    def at(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the pairs of S at each x."""
        pieces = np.array_split(x, -(-len(x) // _PLACES_AT_ONCE))
        return np.concatenate([self._pairs_at(piece) for piece in pieces])

    def _pairs_at(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        parts: list[NDArray[np.float64]] = []
        column, place = self.place
        for weight, feature_map in self.maps:
            psi = weight * self.layout.inputs[column].factors(x, feature_map)[place]
            each = np.tensordot(psi, self.terms, 1)
            parts += [each.real, -each.imag] if np.iscomplexobj(each) else [each]
        B = np.concatenate(parts, axis=1)
        i, j = np.triu_indices(self.n_parts)
        return np.asarray((B @ B.transpose(0, 2, 1))[:, i, j] * self.pair_norms)


def _stack_parts(Z: NDArray[Any]) -> NDArray[np.float32]:
    """Return real above imaginary parts of each map, or real numbers, all one below the other."""
    parts = np.concatenate([Z.real, Z.imag], axis=1) if np.iscomplexobj(Z) else Z
    z = parts.reshape(-1, Z.shape[-1]).astype(np.float32)
    z[np.abs(z) < _LEAST] = 0.0  # whose pairs would be subnormal, and slow
    return z


def _form_pairs(z: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the products of every two rows of z, as `np.triu_indices` has them."""
    n, first = len(z), 0
    pairs = np.empty((n * (n + 1) // 2, z.shape[1]), z.dtype)
    for k in range(n):
        np.multiply(z[k], z[k:], out=pairs[first : first + n - k])
        first += n - k
    return pairs
