"""`polyadic fit`, `predict`, `evaluate` and `show`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import click

from polyadic.cli.columns import write_columns
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
from polyadic.cli.survey import choose_columns
from polyadic.cli.tables import read_table
from polyadic.cli.training import Fitted, fit_model, open_model
from polyadic.sources.files.sniff import CsvFormat

_LEAST_RELEVANCE = 0.001
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
@click.option("--ignore", multiple=True, metavar="COL", help="Column to leave out; repeatable.")
@click.option(
    "--keep",
    multiple=True,
    metavar="COL",
    help="Column to use without a word although it looks like an index or id; repeatable.",
)
@click.option(
    "--category",
    multiple=True,
    metavar="COL",
    help="Column of numbers that are codes of categories; repeatable.",
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
    ignore: Sequence[str],
    keep: Sequence[str],
    category: Sequence[str],
    csv: CsvFormat,
    sample: bool,
    verbose: bool,
    as_json: bool,
    force: bool,
    **parameters: Any,
) -> None:
    """Fit a model on DATA (CSV, Parquet, Excel, npy or npz, or a folder) and write it to a file."""
    check_output(out, [data, ctx.meta.get(CONFIG), parameters["checkpoint"]], force)
    given = {name: value for name, value in parameters.items() if _was_given(ctx, name)}
    if ctx.obj is not None:
        given["feature_maps"] = ctx.obj
    given["verbose"] = 1 if verbose else "auto"
    if category:
        given["categorical_features"] = list(category)
    table = read_table(data, csv)
    target = table.require_target(target, [*ignore, *keep, *category])
    chosen = choose_columns(table, target, ignore, [*keep, *category])
    fitted = fit_model(chosen, holdout, given, sample)
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
    source = fitted.source(fitted.expected.read(data, csv), by_name)
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
    table = fitted.expected.read(data, csv)
    target = fitted.expected.comparison_target(table, target)
    metrics = fitted.evaluate(fitted.source(table, by_name, target))
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
    data, inputs, names = facts["data"], facts["inputs"], fitted.expected.names
    count = f"{len(names)} column{'s' * (len(names) != 1)}"
    yield f"{facts['estimator']}: {facts['target'] or 'target'} from {count}"
    if data:
        missing = data.get("rows_dropped")
        parts = [("held out", data.get("rows_held_out")), ("without a target left out", missing)]
        others = "".join(f", {count} {what}" for what, count in parts if count)
        yield (
            f"  fitted on {data['rows_fitted']} of {data['rows']} rows of {data['file']}{others}, "
            f"in {data['seconds']:.1f} s, {data['date']}, polyadic {facts['version']}"
        )
    yield f"  {_describe_fit(facts)}"
    yield from (f"  {line}" for line in _metric_lines(facts["held_out"], "held-out rows"))
    if facts["columns"]:
        yield "Columns"
        yield from write_columns(facts["columns"])
    yield "Feature weights λ" + ": the part of the prediction of each map" * bool(facts["trials"])
    yield from (f"  {weight:7.3f}  {name}" for name, weight in _list_weights(fitted.model))
    if any("relevance" in entry for entry in inputs):
        yield from _describe_learned(inputs)
        return
    if not facts["columns"]:
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
    told = [entry for entry in used if entry["relevance"] >= _LEAST_RELEVANCE] or used
    rows = [["", "relevance", "kernel", "length scale", "basis functions"]]
    for entry in sorted(told, key=lambda entry: -entry["relevance"]):
        # The trend may use an input that no kernel does.
        length = "–" if entry["length_scale"] is None else write_number(entry["length_scale"], 2)
        learned = [describe_kernel(entry["kernel"]), length, str(entry["n_basis"])]
        rows.append([entry["name"], write_part(entry["relevance"]), *learned])
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    # Text stands on the left, numbers on the right.
    sides = "<><>>"
    for row in rows:
        cells = zip(row, sides, widths, strict=True)
        yield "  " + "  ".join(f"{cell:{side}{width}}" for cell, side, width in cells).rstrip()
    yield "  Length scales are in units of an input's range."
    hardly = [entry["name"] for entry in used if entry not in told]
    unused = [entry["name"] for entry in inputs if entry["kind"] == "unused"]
    for what, names in (("Less than 0.1 %", hardly), ("Unused", unused)):
        if names:
            yield f"  {what}: {', '.join(names)}"


def _span(entry: dict[str, Any]) -> list[str]:
    """Return the range of an input, where it is known."""
    deciles = entry.get("deciles")
    return [f"{deciles[0]:g} to {deciles[-1]:g}"] if deciles else []


def _metric_lines(metrics: dict[str, Any] | None, rows: str = "rows") -> Iterator[str]:
    if metrics is None:
        return
    from polyadic.inspection import write_number

    r2 = "" if metrics["r2"] is None else f", R² {metrics['r2']:.4f}"
    rmse, mae = (write_number(metrics[name], 5) for name in ("rmse", "mae"))
    yield f"{metrics['rows']} {rows}: RMSE {rmse}, MAE {mae}{r2}"
