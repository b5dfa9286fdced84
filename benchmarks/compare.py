"""What was asked of the errors beside other models, and on how many sets it is so.

The error of a set is the mean over the splits that both models finished.  Where ours failed
and the other did not, the set counts as lost; where the other has no result, it does not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.models import BY_HAND, FIRST_EDITION, LARGE_BOOSTING, OURS, PROCESS

Record = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """Our error is to be at most `most` times another's on at least this share of the sets."""

    other: str
    most: float
    share: float | None = None

    def __str__(self) -> str:
        what = "no worse" if self.most == 1 else f"at most {self.most - 1:.0%} worse"
        return what if self.share is None else f"{what} on {self.share:.0%}"


ASKED = (
    Asked(PROCESS, 1.10, 0.80),
    Asked(LARGE_BOOSTING, 1.00, 0.75),
    Asked("xrfm", 1.00, 0.70),
    Asked("ridge", 1.00, 1.00),
    Asked(FIRST_EDITION, 1.00, 0.85),
    Asked(FIRST_EDITION, 1.05, 1.00),
    Asked("boosting", 1.00),
    Asked("catboost", 1.00),
)


# Of tables as they are, with text and gaps.
ASKED_OF_RAW = (
    Asked("boosting", 1.02, 0.80),
    Asked("catboost", 1.02, 0.60),
    Asked("ridge", 1.02, 1.00),
    Asked(BY_HAND, 1.00, 0.90),
)


@dataclass(frozen=True)
class Count:
    """On how many sets it is so, and how far off the sets are."""

    asked: Asked
    ratios: dict[str, float]

    @property
    def kept(self) -> int:
        """Return the number of sets on which it is so."""
        return sum(ratio <= self.asked.most for ratio in self.ratios.values())

    @property
    def share(self) -> float:
        """Return the share of sets on which it is so."""
        return self.kept / len(self.ratios)

    @property
    def met(self) -> str:
        """Return whether the share is the one asked for, nothing if none was."""
        if self.asked.share is None:
            return ""
        return "yes" if self.share >= self.asked.share else "no"

    @property
    def mean(self) -> float:
        """Return the geometric mean of the ratios."""
        logs = [math.log(ratio) for ratio in self.ratios.values()]
        return math.exp(sum(logs) / len(logs))

    @property
    def worst(self) -> str:
        """Return the set on which we are furthest behind."""
        return max(self.ratios, key=self.ratios.__getitem__)


def ratio(record: Record, other: str, model: str = OURS) -> float | None:
    """Return our error on a set over another's; None where there is nothing to compare."""
    ours, theirs = (record["models"].get(name, {}) for name in (model, other))
    splits = [each for each, outcome in theirs.items() if "mse" in outcome and each in ours]
    if not splits:
        return None
    if any("mse" not in ours[each] for each in splits):
        return math.inf
    return _sum(ours, splits) / max(_sum(theirs, splits), 1e-300)


def _sum(outcomes: Record, splits: Iterable[str]) -> float:
    return float(sum(outcomes[each]["mse"] for each in splits))


def counts(sets: dict[str, Record], all_asked: Sequence[Asked] = ASKED) -> list[Count]:
    """Return what can be counted of all that was asked."""
    found = []
    for asked in all_asked:
        ratios = {name: ratio(record, asked.other) for name, record in sets.items()}
        there = {name: value for name, value in ratios.items() if value is not None}
        if there:
            found.append(Count(asked, there))
    return found


def mean(record: Record, model: str, key: str) -> float | None:
    """Return the mean of a number over the splits that a model finished."""
    numbers = [o[key] for o in record["models"].get(model, {}).values() if "mse" in o]
    return sum(numbers) / len(numbers) if numbers else None


def failures(sets: dict[str, Record]) -> list[tuple[str, str, str, str]]:
    """Return set, split, model and reason of every cell without a result."""
    return [
        (name, number, model, outcome["failed"])
        for name, record in sets.items()
        for model, outcomes in record["models"].items()
        for number, outcome in outcomes.items()
        if "failed" in outcome
    ]
