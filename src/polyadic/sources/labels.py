"""Labels of classes: which there are, what they weigh, and the number of each row's class.

    rows ─► LabelColumn ─► Labels: how much the rows of each label weigh; those of pieces add up
                             └─► Classes: the labels, sorted; they make numbers of labels

This is for rows that are read in pieces, in files and on a cluster; of rows in memory NumPy tells
the classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.sources.columns import is_gap

Label = str | int | bool

MOST_CLASSES = 10_000
_MOST_EXACT = 2**53  # beyond, doubles do not tell whole numbers apart


@dataclass(frozen=True)
class LabelColumn:
    """The labels of some rows: the different ones, and which of them each row has.

    Parameters
    ----------
    values : sequence
        Different labels.
    places : ndarray of int
        Of each row's label among them; −1 where there is none.
    """

    values: Sequence[Label]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, values: Any, *, are_flags: bool = False) -> LabelColumn:
        """Take the labels of an array or of a series; numbers may stand for true and false."""
        array = np.asarray(values)
        if array.dtype.kind in "biufU":
            found, places = np.unique(array, return_inverse=True)
            distinct: list[Any] = found.tolist()
            if are_flags:
                distinct = [each if is_gap(each) else bool(each) for each in distinct]
        else:
            seen: dict[Any, int] = {}
            items = (None if is_gap(item) else item for item in array.tolist())
            places = np.fromiter((seen.setdefault(item, len(seen)) for item in items), np.int64)
            distinct = list(seen)
        return cls._without_gaps(distinct, places)

    @classmethod
    def of_arrow(cls, column: Any) -> LabelColumn:
        """Take the labels of a column of a record batch."""
        from pyarrow import compute, types

        coded = column if types.is_dictionary(column.type) else column.dictionary_encode()
        places = np.asarray(compute.fill_null(compute.cast(coded.indices, "int64"), -1))
        return cls._without_gaps(coded.dictionary.to_pylist(), places)

    @classmethod
    def _without_gaps(cls, values: list[Any], places: NDArray[Any]) -> LabelColumn:
        kept = [value for value in values if not is_gap(value)]
        if len(kept) == len(values):
            return cls([_plain(value) for value in values], places)
        there = np.cumsum([not is_gap(value) for value in values]) - 1
        moved = np.where([is_gap(value) for value in values], -1, there)
        return cls([_plain(value) for value in kept], np.append(moved, -1)[places])

    def hashes(self) -> NDArray[np.float64]:
        """Return a number for each row that says which text it has, whatever others there are."""
        texts = (blake2b(str(value).encode(), digest_size=6).digest() for value in self.values)
        numbers = [*(float(int.from_bytes(text)) for text in texts), np.nan]
        return np.array(numbers)[self.places]


@dataclass(frozen=True)
class Labels:
    """How much the rows of each label weigh; those of pieces of rows add up.

    Parameters
    ----------
    sums : dict of label to float
        Of the weights of its rows.
    missing : tuple of str
        Where the first rows without a label are.
    n_missing, n_rows : int
        How many rows have no label, and how many there are.

    Examples
    --------
    >>> import numpy as np
    >>> pieces = [np.array(["dog", "cat"]), np.array(["dog"])]
    >>> labels = [Labels.of(LabelColumn.of(piece), None) for piece in pieces]
    >>> (labels[0] + labels[1]).sums
    {'cat': 1.0, 'dog': 2.0}
    """

    sums: dict[Label, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    n_missing: int = 0
    n_rows: int = 0

    @classmethod
    def of(
        cls, column: LabelColumn, weight: NDArray[Any] | None, where: str = "row {}", first: int = 0
    ) -> Labels:
        """Sum up a piece of rows of positive weight.

        `where` says where a row is whose number, from `first` on, is put into it.
        """
        used = slice(None) if weight is None else weight > 0
        rows = np.arange(first, first + len(column.places))[used]
        places, weight = column.places[used], None if weight is None else weight[used]
        gaps = places < 0
        sums = np.bincount(
            places[~gaps],
            None if weight is None else weight[~gaps],
            minlength=len(column.values),
        )
        pairs = zip(column.values, sums.tolist(), strict=True)
        return cls(
            {label: float(total) for label, total in pairs if total},
            tuple(where.format(row) for row in rows[gaps][:_SHOWN].tolist()),
            int(np.count_nonzero(gaps)),
            len(rows),
        )

    def __add__(self, other: Labels) -> Labels:
        sums = dict(self.sums)
        for label, total in other.sums.items():
            sums[label] = sums.get(label, 0.0) + total
        if len(sums) > MOST_CLASSES:
            raise ValueError(
                f"`y` must have at most {MOST_CLASSES} classes, got more. Name the column of the "
                "classes as target, or use a regressor."
            )
        missing = (self.missing + other.missing)[:_SHOWN]
        n_missing, n_rows = self.n_missing + other.n_missing, self.n_rows + other.n_rows
        return Labels(sums, missing, n_missing, n_rows)

    def require_all(self) -> None:
        """Raise where a label is missing."""
        if self.n_missing:
            raise missing_labels(self.missing, self.n_missing, self.n_rows)

    def in_order(self) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return the labels, sorted, and the sum of the weights of each."""
        kinds = {_KINDS[type(label)] for label in self.sums}
        if len(kinds) > 1:
            examples = {_KINDS[type(label)]: label for label in self.sums}
            raise mixed_labels(*list(examples.values())[:2])
        # Text is sorted as it is: an array of text would take the length of the longest for all.
        found: list[Any] = sorted(self.sums)
        values = np.array(found, dtype=object if kinds == {"text"} else None)
        return values, np.array([self.sums[label] for label in found])


_SHOWN = 5
_KINDS: dict[type, str] = {str: "text", bool: "flags", int: "numbers"}


def mixed_labels(one: Any, other: Any) -> ValueError:
    """Return the error of labels of two kinds, of which there is an example each."""
    return ValueError(
        f"`y` must have labels of one kind, got {one!r} and {other!r}. Convert them to one kind, "
        "such as text: y.astype(str)."
    )


def missing_labels(rows: Sequence[str], n_missing: int, n_rows: int, note: str = "") -> ValueError:
    """Return the error of labels that are missing, the first of them in these rows."""
    more = f" and {n_missing - len(rows)} more" if n_missing > len(rows) else ""
    return ValueError(
        f"Input y contains NaN: the label is missing in {n_missing} of {n_rows} rows: "
        f"{', '.join(rows)}{more}{note}. Leave these rows out."
    )


@dataclass(frozen=True, eq=False)
class Classes:
    """The labels of a fit, sorted; the place of a label among them is the number of its class.

    Parameters
    ----------
    values : ndarray
        The labels.
    weights : ndarray, optional
        What the weights of rows of each class are multiplied by.
    """

    values: NDArray[Any]
    weights: NDArray[np.float64] | None = None

    @property
    def are_text(self) -> bool:
        """Whether the labels are text."""
        return self.values.dtype.kind in "OU"

    def number(self, column: LabelColumn) -> NDArray[np.float64]:
        """Return the number of each row's class: −1 for others, NaN where there is no label."""
        known = {label: number for number, label in enumerate(self.values.tolist())}
        strange = next((each for each in column.values if isinstance(each, str)), None)
        if self.are_text != (strange is not None) and column.values:
            example = column.values[0] if strange is None else strange
            raise ValueError(
                f"`y` must have labels like those of the fit, {self.values[0]!r} and others, got "
                f"{example!r}. Make {'text' if self.are_text else 'numbers'} of them."
            )
        numbers = [float(known.get(label, -1)) for label in column.values]
        return np.array([*numbers, np.nan])[column.places]

    def weigh(
        self, numbers: NDArray[np.float64], weight: NDArray[Any] | None
    ) -> NDArray[np.float64] | None:
        """Return the weights of rows of these classes; what has no class has no weight."""
        if self.weights is None:
            return weight
        each = np.append(self.weights, 0.0)[numbers.astype(np.int64)]
        return each if weight is None else each * weight


def _plain(value: Any) -> Label:
    """Return a label as text, a whole number or a flag; raise for anything else."""
    if isinstance(value, str | bool | np.bool_):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, int | float | np.integer | np.floating):
        number = float(value)
        if not number.is_integer():
            raise ValueError(
                f"Unknown label type: continuous. `y` must have text, whole numbers or flags as "
                f"labels, got {value!r}. Use a regressor, or make text of the labels."
            )
        if abs(number) > _MOST_EXACT:
            raise ValueError(
                f"`y` must have numbers below 2**53 as labels, got {value!r}. Make text of them."
            )
        return int(value)
    raise refuse_label(value)


def refuse_label(value: Any) -> TypeError:
    """Return the error of a label of another type."""
    return TypeError(
        f"`y` must have text, whole numbers or flags as labels, got {value!r}. Make text of the "
        "labels: y.astype(str)."
    )
