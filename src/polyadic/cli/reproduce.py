"""`polyadic reproduce`: the paper's tables and figures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from polyadic.cli.errors import as_user_errors

_EXPERIMENTS = ["table1", "table2", "figure2", "airline"]
_DATASETS = ["airfoil", "concrete", "energy", "wine", "yacht", "airline", "nycflights"]


@click.command()
@click.argument("experiment", type=click.Choice(_EXPERIMENTS))
@click.option("--datasets", multiple=True, type=click.Choice(_DATASETS), help="Set; repeatable.")
@click.option("--restarts", type=click.IntRange(1), help="Random splits; the paper's by default.")
@click.option(
    "--models", multiple=True, type=click.Choice(["FL", "CV"]), help="FL or CV; both by default."
)
@click.option("--data", "data_folder", type=click.Path(file_okay=False), help="Data folder.")
@click.option(
    "--out",
    default="results",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Folder of the results. Fits found there are not repeated, and are in the summary.",
)
@as_user_errors
def reproduce(
    experiment: str,
    datasets: Sequence[str],
    restarts: int | None,
    models: Sequence[str],
    data_folder: str | None,
    out: str,
) -> None:
    """Repeat an experiment of the paper: table1, table2, figure2 or airline.

    Interrupt it at will: the same command goes on where it stopped.
    """
    from polyadic.experiments import reproduce as runner

    bar: Any = click.progressbar(
        length=0, label="Fits", show_pos=True, item_show_func=_describe, file=sys.stderr
    )

    def start(done: int, total: int) -> None:
        bar.length = total - done
        if done:
            click.echo(f"{done} of {total} fits are there already.", err=True)

    with bar:
        page = runner.reproduce(
            experiment,
            out,
            names=datasets or None,
            restarts=restarts,
            models=models or ("FL", "CV"),
            data_folder=data_folder,
            on_start=start,
            on_fit=lambda run, outcome: bar.update(1, (run, outcome)),
        )
    click.echo("\n".join(line for line in page.read_text().splitlines() if line.startswith("|")))
    click.echo(f"\nWrote {page} and its CSV, PNG and SVG.")


def _describe(fit: tuple[Any, Any] | None) -> str:
    """Return what a line of progress says of the last fit."""
    if fit is None:
        return ""
    run, outcome = fit
    what = f"{run.dataset} {run.model} {run.regularisation} P={run.n_maps} #{run.restart}"
    return f"{what}: MSE {outcome.test_mse:.4f} in {outcome.seconds:.1f} s"
