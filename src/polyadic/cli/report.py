"""`polyadic report`: a model as one HTML page."""

from __future__ import annotations

import json
from typing import Any

import click

from polyadic.cli.errors import as_user_errors
from polyadic.cli.options import csv_options, force_option
from polyadic.cli.outputs import check_output

_FILE = click.Path(exists=True, dir_okay=False)
_DATA = click.Path(exists=True)


@click.command()
@click.argument("model", type=_FILE)
@click.argument("data", type=_FILE, required=False)
@click.option("--out", default="report.html", show_default=True, help="Page to write.")
@click.option("--target", help="Column to compare with; that of the fit by default.")
@click.option(
    "--train",
    type=_DATA,
    metavar="TABLE",
    help="The table of the fit: other models learn from the same rows as MODEL did. Without DATA "
    "everything is measured on the rows that the fit held out of it.",
)
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
    train: str | None,
    by_name: bool,
    csv: dict[str, Any],
    as_json: bool,
    force: bool,
) -> None:
    """Write a report on MODEL; with DATA, everything is measured on its rows."""
    check_output(out, [model, data, train], force)
    from polyadic.cli.subject import subject_of
    from polyadic.cli.training import open_model
    from polyadic.report import write_report

    fitted = open_model(model)
    table, of_fit = (
        None if path is None else fitted.expected.read(path, csv) for path in (data, train)
    )
    numbers = write_report(subject_of(fitted, model, table, of_fit, target, by_name), out)
    click.echo(json.dumps({"report": out, **numbers}, indent=2) if as_json else f"Wrote {out}.")
