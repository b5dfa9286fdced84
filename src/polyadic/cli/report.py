"""`polyadic report`: a model as one HTML page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from numpy.typing import NDArray

from polyadic.cli.errors import Mistake, as_user_errors
from polyadic.cli.options import csv_options, force_option
from polyadic.cli.outputs import check_output
from polyadic.cli.prepare import target_of
from polyadic.cli.tables import Table, read_table
from polyadic.cli.training import Fitted, open_model
from polyadic.sources.files.row_files import CsvFormat

_FILE = click.Path(exists=True, dir_okay=False)
_METRICS = ("rows", "rmse", "mae", "r2")

T = TypeVar("T")


@click.command()
@click.argument("model", type=_FILE)
@click.argument("data", type=_FILE, required=False)
@click.option("--out", default="report.html", show_default=True, help="Page to write.")
@click.option("--target", help="Column to compare with; that of the fit by default.")
@click.option("--by-name", is_flag=True, help="Pick the model's columns by name.")
@csv_options
@click.option("--json", "as_json", is_flag=True, help="Print all numbers of the page as JSON.")
@force_option
@as_user_errors
def report(
    model: str,
    data: str | None,
    out: str,
    target: str | None,
    by_name: bool,
    csv: CsvFormat,
    as_json: bool,
    force: bool,
) -> None:
    """Write a report on MODEL; with DATA, everything is measured on its rows."""
    from polyadic.report import Subject, write_report

    check_output(out, [model, data], force)
    fitted = open_model(model)
    fitted.check_single_target()
    rows = (
        _use_notes(fitted, model)
        if data is None
        else _use_table(fitted, read_table(data, csv), target, by_name)
    )
    subject = Subject(
        model=fitted.model,
        target=target or fitted.preparation.target or "target",
        names=fitted.preparation.names,
        categories={c.name: c.names for c in fitted.preparation.columns if c.kind == "category"},
        facts=_list_facts(fitted, model),
        messages=fitted.preparation.messages,
        model_file=Path(model).name,
        **rows,
    )
    numbers = write_report(subject, out)
    click.echo(json.dumps({"report": out, **numbers}, indent=2) if as_json else f"Wrote {out}.")


def _use_table(fitted: Fitted, table: Table, target: str | None, by_name: bool) -> dict[str, Any]:
    """Return what a subject says of the rows of a table."""
    target = target or fitted.preparation.target or table.target
    ignored = (*fitted.preparation.ignored, *([target] if target else []))
    X = replace(fitted.preparation, ignored=ignored).inputs(table, by_name)
    y = target_of(table, fitted.preparation, target)
    name = table.path.name
    return {
        "X": X,
        "y": y,
        "actual": y,
        "predicted": fitted.predict(X),
        "measured_on": f"rows of {name}",
        "rows_are": f"the rows of {name}",
        "cautions": _caution(fitted, name),
    }


def _caution(fitted: Fitted, name: str) -> list[str]:
    data = fitted.notes.get("data")
    if not isinstance(data, dict) or data.get("file") != name:
        return []
    return [
        f"The model was fitted on a table of this name, {name}. If these are rows of the fit, the "
        "errors are smaller than on new rows."
    ]


def _use_notes(fitted: Fitted, path: str) -> dict[str, Any]:
    """Return what a subject says of the rows that the model file kept something of."""
    n_inputs = len(fitted.preparation.names)
    rows: dict[str, Any] = {"X": None}
    sample = _read_note(fitted, path, "sample", lambda note: _check_sample(note, n_inputs))
    if sample is not None:
        rows["X"], rows["rows_are"] = sample
    rows["ranges"] = _read_note(fitted, path, "inputs", lambda note: _check_ranges(note, n_inputs))
    rows["ranges_are"] = "all rows of the fit"
    held_out = _read_note(fitted, path, "held_out", _check_held_out)
    return {
        **rows,
        **(held_out or {}),
        "measured_on": "held-out rows",
        "measured_how": "They are a part of the table that was kept from the fit.",
    }


def _read_note(fitted: Fitted, path: str, name: str, check: Callable[[Any], T]) -> T | None:
    """Return a note as `check` understands it; raise a mistake that names a forged one."""
    note = fitted.notes.get(name)
    if note is None:
        return None
    try:
        return check(note)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise Mistake(
            f"{path} cannot be reported on: what it notes of {name!r} is not what polyadic writes "
            f"({type(error).__name__}: {error}). Fit the model again."
        ) from error


def _check_numbers(values: Any, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64)
    sizes = zip(numbers.shape, shape, strict=True)
    if not all(size == wanted or wanted is None for size, wanted in sizes):
        raise ValueError(f"an array of shape {numbers.shape}")
    if not numbers.size or not np.isfinite(numbers).all():
        raise ValueError("no finite numbers")
    return numbers


def _check_sample(note: Any, n_inputs: int) -> tuple[NDArray[np.float64], str]:
    return _check_numbers(note["inputs"], (None, n_inputs)), str(note["described"])


def _check_ranges(note: Any, n_inputs: int) -> NDArray[np.float64]:
    deciles = _check_numbers([entry["deciles"] for entry in note], (n_inputs, 11))
    return deciles[:, [0, 5, 10]]


def _check_held_out(note: Any) -> dict[str, Any]:
    actual = _check_numbers(note["actual"], (None,))
    predicted = _check_numbers(note["predicted"], (len(actual),))
    stored = {name: note["metrics"][name] for name in _METRICS}
    metrics = {n: None if n == "r2" and v is None else float(v) for n, v in stored.items()}
    return {"actual": actual, "predicted": predicted, "metrics": metrics}


def _list_facts(fitted: Fitted, path: str) -> list[tuple[str, str]]:
    """Return what was fitted on what; a model saved in Python knows nothing of its data."""
    facts = _read_note(fitted, path, "data", _describe_data) or []
    n_members = len(fitted.model.alpha_)
    trend = " and a linear trend" if len(fitted.model.members_) > n_members else ""
    return [*facts, ("members", f"{n_members}{trend}")]


def _describe_data(data: Any) -> list[tuple[str, str]]:
    return [
        ("table", str(data["file"])),
        ("rows fitted on", f"{data['rows_fitted']:,} of {data['rows']:,}"),
        ("date", str(data["date"])),
        ("training time", f"{data['seconds']:.1f} s"),
    ]
