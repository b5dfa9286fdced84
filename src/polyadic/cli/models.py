"""`polyadic fit`, `predict`, `evaluate` and `show`: what they take, and the order of their work.

Whatever needs scikit-learn is imported when a command has its options, so that help and refusals
come at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

import click

from polyadic.cli.errors import Mistake, as_user_errors, warn
from polyadic.cli.options import (
    CONFIG,
    Levels,
    config_option,
    csv_options,
    estimator_options,
    force_option,
)
from polyadic.cli.outputs import (
    Wanted,
    as_lines,
    check_output,
    check_predictions,
    write_predictions,
)
from polyadic.cli.targets import TASKS

_FILE = click.Path(exists=True, dir_okay=False)
_DATA = click.Path(exists=True)
_BY_NAME = click.option(
    "--by-name", is_flag=True, help="Pick the model's columns by name; leave others out."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@click.argument("data", type=_DATA)
@click.option("--target", help="Column to predict; 'target' by default.")
@click.option(
    "--task",
    type=click.Choice(TASKS),
    help="Whether the target is a number or classes; told from its values by default.",
)
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
    task: str | None,
    out: str,
    holdout: float,
    ignore: Sequence[str],
    keep: Sequence[str],
    category: Sequence[str],
    csv: dict[str, Any],
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
    from polyadic.cli.describing import describe, warn_of_measures
    from polyadic.cli.survey import choose_columns
    from polyadic.cli.tables import read_table
    from polyadic.cli.training import fit_model

    table = read_table(data, csv)
    named = {"--ignore": ignore, "--keep": keep, "--category": category}
    target = table.require_target(target, named)
    chosen = choose_columns(table, target, ignore, [*keep, *category])
    task = chosen.decide_task(task, given)
    fitted = fit_model(chosen, task, holdout, given, sample)
    fitted.save(out)
    warn_of_measures(fitted)
    if as_json:
        click.echo(json.dumps({"model": out, **fitted.facts()}, indent=2))
    else:
        click.echo("\n".join([*describe(fitted), f"Wrote {out}."]))
    if fitted.interrupted:
        click.echo(_how_to_go_on(out, given.get("checkpoint")), err=True)
        ctx.exit(130)


def _was_given(ctx: click.Context, name: str) -> bool:
    """Return whether an option was set, by the command line or the configuration."""
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


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
@click.option("--proba", is_flag=True, help="Write the probability of each class too.")
@click.option("--std", is_flag=True, help="Write the standard deviation of each number too.")
@click.option(
    "--interval",
    "coverages",
    type=Levels(),
    default=(),
    metavar="COVERAGE",
    help="Write intervals that hold so many of the numbers, such as 0.9 or 0.5,0.9.",
)
@click.option(
    "--quantiles",
    type=Levels(),
    default=(),
    metavar="ALPHA",
    help="Write quantiles of each number, such as 0.1,0.5,0.9.",
)
@_BY_NAME
@csv_options
@force_option
@as_user_errors
def predict(
    model: str,
    data: str,
    out: str | None,
    proba: bool,
    std: bool,
    coverages: tuple[float, ...],
    quantiles: tuple[float, ...],
    by_name: bool,
    csv: dict[str, Any],
    force: bool,
) -> None:
    """Predict each row of DATA with MODEL, in the order of the rows."""
    if out is not None:
        check_predictions(out)
        check_output(out, [model, data], force)
    from polyadic.cli.training import open_model

    fitted, wanted = open_model(model), Wanted(proba, std, coverages, quantiles)
    fitted.task.check(wanted)
    source = fitted.source(fitted.expected.read(data, csv), by_name)
    batches = fitted.predict_batches(source, plainly=not wanted.uncertainty)
    later = (fitted.task.columns(predicted, wanted) for _, predicted in batches)
    first = next(later, None)
    if first is None:
        raise Mistake(f"{data} has no rows under its header.")
    if out is not None:
        count = write_predictions(out, chain([first], later))
        click.echo(f"Wrote {count} predictions to {out}.")
        return
    click.echo(as_lines(first, header=True), nl=False)
    for part in later:
        click.echo(as_lines(part, header=False), nl=False)


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
    csv: dict[str, Any],
    as_json: bool,
) -> None:
    """Measure MODEL on the rows of DATA."""
    from polyadic.cli.describing import metric_lines
    from polyadic.cli.measures import warn_of_few
    from polyadic.cli.training import open_model

    fitted = open_model(model)
    table = fitted.expected.read(data, csv)
    target = fitted.expected.comparison_target(table, target)
    metrics = fitted.evaluate(fitted.source(table, by_name, target))
    warn(warn_of_few(metrics))
    if as_json:
        click.echo(json.dumps(metrics, indent=2))
        return
    click.echo("\n".join(metric_lines(metrics)))


@click.command()
@click.argument("model", type=_FILE)
@_JSON
@as_user_errors
def show(model: str, as_json: bool) -> None:
    """Describe the model in a file."""
    from polyadic.cli.describing import describe
    from polyadic.cli.training import open_model

    fitted = open_model(model)
    if as_json:
        click.echo(json.dumps({"model": model, **fitted.facts()}, indent=2))
        return
    click.echo("\n".join(describe(fitted)))
