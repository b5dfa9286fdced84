"""The layout of the weight tensor: which core belongs to which input, and what it meets.

An input says of itself which cores it has; nothing outside this room and the engines' fast
paths need know what kinds of inputs there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyadic.features.maps import FeatureMap
from polyadic.features.tables import Table


@dataclass(frozen=True)
class Quantized:
    """An input of `n_basis` = 2ᴷ basis functions that has K cores of two rows.

    With one basis function, the constant, it takes no part.

    Examples
    --------
    >>> from polyadic.features import Quantized
    >>> Quantized(8).core_sizes
    (2, 2, 2)
    """

    n_basis: int
    table: ClassVar[None] = None

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
    """An input of `n_basis` basis functions that has one core, a row for each of them.

    Examples
    --------
    >>> from polyadic.features import Plain
    >>> Plain(8).core_sizes
    (8,)
    """

    n_basis: int
    table: ClassVar[None] = None

    @property
    def core_sizes(self) -> tuple[int, ...]:
        """Number of rows of each of the input's cores."""
        return (self.n_basis,)

    def factors(self, x: NDArray[Any], feature_map: FeatureMap) -> list[NDArray[Any]]:
        """Return the n × `n_basis` factor that the input's core meets under one map."""
        return [feature_map.plain(x, self.n_basis)]

    def validate(self, maps: Sequence[FeatureMap]) -> None:
        """Take any number and any map."""


@dataclass(frozen=True)
class Tabled:
    """An input with a table of its own, which is what its one core meets under any map.

    Examples
    --------
    >>> from polyadic.features import Table, Tabled
    >>> Tabled(Table.mercer("rbf", 0.5, n_basis=6)).core_sizes
    (6,)
    """

    table: Table

    @property
    def n_basis(self) -> int:
        """Number of basis functions."""
        return self.table.n_basis

    @property
    def core_sizes(self) -> tuple[int, ...]:
        """Number of rows of each of the input's cores."""
        return (self.n_basis,)

    def factors(self, x: NDArray[Any], feature_map: FeatureMap) -> list[NDArray[Any]]:
        """Return the n × `n_basis` factor that the input's core meets."""
        return [self.table.features(x)]

    def validate(self, maps: Sequence[FeatureMap]) -> None:
        """Take one real map, whose name stands for all tables."""
        if len(maps) != 1 or maps[0].is_complex:
            raise ValueError(
                f"A layout of tables must have one real map, got {list(maps)}. Tables say for "
                "each input what a map says for all."
            )


@dataclass(frozen=True)
class Unused:
    """An input that takes no part.

    Examples
    --------
    >>> from polyadic.features import Unused
    >>> Unused().core_sizes
    ()
    """

    n_basis: int = 1
    table: ClassVar[None] = None

    @property
    def core_sizes(self) -> tuple[int, ...]:
        """Return that the input has no cores."""
        return ()

    def factors(self, x: NDArray[Any], feature_map: FeatureMap) -> list[NDArray[Any]]:
        """Return that no core meets the input."""
        return []

    def validate(self, maps: Sequence[FeatureMap]) -> None:
        """Take any map."""


Input = Quantized | Plain | Tabled | Unused


@dataclass(frozen=True)
class TensorLayout:
    """How P feature maps of D inputs become one tensor: which core sees what.

    Parameters
    ----------
    maps : tuple of FeatureMap
        The P candidate maps.
    inputs : tuple of Quantized, Plain, Tabled or Unused
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
    def is_tabled(self) -> bool:
        """Whether every input that takes part has a table, which engines have a fast path for."""
        return all(type(each) in (Tabled, Unused) for each in self.inputs)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The table of each core, where every input that takes part has one."""
        return tuple(each.table for each in self.inputs if each.table is not None)

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

        Inputs that are all quantized, or all plain, are stored as files of version 1 have them.
        """
        kinds = {type(each) for each in self.inputs}
        if kinds in ({Quantized}, {Plain}):
            fields = {"maps": self.maps, "n_basis": self.n_basis}
            return {**fields, "quantized": kinds == {Quantized}}
        return {"maps": self.maps, "inputs": self.inputs}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> TensorLayout:
        """Return the layout that `to_fields` described, in this version or in version 1."""
        return cls(**fields) if "inputs" in fields else cls.of(**fields)
