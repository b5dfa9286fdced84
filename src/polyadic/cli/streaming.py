"""Tables larger than memory: read from disk as they are needed, and never whole."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from polyadic import FeatureLearningRegressor, open_rows
from polyadic.cli.columns import Column
from polyadic.cli.errors import Mistake
from polyadic.cli.prepare import Preparation, target_name
from polyadic.cli.tables import listed
from polyadic.cli.training import MAX_KEPT, Fitted, notes_of
from polyadic.rows.scores import Evaluation
from polyadic.sources.files.paths import format_of, found, open_file
from polyadic.sources.files.row_files import NUMBER
from polyadic.sources.files.row_source import RowSource

STREAMED_BYTES = 2**30
"""Files above this size are read from disk, unless the user says otherwise."""

_DECILE_ROWS = 50_000


def is_streamed(path: str, asked: bool | None) -> bool:
    """Return whether a table is read from disk as it is needed; say so if that is our choice."""
    if asked is not None:
        return asked
    file = Path(path)
    if file.is_dir():
        return True
    size = file.stat().st_size
    if size <= STREAMED_BYTES or format_of(file) is None:
        return False
    click.echo(
        f"{path} has {size / 1e9:.1f} GB, so its rows are read from disk as they are needed; "
        "--no-stream reads it into memory.",
        err=True,
    )
    return True


@dataclass(frozen=True)
class Header:
    """Names and types of the columns of a table on disk."""

    path: Path
    types: dict[str, str]
    target: str | None

    @classmethod
    def of(cls, path: str, delimiter: str | None, decimal: str) -> Header:
        """Read the head of the first file."""
        first = open_file(found(path)[0], delimiter, decimal)
        names = list(first.types)
        target = "target" if "target" in names else None
        if format_of(first.path) == "npy":
            target = names[-1] if names else None
        return cls(Path(path), first.types, target)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.types)

    def check_numbers(self, names: Sequence[str]) -> None:
        """Raise a mistake that names the columns which are not numbers."""
        strange = [name for name in names if self.types[name] != NUMBER]
        if strange:
            raise Mistake(
                f"{self.path} has columns that are not numbers: {listed(strange)} (the first is of "
                f"type {self.types[strange[0]]}). Pass --ignore {strange[0]!r} to leave it out, "
                "or --no-stream and --encode to read all into memory and make numbers of it."
            )


def fit_streamed(
    path: str,
    target: str | None,
    holdout: float,
    parameters: dict[str, Any],
    *,
    encode: bool,
    missing: str,
    ignored: Sequence[str],
    delimiter: str | None,
    decimal: str,
) -> Fitted:
    """Fit on a part of the rows that their hash tells, and measure on the rest."""
    for option, given in (("--encode", encode), ("--missing mean", missing == "mean")):
        if given:
            raise Mistake(
                f"{option} needs the whole table in memory, and {path} is read from disk. Pass "
                "--no-stream, or leave the option out."
            )
    header = Header.of(path, delimiter, decimal)
    target = target_name(header, target, ignored)
    names = [name for name in header.names if name != target and name not in ignored]
    header.check_numbers([*names, target])
    with _in_words_of_the_command():
        source = open_rows(
            path, target, names, missing=missing, delimiter=delimiter, decimal=decimal
        )
        kept, held = source.split(holdout) if holdout > 0 else (source, None)
        model = FeatureLearningRegressor(**{"random_state": 0, **parameters})
        began = time.perf_counter()
        model.fit(kept)
        seconds = time.perf_counter() - began
        messages = _accounted(model.n_samples_dropped_)
        preparation = Preparation(_numbers(names), target, tuple(ignored), messages)
        some = _some_inputs(kept, model.n_samples_fit_)
        notes = notes_of(path, names, some, model.n_samples_fit_, seconds)
        fitted = Fitted(model, preparation, notes)
        if held is not None:
            expected = holdout / (1 - holdout) * model.n_samples_fit_
            notes["held_out"] = compared(fitted, held, max(1, round(expected / MAX_KEPT)))
            notes["data"]["rows"] += notes["held_out"]["metrics"]["rows"]
    return fitted


def inputs_on_disk(
    preparation: Preparation,
    path: str,
    by_name: bool,
    delimiter: str | None,
    decimal: str,
    target: str | None = None,
) -> RowSource:
    """Return the rows of a table that is like the one of the fit."""
    others = [c.name for c in preparation.columns if c.kind not in ("number", "flag")]
    filled = [c.name for c in preparation.columns if c.fill is not None]
    if others or filled:
        what = f"encodes {listed(others)}" if others else f"fills gaps in {listed(filled)}"
        raise Mistake(f"The model {what}, which needs the table in memory. Pass --no-stream.")
    header = Header.of(path, delimiter, decimal)
    preparation.check_names(header, by_name)
    if target is not None and target not in header.names:
        raise Mistake(f"{path} has no column {target!r} to compare with. Pass --target.")
    with _in_words_of_the_command():
        return open_rows(path, target, preparation.names, delimiter=delimiter, decimal=decimal)


def predictions(fitted: Fitted, source: RowSource) -> Iterator[NDArray[np.float64]]:
    """Yield what is predicted for one batch of rows after the other."""
    fitted.check_single_target()
    with _in_words_of_the_command():
        for _, predicted in fitted.model._predict_batches(source):
            yield predicted[:, 0]


def compared(fitted: Fitted, source: RowSource, stride: int = 1) -> dict[str, Any]:
    """Return the errors of predictions, and every `stride`-th pair for pictures."""
    parts, absolute, pairs = list[Evaluation](), 0.0, list[NDArray[Any]]()
    with _in_words_of_the_command():
        for batch, predicted in fitted.model._predict_batches(source):
            parts.append(Evaluation.of(batch.y, predicted, None))
            absolute += float(np.abs(batch.y - predicted).sum())
            pairs.append(np.column_stack([batch.y, predicted])[::stride])
    if not parts:
        raise Mistake(f"{source} has no rows to measure on.")
    total = reduce(add, parts)
    count = int(total.targets.weight)
    mse, spread = float(total.squares[0]) / count, float(total.targets.deviation[0])
    actual, predicted = np.concatenate(pairs)[:MAX_KEPT].T
    metrics = {
        "rows": count,
        "mse": mse,
        "rmse": mse**0.5,
        "mae": absolute / count,
        "r2": total.r2 if spread > 0 else None,
    }
    return {"metrics": metrics, "actual": actual.copy(), "predicted": predicted.copy()}


def _numbers(names: Sequence[str]) -> tuple[Column, ...]:
    return tuple(Column(name, "number") for name in names)


def _accounted(dropped: int) -> list[str]:
    return [f"{dropped} rows with missing values left out"] if dropped else []


def _some_inputs(source: RowSource, n_rows: int) -> NDArray[np.float64]:
    """Return a few of the rows, evenly spread, for what a report tells of the inputs."""
    stride = max(1, n_rows // _DECILE_ROWS)
    return np.concatenate([batch.X[::stride].copy() for batch in source.batches()])


@contextmanager
def _in_words_of_the_command() -> Iterator[None]:
    """Have errors name options, where the library names arguments of open_rows."""
    try:
        yield
    except ValueError as error:
        text = str(error).replace("pass missing='drop' to open_rows", "pass --missing drop")
        text = text.replace("name the columns to read with open_rows(…, columns=…)", "--ignore it")
        raise Mistake(text) from error
