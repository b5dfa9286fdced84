"""The weight tensor as a canonical polyadic decomposition, w = Σᵣ w⁽ᶜ⁾ᵣ ⊗ … ⊗ w⁽¹⁾ᵣ.

Cores are a list of size × R matrices W⁽¹⁾ … W⁽ᶜ⁾.  They are never changed in place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cores = list[NDArray[Any]]


def initial_cores(
    sizes: Sequence[int], rank: int, is_complex: bool, rng: np.random.RandomState
) -> Cores:
    """Draw standard normal cores and normalise their columns, as the paper does."""
    cores = []
    for size in sizes:
        core = rng.standard_normal((size, rank))
        core /= np.linalg.norm(core, axis=0)
        cores.append(core.astype(np.complex128) if is_complex else core)
    return cores


def gram(core: NDArray[Any]) -> NDArray[Any]:
    """Return W^H W, the R × R inner products of a core's columns."""
    return np.asarray(core.conj().T @ core)


def grams(cores: Cores) -> Sequence[NDArray[Any]]:
    """Return W^H W of every core, in one call where all are of one size."""
    stacked = _stack(cores)
    if stacked is None:
        return [gram(core) for core in cores]
    return list(stacked.conj().transpose(0, 2, 1) @ stacked)


def _stack(cores: Cores) -> NDArray[Any] | None:
    """Return all cores as one array; None where their sizes differ."""
    return np.array(cores) if len({len(core) for core in cores}) == 1 else None


def gram_product(grams: Sequence[NDArray[Any]], without: int | None = None) -> NDArray[Any]:
    """Return the Hadamard product H of the cores' Grams, one of them left out on request."""
    product = np.ones_like(grams[0])
    for index, factor in enumerate(grams):
        if index != without:
            product = product * factor
    return product


def later_gram_products(cores: Cores) -> list[NDArray[Any]]:
    """Return for each core the Hadamard product of the Grams of those that follow it."""
    each = grams(cores)
    products = [np.ones_like(each[-1])]
    for later in each[:0:-1]:
        products.append(products[-1] * later)
    return products[::-1]


def squared_norm(cores: Cores) -> float:
    """Return ‖w‖² without forming w."""
    return float(gram_product(grams(cores)).real.sum())


def rebalance(cores: Cores) -> Cores:
    """Give the cores of each rank-one term equal norms; the tensor stays the same.

    A term that is zero in one core is zero altogether, so all its columns become zero.
    """
    stacked = _stack(cores)
    if stacked is None:
        norms = np.array([np.linalg.norm(core, axis=0) for core in cores])
    else:
        norms = np.linalg.norm(stacked, axis=1)
    # The geometric mean by logarithms: the product of many norms might overflow.
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.exp(np.mean(np.log(norms), axis=0))
        scales = np.where(norms > 0, mean / norms, 0.0)
    if stacked is not None:
        return list(stacked * scales[:, None])
    return [core * scale for core, scale in zip(cores, scales, strict=True)]


def near_constant_cores(sizes: Sequence[int], rank: int, rng: np.random.RandomState) -> Cores:
    """Draw cores whose first function, the nearly constant one, is the largest."""
    cores = []
    for size in sizes:
        core = 0.3 * rng.standard_normal((size, rank))
        core[0] += 1.0
        cores.append(core / np.linalg.norm(core, axis=0))
    return cores


def grown(cores: Cores, rank: int, rng: np.random.RandomState) -> Cores:
    """Add small terms until the tensor has this rank; those that it has stay as they are.

    A new term takes each of its cores from a term drawn for that core: it combines functions
    that were found to be useful.  Noise tells it from the others.
    """
    new = rank - cores[0].shape[1]
    small = 0.3 ** (1 / len(cores))  # a third of a term in all
    larger = []
    for core in cores:
        drawn = core[:, rng.randint(core.shape[1], size=new)]
        noise = rng.standard_normal(drawn.shape) * np.abs(drawn).mean()
        larger.append(np.hstack([core, small * (drawn + 0.5 * noise)]))
    return larger


def most_terms(sizes: Sequence[int]) -> int:
    """Return a rank at which a tensor of this shape can hold anything; more terms are idle."""
    return max(1, math.prod(sizes) // max(sizes))
