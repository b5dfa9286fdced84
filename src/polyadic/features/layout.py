"""The layout of the weight tensor: which core belongs to which input, and what it meets.

An input says of itself which cores it has; nothing outside this room and the engines' fast
paths need know what kinds of inputs there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.features.maps import FeatureMap


@dataclass(frozen=True)
class Quantized:
    """An input of `n_basis` = 2ᴷ basis functions that has K cores of two rows.

    With one basis function, the constant, it takes no part.
    """

    n_basis: int

    @property
    def core_sizes(self) -> tuple[int, ...]:
        """Number of rows of each of the input's cores."""
        return (2,) * (self.n_basis.bit_length() - 1)

    def factors(self, x: NDArray[Any], feature_map: FeatureMap) -> list[NDArray[Any]]:
        """Return the n × 2 factor that each of the input's cores meets under one map."""
        return list(np.moveaxis(feature_map.quantized(x, self.n_basis), 1, 0))

    def validate(self, maps: Sequence[FeatureMap]) -> None:
        """Raise unless the number is a power of two and every map factorises."""
        if self.n_basis < 1 or self.n_basis & (self.n_basis - 1):
            below = max(1, 1 << (self.n_basis.bit_length() - 1))
            raise ValueError(
                f"`n_basis={self.n_basis}` cannot be quantized: it must be a power of 2. "
                f"Use {below} or {2 * below}, or pass quantized=False."
            )
        for feature_map in maps:
            if not feature_map.factorises:
                raise ValueError(
                    f"`{feature_map}` cannot be quantized: its features do not factorise. "
                    "Use another feature map, or pass quantized=False."
                )


@dataclass(frozen=True)
class Plain:
    """An input of `n_basis` basis functions that has one core, a row for each of them."""

    n_basis: int

    @property
    def core_sizes(self) -> tuple[int, ...]:
        """Number of rows of each of the input's cores."""
        return (self.n_basis,)

    def factors(self, x: NDArray[Any], feature_map: FeatureMap) -> list[NDArray[Any]]:
        """Return the n × `n_basis` factor that the input's core meets under one map."""
        return [feature_map.plain(x, self.n_basis)]

    def validate(self, maps: Sequence[FeatureMap]) -> None:
        """Take any number and any map."""


Input = Quantized | Plain
_KINDS: dict[str, type[Input]] = {kind.__name__: kind for kind in (Quantized, Plain)}


@dataclass(frozen=True)
class TensorLayout:
    """How P feature maps of D inputs become one tensor: which core sees what.

    Parameters
    ----------
    maps : tuple of FeatureMap
        The P candidate maps.
    inputs : tuple of Quantized or Plain
        What each of the D inputs is.

    Examples
    --------
    >>> from polyadic.features import FourierFeatures, Plain, Quantized, TensorLayout
    >>> layout = TensorLayout((FourierFeatures(2.0),), (Quantized(8), Plain(5)))
    >>> layout.core_sizes, layout.core_inputs
    ((2, 2, 2, 5), (0, 0, 0, 1))
    """

    maps: tuple[FeatureMap, ...]
    inputs: tuple[Input, ...]

    def __post_init__(self) -> None:
        for each in self.inputs:
            each.validate(self.maps)
        if not self.core_sizes:
            raise ValueError(
                "`n_basis` must be 2 or more for at least one input, got 1 for all, which leaves "
                "every input out. Use for instance n_basis=8."
            )

    @classmethod
    def of(
        cls, maps: Sequence[FeatureMap], n_basis: Sequence[int], quantized: bool
    ) -> TensorLayout:
        """Return the layout of inputs that are all quantized, or all plain."""
        kind = Quantized if quantized else Plain
        return cls(tuple(maps), tuple(kind(each) for each in n_basis))

    @property
    def n_basis(self) -> tuple[int, ...]:
        """Number of basis functions of each input."""
        return tuple(each.n_basis for each in self.inputs)

    @cached_property
    def is_complex(self) -> bool:
        """Whether any map is complex, so that the cores are too."""
        return any(feature_map.is_complex for feature_map in self.maps)

    @cached_property
    def is_quantized(self) -> bool:
        """Whether every input is quantized, which is what the engines' fast paths are for."""
        return all(type(each) is Quantized for each in self.inputs)

    @cached_property
    def core_sizes(self) -> tuple[int, ...]:
        """Number of rows of each core, the cores of the first input first."""
        return tuple(size for each in self.inputs for size in each.core_sizes)

    @cached_property
    def core_places(self) -> tuple[tuple[int, int], ...]:
        """Which input each core belongs to, and its place among the cores of that input."""
        places = [range(len(each.core_sizes)) for each in self.inputs]
        return tuple((column, place) for column, span in enumerate(places) for place in span)

    @property
    def core_inputs(self) -> tuple[int, ...]:
        """Which input each core belongs to."""
        return tuple(column for column, _ in self.core_places)

    def factors(self, X: NDArray[Any], feature_map: FeatureMap) -> list[NDArray[Any]]:
        """Return the n × size factor that each core meets under one map."""
        pairs = zip(self.inputs, X.T, strict=True)
        return [factor for each, x in pairs for factor in each.factors(x, feature_map)]

    def factor(self, X: NDArray[Any], feature_map: FeatureMap, core: int) -> NDArray[Any]:
        """Return the n × size factor that one core meets under one map."""
        column, place = self.core_places[core]
        return self.inputs[column].factors(X[:, column], feature_map)[place]

    def to_fields(self) -> dict[str, Any]:
        """Return plain fields to store.

        Inputs of one kind are stored as files of version 1 have them.
        """
        (kind, *others) = {type(each) for each in self.inputs}
        if not others:
            fields = {"maps": self.maps, "n_basis": self.n_basis}
            return {**fields, "quantized": kind is Quantized}
        inputs = tuple((type(each).__name__, each.n_basis) for each in self.inputs)
        return {"maps": self.maps, "inputs": inputs}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> TensorLayout:
        """Return the layout that `to_fields` described, in this version or in version 1."""
        if "inputs" not in fields:
            return cls.of(**fields)
        inputs = tuple(_KINDS[kind](n_basis) for kind, n_basis in fields["inputs"])
        return cls(fields["maps"], inputs)
