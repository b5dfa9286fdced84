"""`polyadic fit`, `predict`, `evaluate` and `show`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import click

from polyadic.cli.errors import reported
from polyadic.cli.options import config_option, csv_options, estimator_options
from polyadic.cli.prepare import Preparation, learn, target_of
from polyadic.cli.streaming import (
    compared,
    fit_streamed,
    inputs_on_disk,
    is_streamed,
    predictions,
)
from polyadic.cli.tables import PREDICTIONS_HEADER, as_lines, read_table, write_predictions
from polyadic.cli.training import Fitted, check_folder, fit_model, measure, open_model

_FILE = click.Path(exists=True, dir_okay=False)
_DATA = click.Path(exists=True)
_STREAM = click.option(
    "--stream/--no-stream",
    default=None,
    help="Read rows from disk as they are needed; by default from 1 GiB on, and for folders.",
)
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
@csv_options
@_STREAM
@click.option("--verbose", is_flag=True, help="Print a line for each epoch.")
@_JSON
@config_option
@estimator_options
@click.pass_context
@reported
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
    delimiter: str | None,
    decimal: str,
    stream: bool | None,
    verbose: bool,
    as_json: bool,
    **parameters: Any,
) -> None:
    """Fit a model on DATA (CSV, Parquet, npz or npy) and write it to a file."""
    check_folder(out)
    given = {name: value for name, value in parameters.items() if _was_given(ctx, name)}
    if ctx.obj is not None:
        given["feature_maps"] = ctx.obj
    given["verbose"] = int(verbose)
    kinds: dict[str, Any] = {"encode": encode, "missing": missing, "ignored": ignore}
    if is_streamed(data, stream):
        kinds.update(delimiter=delimiter, decimal=decimal)
        fitted = fit_streamed(data, target, holdout, given, **kinds)
    else:
        preparation, X, y = learn(read_table(data, delimiter, decimal), target, **kinds)
        fitted = fit_model(data, preparation, X, y, holdout, given)
    fitted.save(out)
    if as_json:
        click.echo(json.dumps({"model": out, **fitted.facts()}, indent=2))
        return
    click.echo("\n".join([*_described(fitted), f"Wrote {out}."]))


def _was_given(ctx: click.Context, name: str) -> bool:
    """Return whether an option was set, by the command line or the configuration."""
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


@click.command()
@click.argument("model", type=_FILE)
@click.argument("data", type=_DATA)
@click.option("--out", help="CSV or Parquet file to write; CSV on standard output by default.")
@_BY_NAME
@csv_options
@_STREAM
@reported
def predict(
    model: str,
    data: str,
    out: str | None,
    by_name: bool,
    delimiter: str | None,
    decimal: str,
    stream: bool | None,
) -> None:
    """Predict each row of DATA with MODEL, in the order of the rows."""
    if out is not None:
        check_folder(out)
    fitted = open_model(model)
    parts: Iterable[Any]
    if is_streamed(data, stream):
        source = inputs_on_disk(fitted.preparation, data, by_name, delimiter, decimal)
        parts = predictions(fitted, source)
    else:
        inputs = fitted.preparation.inputs(read_table(data, delimiter, decimal), by_name)
        parts = [fitted.predict(inputs)]
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
@_STREAM
@_JSON
@reported
def evaluate(
    model: str,
    data: str,
    target: str | None,
    by_name: bool,
    delimiter: str | None,
    decimal: str,
    stream: bool | None,
    as_json: bool,
) -> None:
    """Measure MODEL on the rows of DATA."""
    fitted = open_model(model)
    preparation = _ignoring(fitted.preparation, target)
    if is_streamed(data, stream):
        fitted.check_single_target()
        target = target or preparation.target or "target"
        source = inputs_on_disk(preparation, data, by_name, delimiter, decimal, target)
        metrics = compared(fitted, source)["metrics"]
    else:
        table = read_table(data, delimiter, decimal)
        y = target_of(table, preparation, target)
        metrics = measure(y, fitted.predict(preparation.inputs(table, by_name)))
    if as_json:
        click.echo(json.dumps(metrics, indent=2))
        return
    click.echo("\n".join(_metric_lines(metrics)))


def _ignoring(preparation: Preparation, target: str | None) -> Preparation:
    """Return how to prepare a table whose target may have another name than in the fit."""
    return replace(preparation, ignored=(*preparation.ignored, *([target] if target else [])))


@click.command()
@click.argument("model", type=_FILE)
@_JSON
@reported
def show(model: str, as_json: bool) -> None:
    """Describe the model in a file."""
    fitted = open_model(model)
    if as_json:
        click.echo(json.dumps({"model": model, **fitted.facts()}, indent=2))
        return
    click.echo("\n".join(_described(fitted)))


def _described(fitted: Fitted) -> Iterator[str]:
    """Yield the lines that describe a model to a reader."""
    facts = fitted.facts()
    data, inputs = facts["data"], facts["inputs"]
    count = f"{len(inputs)} input{'s' * (len(inputs) != 1)}"
    yield f"{facts['estimator']}: {facts['target'] or 'target'} from {count}"
    if data:
        yield (
            f"  fitted on {data['rows_fitted']} of {data['rows']} rows of {data['file']} in "
            f"{data['seconds']:.1f} s, {data['date']}, polyadic {facts['version']}"
        )
    for message in facts["preparation"]:
        yield f"  {message}"
    yield f"  {facts['epochs']} epochs, training loss {facts['loss']:.4g}"
    yield from (f"  {line}" for line in _metric_lines(facts["held_out"], "held-out rows"))
    yield "Feature weights λ"
    shown = [entry for entry in facts["feature_weights"] if abs(entry["weight"]) >= 5e-4]
    yield from (f"  {entry['weight']:7.3f}  {entry['feature_map']}" for entry in shown)
    yield "Inputs"
    for entry in inputs:
        span = entry.get("deciles")
        yield f"  {entry['name']}" + (f", {span[0]:g} to {span[-1]:g}" if span else "")


def _metric_lines(metrics: dict[str, Any] | None, rows: str = "rows") -> Iterator[str]:
    if metrics is None:
        return
    r2 = "" if metrics["r2"] is None else f", R² {metrics['r2']:.4f}"
    yield (f"{metrics['rows']} {rows}: RMSE {metrics['rmse']:.5g}, MAE {metrics['mae']:.5g}{r2}")
