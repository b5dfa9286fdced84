"""Summaries: tables of mean and deviation, beside what the paper reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from polyadic.experiments.cells import Cell, cells
from polyadic.experiments.figures import draw
from polyadic.experiments.runs import Line
from polyadic.storage.atomic import replacing

TITLES = {
    "table1": "Table 1: regularisation of the feature weights",
    "table2": "Table 2: feature learning against cross-validation",
    "figure2": "Figure 2: error and time over the number of maps",
    "airline": "The large-scale run",
}
MODELS = {"FL": "feature learning", "CV": "cross-validated"}


def write_summary(experiment: str, lines: Sequence[Line], folder: Path) -> Path:
    """Write the page, the table as CSV and the pictures of an experiment."""
    found = cells(lines)
    with replacing(folder / f"{experiment}.csv") as file:
        file.write(_csv(found).encode())
    draw(experiment, found, folder)
    with replacing(folder / f"{experiment}.md") as file:
        file.write("\n".join(page(experiment, found)).encode())
    return folder / f"{experiment}.md"


def _csv(found: Sequence[Cell]) -> str:
    names = "dataset,model,regularisation,n_maps,restarts,mse,mse_std,seconds,seconds_std"
    rows = [f"{names},paper_mse,paper_mse_std,paper_seconds"]
    for cell in found:
        run = cell.run
        own = (cell.restarts, cell.mse, cell.mse_std, cell.seconds, cell.seconds_std)
        values = [run.dataset, run.model, run.regularisation, run.n_maps, *own]
        values += cell.paper or (None, None, None)
        rows.append(",".join("" if value is None else str(value) for value in values))
    return "\n".join(rows) + "\n"


def page(experiment: str, found: Sequence[Cell]) -> Iterable[str]:
    """Yield the lines of the Markdown page."""
    yield f"# {TITLES[experiment]}"
    yield ""
    yield f"Made by `polyadic reproduce {experiment}`. Errors are mean squared errors on the"
    yield "test part, with the target standardised on the training part: mean ± one standard"
    yield "deviation over random splits. Times are seconds of training on one thread. The paper's"
    yield "are from its authors' machine, so they show proportions only."
    yield ""
    if any(cell.run.dataset == "nycflights" for cell in found):
        yield "The airline set of the paper was not there: flights from New York in 2013, with the"
        yield "same inputs, stand in for it, so the paper has no figures to compare with."
        yield ""
    yield from _table(experiment, found)
    yield ""
    yield f"![{TITLES[experiment]}]({experiment}.svg)"
    yield ""
    yield f"Every single fit: [{experiment}-fits.csv]({experiment}-fits.csv); versions and seeds:"
    yield f"[{experiment}-environment.json]({experiment}-environment.json)."
    yield ""


def _table(experiment: str, found: Sequence[Cell]) -> Iterable[str]:
    """Yield the lines of a table, a row for each cell."""
    is_table1 = experiment == "table1"
    kinds = "λ" if is_table1 else "model | maps"
    yield f"| data | {kinds} | restarts | MSE | MSE, paper | seconds | seconds, paper |"
    yield "|---|---|" + "--:|" * (5 if is_table1 else 6)
    for cell in found:
        run, error, seconds = cell.run, "", ""
        if cell.paper is not None:
            mse, deviation, taken = cell.paper
            error = f"{mse:g}" if deviation is None else f"{mse:g} ± {deviation:g}"
            seconds = _seconds(taken)
        kind = run.regularisation if is_table1 else f"{MODELS[run.model]} | {run.n_maps}"
        yield (
            f"| {run.dataset} | {kind} | {cell.restarts} | {_error(cell.mse, cell.mse_std)} "
            f"| {error} | {_seconds(cell.seconds)} | {seconds} |"
        )


def _error(mean: float, deviation: float) -> str:
    digits = 3 if mean >= 0.01 else 4
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def _seconds(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
