"""`polyadic report`: a model as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from polyadic.cli.errors import reported
from polyadic.cli.options import csv_options, force_option
from polyadic.cli.outputs import check_output
from polyadic.cli.prepare import target_of
from polyadic.cli.tables import read_table
from polyadic.cli.training import Fitted, compared, open_model

_FILE = click.Path(exists=True, dir_okay=False)
_BACKGROUND = 1000


@click.command()
@click.argument("model", type=_FILE)
@click.argument("data", type=_FILE, required=False)
@click.option("--out", default="report.html", show_default=True, help="Page to write.")
@click.option("--by-name", is_flag=True, help="Pick the model's columns by name.")
@csv_options
@force_option
@reported
def report(
    model: str,
    data: str | None,
    out: str,
    by_name: bool,
    delimiter: str | None,
    decimal: str,
    na: tuple[str, ...],
    force: bool,
) -> None:
    """Write a report on MODEL; with DATA, errors are measured on its rows."""
    from polyadic.report import write_report

    check_output(out, [model, data], force)
    fitted = open_model(model)
    table = None if data is None else read_table(data, delimiter, decimal, na)
    if table is None:
        subject = subject_of(fitted, model)
    else:
        X = fitted.preparation.inputs(table, by_name)
        y = target_of(table, fitted.preparation, None)
        subject = subject_of(fitted, model, X, y, f"rows of {table.path.name}")
    write_report(subject, out)
    click.echo(f"Wrote {out}.")


def subject_of(
    fitted: Fitted,
    path: str,
    X: NDArray[np.float64] | None = None,
    y: NDArray[np.float64] | None = None,
    rows_are: str = "rows",
) -> Any:
    """Return what the report is about; without rows, what the model file kept of the fit."""
    from polyadic.report import Subject

    kept = fitted.notes.get("held_out") or {}
    measured_on = "held-out rows"
    if X is not None and y is not None:
        kept, measured_on = compared(y, fitted.predict(X)), rows_are
        X = X[np.random.RandomState(0).permutation(len(X))[:_BACKGROUND]]
    else:
        X, rows_are = _independent_rows(fitted), "the rows of the fit"
    return Subject(
        model=fitted.model,
        X=X,
        target=fitted.preparation.target or "target",
        names=fitted.preparation.names,
        actual=kept.get("actual"),
        predicted=kept.get("predicted"),
        measured_on=measured_on,
        metrics=kept.get("metrics"),
        rows_are=rows_are,
        facts=_facts(fitted),
        messages=fitted.preparation.messages,
        model_file=Path(path).name,
    )


def _independent_rows(fitted: Fitted) -> NDArray[np.float64]:
    """Return rows with the inputs' own distributions, drawn independently of each other.

    A model file keeps no rows of the data, only the deciles of each input.
    """
    inputs = fitted.notes.get("inputs")
    if inputs is None:
        raise ValueError(
            "This model was saved in Python and knows nothing of its data. Pass DATA: a table to "
            "make the report with."
        )
    deciles = np.array([entry["deciles"] for entry in inputs])
    places = np.random.RandomState(0).uniform(0, 10, (_BACKGROUND, len(deciles)))
    places[:2] = [[0.0], [10.0]]  # the ends of the range belong to it
    return np.column_stack(
        [np.interp(column, np.arange(11), d) for column, d in zip(places.T, deciles, strict=True)]
    )


def _facts(fitted: Fitted) -> list[tuple[str, str]]:
    data = fitted.notes.get("data")
    facts: list[tuple[str, str]] = []
    if data is not None:
        facts += [
            ("data", data["file"]),
            ("rows fitted on", f"{data['rows_fitted']} of {data['rows']}"),
            ("date", data["date"]),
            ("training time", f"{data['seconds']:.2f} s"),
        ]
    members = fitted.model.members_
    ranks = sorted({member.model.cores[0][0].shape[1] for member in members})
    return [
        *facts,
        ("members", str(len(members))),
        ("rank", ", ".join(map(str, ranks))),
        ("training loss", f"{fitted.model.loss_curve_[-1]:.4g}"),
    ]
