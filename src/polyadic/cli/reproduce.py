"""`polyadic reproduce`: the paper's tables and figures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from polyadic.cli.errors import reported

if TYPE_CHECKING:
    from polyadic.experiments.runs import Outcome, Run

_EXPERIMENTS = ["table1", "table2", "figure2", "airline"]
_DATASETS = ["airfoil", "concrete", "energy", "wine", "yacht", "airline", "nycflights"]


class _ManyValues(click.Command):
    """A command whose repeatable options also take several words: --datasets yacht wine."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        many = {flag for option in self.params for flag in option.opts if _repeats(option)}
        spread: list[str] = []
        flag = ""
        for word in args:
            if word.startswith("-"):
                flag = word if word in many else ""
            elif flag and spread[-1] != flag:
                spread.append(flag)
            spread.append(word)
        return super().parse_args(ctx, spread)


def _repeats(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and option.multiple


@click.command(cls=_ManyValues)
@click.argument("experiment", type=click.Choice(_EXPERIMENTS))
@click.option(
    "--datasets", multiple=True, type=click.Choice(_DATASETS), help="Sets, one or several."
)
@click.option("--restarts", type=click.IntRange(1), help="Random splits; the paper's by default.")
@click.option(
    "--models", multiple=True, type=click.Choice(["FL", "CV"]), help="FL, CV or both (default)."
)
@click.option("--data", "data_folder", type=click.Path(file_okay=False), help="Data folder.")
@click.option(
    "--out",
    default="results",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Folder of the results. Fits found there are not repeated, and are in the summary.",
)
@reported
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

    progress = _Progress()
    page = runner.reproduce(
        experiment,
        out,
        names=datasets or None,
        restarts=restarts,
        models=models or ("FL", "CV"),
        data_folder=data_folder,
        on_start=progress.start,
        on_fit=progress.fit,
    )
    progress.close()
    click.echo("\n".join(line for line in page.read_text().splitlines() if line.startswith("|")))
    click.echo(f"\nWrote {page} and its CSV, PNG and SVG.")


class _Progress:
    """A bar on a terminal, a line a fit elsewhere; both say how long the rest may take."""

    def __init__(self) -> None:
        self._done = self._total = 0
        self._bar = sys.stderr.isatty()

    def start(self, done: int, total: int) -> None:
        """Hear of the number of fits."""
        self._done, self._total = done, total
        if done:
            click.echo(f"{done} of {total} fits are there already.", err=True)

    def fit(self, run: Run, outcome: Outcome, left: float) -> None:
        """Hear of one fit."""
        self._done += 1
        what = f"{run.dataset} {run.model} {run.regularisation} P={run.n_maps} #{run.restart}"
        text = f"{what}: MSE {outcome.test_mse:.4f} in {outcome.seconds:.1f} s"
        text = f"[{self._done}/{self._total}] {text}, about {_duration(left)} left"
        if self._bar:
            filled = round(20 * self._done / self._total)
            text = f"\r\x1b[K{'█' * filled}{'░' * (20 - filled)} {text}"
        click.echo(text, err=True, nl=not self._bar)

    def close(self) -> None:
        """End the line of the bar."""
        if self._bar:
            click.echo("", err=True)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
