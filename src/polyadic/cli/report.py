"""`polyadic report`: a model as one HTML page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from polyadic.cli.errors import Mistake, as_user_errors
from polyadic.cli.measures import Fingerprint
from polyadic.cli.options import csv_options, force_option
from polyadic.cli.outputs import check_output
from polyadic.cli.tables import Table
from polyadic.cli.training import Fitted, open_model
from polyadic.sources.files.sniff import CsvFormat

_FILE = click.Path(exists=True, dir_okay=False)
_METRICS = ("rows", "rmse", "mae", "r2")


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
        _use_notes(fitted)
        if data is None
        else _use_table(fitted, fitted.expected.read(data, csv), target, by_name)
    )
    subject = Subject(
        model=fitted.model,
        target=target or fitted.expected.target or "target",
        names=list(fitted.inputs.names),
        facts=_list_facts(fitted),
        messages=_list_notes(fitted),
        model_file=Path(model).name,
        **rows,
    )
    numbers = write_report(subject, out)
    click.echo(json.dumps({"report": out, **numbers}, indent=2) if as_json else f"Wrote {out}.")


def _use_table(fitted: Fitted, table: Table, target: str | None, by_name: bool) -> dict[str, Any]:
    """Return what a subject says of the rows of a table."""
    target = fitted.expected.comparison_target(table, target)
    found = list(fitted.predict_batches(fitted.source(table, by_name, target)))
    if not found:
        raise Mistake(f"{table.path} has no rows to measure on.")
    X = np.concatenate([batch.X for batch, _ in found])
    y = np.concatenate([batch.y[:, 0] for batch, _ in found])
    name = table.path.name
    return {
        "X": X,
        "y": y,
        "actual": y,
        "predicted": np.concatenate([predicted for _, predicted in found]),
        "measured_on": f"rows of {name}",
        "rows_are": f"the rows of {name}",
        "cautions": _caution(fitted, X, y),
    }


def _list_notes(fitted: Fitted) -> list[str]:
    """Return what there is to say of columns beside what they hold."""
    lines = (fitted.notes.get("table") or {}).get("columns", [])
    return [f"{line['column']!r}: {line['note']}" for line in lines if line["note"]]


def _caution(fitted: Fitted, X: NDArray[np.float64], y: NDArray[np.float64]) -> list[str]:
    rows = Fingerprint()
    rows.add(X, y[:, None])
    known = fitted.warn_of_known(rows)
    return [] if known is None else [known[0].upper() + known[1:]]


def _use_notes(fitted: Fitted) -> dict[str, Any]:
    """Return what a subject says of the rows that the model file kept something of."""
    notes = fitted.notes
    rows: dict[str, Any] = {"X": None}
    sample, inputs, held_out = notes.get("sample"), notes.get("inputs"), notes.get("held_out")
    if sample is not None:
        rows["X"], rows["rows_are"] = np.asarray(sample["inputs"]), sample["described"]
    if inputs is not None:
        unknown = [np.nan] * 11
        deciles = np.array([entry["deciles"] or unknown for entry in inputs])
        rows["ranges"] = deciles[:, [0, 5, 10]]
    if held_out is not None:
        rows["actual"] = np.asarray(held_out["actual"])
        rows["predicted"] = np.asarray(held_out["predicted"])
        rows["metrics"] = {name: held_out["metrics"][name] for name in _METRICS}
    return {
        **rows,
        "ranges_are": "all rows of the fit",
        "measured_on": "held-out rows",
        "measured_how": "They are a part of the table that was kept from the fit.",
    }


def _list_facts(fitted: Fitted) -> list[tuple[str, str]]:
    """Return what was fitted on what; a model saved in Python knows nothing of its data."""
    data = fitted.notes.get("data")
    facts = [] if data is None else _describe_data(data)
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
