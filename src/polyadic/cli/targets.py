"""What a target is: a number, or classes; told from its values, unless users say so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

REGRESSION, CLASSIFICATION = "regression", "classification"
TASKS = (REGRESSION, CLASSIFICATION)

_MOST_LABELS = 10_000  # different values that are counted
_MOST_CODES = 20
_LEAST_ROWS = 10
_LEAST_SHARE = 0.2


@dataclass
class TargetValues:
    """How often a target has each of its values, as far as they are few.

    Attributes
    ----------
    counts : Counter
        Rows of each value; no more are added once there are too many.
    n_rows : int
        Rows that have a value.
    kind : str
        "text", "true or false", "date" or "number".
    """

    counts: Counter[Any] = field(default_factory=Counter)
    n_rows: int = 0
    kind: str = "number"

    def add(self, values: Any) -> None:
        """Look at more rows: an Arrow array as it is in the file."""
        from pyarrow import compute, types

        if types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if types.is_floating(values.type):
            values = values.filter(compute.is_finite(values))
        values = values.drop_null()
        self.n_rows += len(values)
        if types.is_boolean(values.type):
            self.kind = "true or false"
        elif types.is_string(values.type) or types.is_large_string(values.type):
            self.kind = "text"
        elif types.is_temporal(values.type):
            self.kind = "date"
        if len(self.counts) <= _MOST_LABELS:
            for entry in values.value_counts().to_pylist():
                self.counts[entry["values"]] += entry["counts"]

    @property
    def are_whole(self) -> bool:
        """Whether all values are whole numbers."""
        return all(value == round(value) for value in self.counts)

    @property
    def labels(self) -> list[Any]:
        """The values as labels of classes, sorted; whole numbers are no decimals."""
        is_number = self.kind == "number" and self.are_whole
        return sorted(int(value) if is_number else value for value in self.counts)

    @property
    def are_codes(self) -> bool:
        """Whether whole numbers look like codes of classes.

        Two of them do.  More do if they are 0, 1, 2, … or 1, 2, 3, … without a gap, none of them
        rare: those of a score or a count are rare at an end, and begin or end anywhere.
        """
        count, least = len(self.counts), min(self.counts)
        if count <= 2:
            return count == 2
        rarest = min(self.counts.values())
        return bool(
            count <= _MOST_CODES
            and least in (0, 1)
            and max(self.counts) - least == count - 1
            and rarest >= max(_LEAST_ROWS, _LEAST_SHARE * self.n_rows / count)
        )

    @property
    def doubt(self) -> str | None:
        """Why the texts of a target are no classes, where they seem to be none."""
        from polyadic.sources.files.sniff import is_number

        count = len(self.counts)
        if self.kind != "text" or count <= 2:
            return None
        if count > min(self.n_rows / 2, _MOST_LABELS):
            return f"its {count} different texts in {self.n_rows} rows hardly repeat"
        if count > _MOST_CODES and sum(map(is_number, self.counts)) > count / 2:
            return f"most of its {count} different texts are numbers"
        return None

    def tell_task(self, name: str) -> tuple[str, str | None]:
        """Return what a target is, and what is to be said where that goes not without saying."""
        count = len(self.counts)
        if self.kind == "text":
            return CLASSIFICATION, f"the target {name!r} is text, so {count} classes are predicted."
        if self.kind == "true or false" and count == 2:
            return CLASSIFICATION, f"the target {name!r} is true or false: classes are predicted."
        if self.kind == "date" or count > _MOST_CODES or not self.are_whole:
            return REGRESSION, None
        low, high = int(min(self.counts)), int(max(self.counts))
        what = f"the target {name!r} has {count} different whole numbers, {low} to {high}"
        if count == 2:
            what = f"the target {name!r} is {low} or {high}"
        if self.are_codes:
            return CLASSIFICATION, (
                f"{what}, so classes are predicted. Pass --task regression to predict a number."
            )
        if count > 2 and self.n_rows >= _LEAST_ROWS * count:
            return REGRESSION, (
                f"{what}, and is predicted as a number. Pass --task classification if they are "
                "codes of classes."
            )
        return REGRESSION, None
