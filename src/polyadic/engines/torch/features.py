"""Feature maps on a torch device: ratios, leading terms and factors of a chunk of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyadic.features import GeometricFeatures, TensorLayout


def is_geometric(layout: TensorLayout) -> bool:
    """Whether every core meets [1, e^(2^q)], a leading term of the row set aside."""
    return layout.is_quantized and all(
        isinstance(feature_map, GeometricFeatures)
        and type(feature_map).quantized is GeometricFeatures.quantized
        for feature_map in layout.maps
    )


def exponential(turns: Tensor, dtype: torch.dtype) -> Tensor:
    """Return exp(2πj·turns); whole turns go away before digits can be lost to them."""
    angle = (turns - turns.floor()) * (2 * math.pi)
    return torch.complex(angle.cos(), angle.sin()).to(dtype)


def ratio(X: Tensor, feature_map: GeometricFeatures, dtype: torch.dtype) -> Tensor:
    """Return e(x), D × n."""
    wave = feature_map.wave()
    if wave is not None:
        frequency, decay, _ = wave
        return decay * exponential(X.T.to(torch.float64) * frequency, dtype)
    columns = [feature_map.ratio(column) for column in _host(X).T]
    return torch.as_tensor(np.stack(columns)).to(X.device, dtype)


def leading(X: Tensor, feature_map: GeometricFeatures, layout: TensorLayout) -> Tensor | None:
    """Return the product over the inputs of s(x), in double; None where it is 1."""
    wave = feature_map.wave()
    if wave is not None:
        frequency, _, is_two_sided = wave
        if not is_two_sided:
            return None
        half = torch.tensor([n // 2 for n in layout.n_basis], device=X.device)
        turns = (X.to(torch.float64) * half).sum(1) * -frequency
        return exponential(turns, torch.complex128)
    terms = [
        term
        for column, n_basis in zip(_host(X).T, layout.n_basis, strict=True)
        if (term := feature_map.leading(column, n_basis)) is not None
    ]
    return torch.as_tensor(np.prod(terms, axis=0)).to(X.device) if terms else None


class Factors:
    """What each core meets under each map, size × n, and the terms that are set aside."""

    def __init__(self, X: Tensor, layout: TensorLayout, dtype: torch.dtype) -> None:
        self._X, self._layout, self._dtype = X, layout, dtype
        self._geometric = is_geometric(layout)
        self._kept: dict[int, Any] = {}

    def leading(self, p: int) -> Tensor | None:
        """Return the term of each row that multiplies everything, None where it is 1."""
        if not self._geometric:
            return None
        term = leading(self._X, self._map(p), self._layout)
        return None if term is None else term.to(self._dtype)

    def __call__(self, p: int, core: int) -> Tensor:
        """Return the factor of one core under one map."""
        if p not in self._kept:
            self._kept[p] = self._compute(p)
        if not self._geometric:
            factor: Tensor = self._kept[p][core]
            return factor
        dim, bit = self._layout.core_places[core]
        power = self._kept[p][dim]
        for _ in range(bit):
            power = power * power
        return torch.stack([torch.ones_like(power), power])

    def _compute(self, p: int) -> Any:
        if self._geometric:
            return ratio(self._X, self._map(p), self._dtype)
        factors = self._layout.factors(_host(self._X), self._layout.maps[p])
        return [torch.as_tensor(f.T.copy()).to(self._X.device, self._dtype) for f in factors]

    def _map(self, p: int) -> GeometricFeatures:
        feature_map = self._layout.maps[p]
        assert isinstance(feature_map, GeometricFeatures)
        return feature_map


def _host(X: Tensor) -> Any:
    """Return the rows as a NumPy array in double, for maps that only NumPy can compute."""
    return X.to("cpu", torch.float64).numpy()
