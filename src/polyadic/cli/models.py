"""`polyadic fit`, `predict`, `evaluate` and `show`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any

import click

from polyadic.cli.errors import Mistake, as_user_errors, warn
from polyadic.cli.measures import warn_of_few
from polyadic.cli.options import CONFIG, config_option, csv_options, estimator_options, force_option
from polyadic.cli.outputs import (
    PREDICTIONS_HEADER,
    as_lines,
    check_output,
    check_predictions,
    write_predictions,
)
from polyadic.cli.prepare import Preparation, comparison_target, learn, target_name
from polyadic.cli.survey import Survey, doubtful_commas
from polyadic.cli.tables import Table, list_names, read_table
from polyadic.cli.training import Fitted, fit_model, open_model
from polyadic.sources.files.row_source import RowSource
from polyadic.sources.files.sniff import CsvFormat

_FILE = click.Path(exists=True, dir_okay=False)
_DATA = click.Path(exists=True)
_BY_NAME = click.option(
    "--by-name", is_flag=True, help="Pick the model's columns by name; leave others out."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@click.argument("data", type=_DATA)
@click.option("--target", help="Column to predict; 'target' by default.")
@click.option("--out", default="model.polyadic", show_default=True, help="Model file to write.")
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.2,
    show_default=True,
    help="Share of rows kept from the fit to measure the model on; 0 fits on all.",
)
@click.option("--encode", is_flag=True, help="Make numbers of text (categories) and dates (days).")
@click.option(
    "--missing",
    type=click.Choice(["error", "drop", "mean"]),
    default="error",
    show_default=True,
    help="What to do about missing values.",
)
@click.option("--ignore", multiple=True, metavar="COL", help="Column to leave out; repeatable.")
@click.option(
    "--keep",
    multiple=True,
    metavar="COL",
    help="Column to use without a word although it looks like an index or id; repeatable.",
)
@csv_options
@click.option(
    "--sample/--no-sample",
    default=True,
    help="Keep at most 1000 rows of the fit in the model file, for its report.",
)
@click.option("--verbose", is_flag=True, help="Print a line for each epoch or trial.")
@_JSON
@force_option
@config_option
@estimator_options
@click.pass_context
@as_user_errors
def fit(
    ctx: click.Context,
    /,
    data: str,
    target: str | None,
    out: str,
    holdout: float,
    encode: bool,
    missing: str,
    ignore: Sequence[str],
    keep: Sequence[str],
    csv: CsvFormat,
    sample: bool,
    verbose: bool,
    as_json: bool,
    force: bool,
    **parameters: Any,
) -> None:
    """Fit a model on DATA (Parquet, CSV, npy or npz, or a folder) and write it to a file."""
    check_output(out, [data, ctx.meta.get(CONFIG), parameters["checkpoint"]], force)
    given = {name: value for name, value in parameters.items() if _was_given(ctx, name)}
    if ctx.obj is not None:
        given["feature_maps"] = ctx.obj
    given["verbose"] = 1 if verbose else "auto"
    table = read_table(data, csv)
    n_rows, preparation, source = _learn_table(table, target, encode, missing, ignore, keep)
    fitted = fit_model(table, n_rows, preparation, source, holdout, given, sample)
    fitted.save(out)
    _warn_of_measures(fitted)
    if as_json:
        click.echo(json.dumps({"model": out, **fitted.facts()}, indent=2))
    else:
        click.echo("\n".join([*_describe(fitted), f"Wrote {out}."]))
    if fitted.interrupted:
        click.echo(_how_to_go_on(out, given.get("checkpoint")), err=True)
        ctx.exit(130)


def _was_given(ctx: click.Context, name: str) -> bool:
    """Return whether an option was set, by the command line or the configuration."""
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _learn_table(
    table: Table,
    target: str | None,
    encode: bool,
    missing: str,
    ignore: Sequence[str],
    keep: Sequence[str],
) -> tuple[int, Preparation, RowSource]:
    """Return the number of rows of a table, how its columns become inputs, and its rows."""
    target = target_name(table, target, [*ignore, *keep])
    index = [name for name in table.index if name not in (*keep, *ignore, target)]
    messages = [f"{list_names(index)}: an index that pandas wrote, left out"] if index else []
    ignored = [*ignore, *index]
    names = [name for name in table.names if name != target and name not in ignored]
    if not names:
        raise Mistake(f"{table.path} has no input columns besides the target {target!r}.")
    every = [*names, target]
    if len(table.files) > 1 and table.has_numbers(every):
        table.source(names, target, missing)  # the files must have the same columns
    data = table.read(every) if encode or missing == "mean" else None
    batches = table.batches(every) if data is None else data.to_batches()
    survey = Survey.of(table, batches, names, target)
    survey.check(encode, missing)
    warn(doubtful_commas(table, every))
    for message in messages:
        warn(f"{message}. Pass --keep to use it, or --ignore to leave it out without a word.")
    ids = survey.ids(keep)
    if ids:
        warn(
            f"{list_names(ids)} may be a row number or an id: all values differ, or they only "
            "rise or fall. It is used as an input. Pass --ignore NAME to leave it out, or --keep "
            "NAME to use it without a word."
        )
    return survey.n_rows, *learn(survey, data, missing, ignored, messages)


def _warn_of_measures(fitted: Fitted) -> None:
    """Warn where the errors of a model are not known, or not well."""
    held_out = fitted.notes["held_out"]
    if held_out is not None:
        warn(warn_of_few(held_out["metrics"], "held-out rows"))
    elif fitted.notes["data"]["rows_fitted"] < 10:
        warn("the table has too few rows to tell how well the model predicts.")


def _how_to_go_on(out: str, checkpoint: Any) -> str:
    if checkpoint is None:
        return (
            f"Interrupted: {out} is the model so far. Pass --checkpoint FILE to be able to go on "
            "after an interruption."
        )
    return (
        f"Interrupted: {out} is the model so far. The same command with --force goes on from "
        f"{checkpoint}."
    )


@click.command()
@click.argument("model", type=_FILE)
@click.argument("data", type=_DATA)
@click.option("--out", help="CSV or Parquet file to write; CSV on standard output by default.")
@_BY_NAME
@csv_options
@force_option
@as_user_errors
def predict(
    model: str,
    data: str,
    out: str | None,
    by_name: bool,
    csv: CsvFormat,
    force: bool,
) -> None:
    """Predict each row of DATA with MODEL, in the order of the rows."""
    if out is not None:
        check_predictions(out)
        check_output(out, [model, data], force)
    fitted = open_model(model)
    source = fitted.preparation.source(read_table(data, csv), by_name)
    later = (predicted for _, predicted in fitted.predict_batches(source))
    first = next(later, None)
    if first is None:
        raise Mistake(f"{data} has no rows under its header.")
    parts = chain([first], later)
    if out is not None:
        click.echo(f"Wrote {write_predictions(out, parts)} predictions to {out}.")
        return
    click.echo(PREDICTIONS_HEADER, nl=False)
    for part in parts:
        click.echo(as_lines(part), nl=False)


@click.command()
@click.argument("model", type=_FILE)
@click.argument("data", type=_DATA)
@click.option("--target", help="Column to compare with; that of the fit by default.")
@_BY_NAME
@csv_options
@_JSON
@as_user_errors
def evaluate(
    model: str,
    data: str,
    target: str | None,
    by_name: bool,
    csv: CsvFormat,
    as_json: bool,
) -> None:
    """Measure MODEL on the rows of DATA."""
    fitted = open_model(model)
    table = read_table(data, csv)
    target = comparison_target(table, fitted.preparation, target)
    metrics = fitted.evaluate(fitted.preparation.source(table, by_name, target))
    warn(warn_of_few(metrics))
    if as_json:
        click.echo(json.dumps(metrics, indent=2))
        return
    click.echo("\n".join(_metric_lines(metrics)))


@click.command()
@click.argument("model", type=_FILE)
@_JSON
@as_user_errors
def show(model: str, as_json: bool) -> None:
    """Describe the model in a file."""
    fitted = open_model(model)
    if as_json:
        click.echo(json.dumps({"model": model, **fitted.facts()}, indent=2))
        return
    click.echo("\n".join(_describe(fitted)))


def _describe(fitted: Fitted) -> Iterator[str]:
    """Yield the lines that describe a model to a reader."""
    facts = fitted.facts()
    data, inputs = facts["data"], facts["inputs"]
    count = f"{len(inputs)} input{'s' * (len(inputs) != 1)}"
    yield f"{facts['estimator']}: {facts['target'] or 'target'} from {count}"
    if data:
        parts = [("held out", data.get("rows_held_out")), ("left out", data.get("rows_dropped"))]
        others = "".join(f", {count} {what}" for what, count in parts if count)
        yield (
            f"  fitted on {data['rows_fitted']} of {data['rows']} rows of {data['file']}{others}, "
            f"in {data['seconds']:.1f} s, {data['date']}, polyadic {facts['version']}"
        )
    for message in facts["preparation"]:
        yield f"  {message}"
    yield f"  {_describe_fit(facts)}"
    yield from (f"  {line}" for line in _metric_lines(facts["held_out"], "held-out rows"))
    yield "Feature weights λ" + ": the part of the prediction of each map" * bool(facts["trials"])
    yield from (f"  {weight:7.3f}  {name}" for name, weight in _list_weights(fitted.model))
    if any("relevance" in entry for entry in inputs):
        yield from _describe_learned(inputs)
        return
    yield "Inputs"
    yield from (f"  {', '.join([entry['name'], *_span(entry)])}" for entry in inputs)


def _list_weights(model: Any) -> list[tuple[str, float]]:
    """Return the maps with the weights that can be seen, largest first."""
    from polyadic.inspection import short_name

    pairs = zip(map(short_name, model.feature_maps_), model.feature_weights_, strict=True)
    return sorted((p for p in pairs if abs(p[1]) >= 5e-4), key=lambda pair: -abs(pair[1]))


def _describe_fit(facts: dict[str, Any]) -> str:
    """Say how the fit went; a search has many trials, whose last loss says little."""
    if not facts["trials"]:
        return f"{facts['epochs']} epochs, training loss {facts['loss']:.4g}"
    ranks = sorted(set(facts["rank"]))
    of = f"of rank {ranks[0]}" if len(ranks) == 1 else f"of ranks {ranks[0]} to {ranks[-1]}"
    members = f"{len(facts['rank'])} member{'s' * (len(facts['rank']) != 1)}"
    return f"{members} {of}, chosen in {facts['trials']} trials"


def _describe_learned(inputs: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a table of what was learned about the inputs, the most relevant first."""
    from polyadic.inspection import describe_kernel, write_number, write_part

    yield "Inputs by relevance: how predictions change without one, as a part of their variance"
    used = [entry for entry in inputs if entry["kind"] != "unused"]
    rows = [["", "relevance", "kernel", "length scale", "basis functions", "values"]]
    for entry in sorted(used, key=lambda entry: -entry["relevance"]):
        length = write_number(entry["length_scale"], 2)
        learned = [describe_kernel(entry["kernel"]), length, str(entry["n_basis"])]
        rows.append([entry["name"], write_part(entry["relevance"]), *learned, *_span(entry)])
    columns = zip_longest(*rows, fillvalue="")
    widths = [max(len(cell) for cell in column) for column in columns]
    # Text stands on the left, numbers on the right.
    sides = "<><>><"
    for row in rows:
        cells = zip(row, sides, widths, strict=False)
        yield "  " + "  ".join(f"{cell:{side}{width}}" for cell, side, width in cells).rstrip()
    yield "  Length scales are in units of an input's range."
    if len(used) < len(inputs):
        yield f"  Unused: {', '.join(e['name'] for e in inputs if e['kind'] == 'unused')}"


def _span(entry: dict[str, Any]) -> list[str]:
    """Return the range of an input, where it is known."""
    deciles = entry.get("deciles")
    return [f"{deciles[0]:g} to {deciles[-1]:g}"] if deciles else []


def _metric_lines(metrics: dict[str, Any] | None, rows: str = "rows") -> Iterator[str]:
    if metrics is None:
        return
    r2 = "" if metrics["r2"] is None else f", R² {metrics['r2']:.4f}"
    yield (f"{metrics['rows']} {rows}: RMSE {metrics['rmse']:.5g}, MAE {metrics['mae']:.5g}{r2}")
