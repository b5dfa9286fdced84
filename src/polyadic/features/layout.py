"""The layout of the weight tensor: which core belongs to which input, and what it meets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features.maps import FeatureMap


@dataclass(frozen=True)
class TensorLayout:
    """How P feature maps of D inputs become one tensor: which core sees what.

    Parameters
    ----------
    maps : tuple of FeatureMap
        The P candidate maps.
    n_basis : tuple of int
        Number of basis functions of each of the D inputs; an input with one, the constant,
        takes no part.
    quantized : bool
        Whether an input has log2(n_basis) cores of two rows, or one core of n_basis rows.
    """

    maps: tuple[FeatureMap, ...]
    n_basis: tuple[int, ...]
    quantized: bool

    def __post_init__(self) -> None:
        for n_basis in set(self.n_basis) if self.quantized else ():
            if n_basis < 1 or n_basis & (n_basis - 1):
                below = max(1, 1 << (n_basis.bit_length() - 1))
                raise ValueError(
                    f"`n_basis={n_basis}` cannot be quantized: it must be a power of 2. "
                    f"Use {below} or {2 * below}, or pass quantized=False."
                )
        if self.quantized and set(self.n_basis) == {1}:
            raise ValueError(
                "`n_basis` must be 2 or more for at least one input, got 1 for all, which leaves "
                "every input out. Use for instance n_basis=8."
            )
        for feature_map in self.maps if self.quantized else ():
            if not feature_map.factorises:
                raise ValueError(
                    f"`{feature_map}` cannot be quantized: its features do not factorise. "
                    "Use another feature map, or pass quantized=False."
                )

    def to_fields(self) -> dict[str, Any]:
        """Return what a file keeps of the layout."""
        return {"maps": self.maps, "n_basis": self.n_basis, "quantized": self.quantized}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> TensorLayout:
        """Return the layout that a file describes."""
        return cls(**fields)

    @property
    def is_complex(self) -> bool:
        """Whether any map is complex, so that the cores are too."""
        return any(feature_map.is_complex for feature_map in self.maps)

    @cached_property
    def core_sizes(self) -> tuple[int, ...]:
        """Number of rows of each core, the cores of the first input first."""
        if not self.quantized:
            return self.n_basis
        return tuple(2 for n_basis in self.n_basis for _ in range(n_basis.bit_length() - 1))

    @cached_property
    def input_bits(self) -> tuple[tuple[int, int], ...]:
        """Which input and which of its bits each core of a quantized layout belongs to."""
        bits = [range(n_basis.bit_length() - 1) for n_basis in self.n_basis]
        return tuple((column, bit) for column, span in enumerate(bits) for bit in span)

    @cached_property
    def core_inputs(self) -> tuple[int, ...]:
        """Which input each core belongs to."""
        if not self.quantized:
            return tuple(range(len(self.n_basis)))
        return tuple(column for column, _ in self.input_bits)

    def factors(self, X: NDArray[Any], feature_map: FeatureMap) -> list[NDArray[Any]]:
        """Return the n × size factor that each core meets under one map."""
        factors: list[NDArray[Any]] = []
        for column, n_basis in zip(X.T, self.n_basis, strict=True):
            if self.quantized:
                factors.extend(np.moveaxis(feature_map.quantized(column, n_basis), 1, 0))
            else:
                factors.append(feature_map.plain(column, n_basis))
        return factors

    def factor(self, X: NDArray[Any], feature_map: FeatureMap, core: int) -> NDArray[Any]:
        """Return the n × size factor that one core meets under one map."""
        if not self.quantized:
            return feature_map.plain(X[:, core], self.n_basis[core])
        column, bit = self.input_bits[core]
        return np.asarray(feature_map.quantized(X[:, column], self.n_basis[column])[:, bit])
