"""What the inputs of rows are: their names, and which of them are categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Inputs:
    """Names and kinds of inputs.

    A number is itself, and NaN where there is a gap.  A category is the code of its level: 0 for
    the most frequent one of the training rows, the number of levels for one that they did not
    have, NaN for a gap.

    Parameters
    ----------
    names : tuple of str
        As users know them.
    n_levels : tuple of int
        How many levels each input has; 0 for a number.
    """

    names: tuple[str, ...]
    n_levels: tuple[int, ...]

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> Self:
        """Return inputs that are all numbers."""
        return cls(tuple(names), (0,) * len(names))

    def __len__(self) -> int:
        return len(self.names)
