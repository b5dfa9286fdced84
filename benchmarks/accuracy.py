"""Measure accuracy beside other models; write accuracy.json and the tables of accuracy.md.

    python -m benchmarks.accuracy --data DATA --out docs --jobs 16      all sets, all models
    python -m benchmarks.accuracy --data DATA --out docs --effort       error and time over effort
    python -m benchmarks.accuracy --data DATA --out docs --times        seconds beside boosting
    python -m benchmarks.accuracy --out docs --report                   the page, nothing is run

Errors are mean squared errors on test rows, the target standardised on the training rows, and
times are those of one fit, compilation left out.  Results are stored cell by cell and meet what
is stored already, so the tables can be filled in several calls; --missing goes on with a run
that was interrupted.  With --as first-edition the polyadic that is installed, or in PYTHONPATH,
is measured under that title.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cells, compare, curves, machine, models, tables
from benchmarks.cells import Cell, Sets
from benchmarks.collection import COLLECTION, uniform
from benchmarks.compare import Asked
from benchmarks.models import AT_EFFORTS, MODELS, OURS, TITLES
from benchmarks.real import REAL
from benchmarks.report import put, table

CAP = 10_000  # rows of a set
RAW_GROUP = "Tables as they are, with text and gaps"
GROUPS = {
    RAW_GROUP: tables.RAW,
    "A fifth of the cells removed": tables.HOLES,
    "Data sets": (*tables.CSV_SETS, tables.FLIGHTS),
    "Further tables, numeric columns": tables.TABLES,
    "Tables of R's packages": tuple(REAL),
    "Diabetes, and made-up problems": tuple(COLLECTION),
}
KNOWN = tuple(name for names in GROUPS.values() for name in names)
MADE_UP = tuple(name for name in COLLECTION if name != "diabetes")
MANY_INPUTS = "two-hundred-inputs"

EFFORT_SETS = ("concrete", "airfoil", "wine", "cpu-act", "kin8nm", "california-ocean")
EFFORT_PEERS = ("boosting", models.LARGE_BOOSTING, "catboost")
FIGURE = "accuracy-effort.svg"


def _waves(X: Any) -> Any:
    return np.sin(6 * X[:, 0]) + 4 * X[:, 1] * X[:, 2] + X[:, 3] ** 2 + np.abs(X[:, 4] - 0.5)


# Named by their training rows, four fifths of all; of the flights it is two thirds.
TIMED: dict[str, Callable[[], Any] | None] = {
    "1000x8": uniform(_waves, 1_250, 8, 0.3),
    "6400x20": uniform(_waves, 8_000, 20, 0.3),
    "20000x9": uniform(_waves, 25_000, 9, 0.3),
    tables.FLIGHTS: None,
    "2000x300": uniform(_waves, 2_500, 300, 0.3),
}


def main() -> None:
    arguments = _arguments()
    # Ended from outside, it ends its processes too; --missing goes on from what is stored.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results = stored(arguments.out)
    if not arguments.report:
        results["timed_on" if arguments.times else "machine"] = machine.describe()
        run(results, arguments)
    if arguments.out is not None:
        write(results, arguments.out)
    print("\n" + page(results), flush=True)


def run(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Measure what the command line asks for, and store each result as it comes."""
    section, names, chosen, jobs, threads = _plan(arguments)
    sets = load_all(names, arguments.data)
    records = results.setdefault(section, {})
    for name, (X, _) in sets.items():
        records[name] = record(records.get(name), *X.shape, threads)
    todo = plan(sets, chosen, arguments.splits, arguments.title)
    if arguments.missing:
        todo = [cell for cell in todo if "mse" not in _outcome(records, cell)]
    done = cells.run(todo, sets, jobs, threads, arguments.limit)
    for number, (cell, outcome) in enumerate(done, 1):
        keep(records, cell, outcome)
        print(f"{number}/{len(todo)} {told(cell, outcome)}", flush=True)
        if arguments.out is not None:
            save(results, arguments.out)


def _plan(
    arguments: argparse.Namespace,
) -> tuple[str, tuple[str, ...], list[str], int, int]:
    """Return where results go, sets, models, processes and threads of each."""
    section, names, chosen = "sets", arguments.sets or KNOWN, arguments.models or tuple(MODELS)
    jobs = arguments.jobs
    if arguments.effort:
        names = arguments.sets or EFFORT_SETS
        chosen = arguments.models or (OURS, *AT_EFFORTS, *EFFORT_PEERS)
    if arguments.times:
        # One at a time: a fit that shares its cores with others takes longer.
        section, names, jobs = "times", arguments.sets or tuple(TIMED), 1
        chosen = arguments.models or (OURS, "boosting")
    if arguments.title is not None:
        chosen = (OURS,)
    for name in chosen:
        if not models.installed(name):
            print(f"{name}: left out, pip install {models.PACKAGES[name]}", flush=True)
    there = [name for name in chosen if models.installed(name)]
    threads = arguments.threads or max(1, (os.cpu_count() or 1) // jobs)
    return section, tuple(names), there, jobs, threads


def load(name: str, folder: str | None) -> tuple[Any, Any]:
    """Return the inputs and the target of a set of any collection, at most `CAP` rows."""
    if name in tables.HOLES:
        X, y = load(name.removeprefix("holes/"), folder)
        return tables.remove_cells(X), y
    timed = TIMED.get(name)
    if timed is not None:
        return timed()
    if name in COLLECTION:
        return COLLECTION[name]()
    if folder is not None and folder.endswith(".npz"):
        return unpacked(name, folder)
    if name in REAL:
        return tables.capped(*REAL[name].load(), CAP)
    if folder is None:
        raise FileNotFoundError("its folder must be named, as in --data folder")
    X, y = tables.load(name, folder)
    return (X, y) if name in (tables.FLIGHTS, *tables.RAW) else tables.capped(X, y, CAP)


def load_all(names: Iterable[str], folder: str | None) -> Sets:
    """Return the sets that are there, telling which are not."""
    sets: Sets = {}
    for name in names:
        try:
            sets[name] = load(name, folder)
        except FileNotFoundError as missing:
            print(f"{name}: left out, {missing}", flush=True)
    return sets


def pack(path: str, folder: str | None) -> None:
    """Write all sets that need files or packages into one file, for a machine without them."""
    made = (*COLLECTION, *tables.RAW, *tables.HOLES)
    sets = load_all([name for name in KNOWN if name not in made], folder)
    columns = {}
    for name in [] if folder is None else [each for each in tables.RAW if each in KNOWN]:
        columns[name] = np.frombuffer(tables.raw_bytes(name, folder), dtype=np.uint8)
    for name, (X, y) in sets.items():
        columns |= {f"{name}/X": X, f"{name}/y": y}
    np.savez_compressed(path, **columns)


def unpacked(name: str, path: str) -> tuple[Any, Any]:
    """Return a set from the file that `pack` wrote."""
    with np.load(path) as file:
        if name in tables.RAW and name in file:
            return tables.frame(file[name].tobytes())
        if f"{name}/X" not in file:
            raise FileNotFoundError(f"it is not in {Path(path).name}")
        return file[f"{name}/X"], file[f"{name}/y"]


def default_splits(name: str, n_rows: int) -> int:
    """Return over how many splits a set is measured: fewer where fits are slow."""
    known = dict.fromkeys(tables.CSV_SETS, 10) | {"wine": 3, tables.FLIGHTS: 1}
    if name in tables.RAW:
        return 5 if n_rows <= 10_000 else 2
    return known.get(name.removeprefix("holes/"), 3 if n_rows <= 2_000 else 2)


def plan(sets: Sets, chosen: Iterable[str], n_splits: int | None, title: str | None) -> list[Cell]:
    """Return the cells, those of most rows first, so that the last to end are short."""
    found = []
    for name, (_, y) in sorted(sets.items(), key=lambda each: -len(each[1][1])):
        train = round(len(y) * (1 - cells.share_of_test(name)))
        for seed in range(1, (n_splits or default_splits(name, len(y))) + 1):
            for model in _able(chosen, name):
                if train <= models.MOST_ROWS.get(model, train):
                    found.append(Cell(name, seed, model, title or model))
    return found


def _able(chosen: Iterable[str], name: str) -> list[str]:
    """Return the models that can take a set."""
    if name in (*tables.RAW, *tables.HOLES):
        return [model for model in chosen if model in (*models.OF_FRAMES, *AT_EFFORTS)]
    return [model for model in chosen if model not in models.OF_FRAMES_ONLY]


def record(old: dict[str, Any] | None, rows: int, inputs: int, threads: int) -> dict[str, Any]:
    """Return where the results of a set go: an older record, if it is of the same table."""
    if old is not None and (old["rows"], old["inputs"]) == (rows, inputs):
        return {**old, "threads": threads}
    return {"rows": rows, "inputs": inputs, "threads": threads, "models": {}}


def keep(records: dict[str, Any], cell: Cell, outcome: dict[str, Any]) -> None:
    """Put the result of a cell in the record of its set."""
    of_model = records[cell.set_name]["models"].setdefault(cell.title, {})
    of_model[str(cell.split)] = outcome


def _outcome(records: dict[str, Any], cell: Cell) -> dict[str, Any]:
    of_model: dict[str, Any] = records[cell.set_name]["models"].get(cell.title, {})
    return of_model.get(str(cell.split), {})


def told(cell: Cell, outcome: dict[str, Any]) -> str:
    """Return a line that tells a result."""
    what = f"{cell.set_name:<18} split {cell.split:<2} {cell.title:<20}"
    if "failed" in outcome:
        return f"{what} failed: {outcome['failed']}"
    return f"{what} MSE {outcome['mse']:.5f}  {outcome['seconds']:.2f} s"


def stored(out: Path | None) -> dict[str, Any]:
    """Return the results that are there already."""
    path = None if out is None else out / "accuracy.json"
    if path is None or not path.exists():
        return {"sets": {}}
    results: dict[str, Any] = json.loads(path.read_text())
    return results


def save(results: dict[str, Any], out: Path) -> None:
    """Write the numbers, whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    part = out / "accuracy.json.part"
    part.write_text(json.dumps(results, indent=1) + "\n")
    part.replace(out / "accuracy.json")


def write(results: dict[str, Any], out: Path) -> None:
    """Write the numbers and the figure, and put the tables between the markers of their page."""
    save(results, out)
    sets = with_effort(results["sets"])
    if sets:
        curves.draw(sets, out / FIGURE)
    put(page(results), out / "accuracy.md", "Accuracy")


def with_effort(sets: dict[str, Any]) -> dict[str, Any]:
    """Return the sets that were measured at several efforts."""
    return {n: sets[n] for n in KNOWN if n in sets and set(AT_EFFORTS) & set(sets[n]["models"])}


def page(results: dict[str, Any]) -> str:
    """Return what was asked, errors and times, in Markdown."""
    if "machine" not in results:
        return "Not measured yet: `python -m benchmarks.accuracy --help` tells how."
    sets, parts = results["sets"], [told_of(results["machine"])]
    raw = {name: sets[name] for name in tables.RAW if name in sets}
    kinds = (*MADE_UP, *tables.RAW, *tables.HOLES)
    real = {name: sets[name] for name in KNOWN if name in sets and name not in kinds}
    made_up = {name: sets[name] for name in MADE_UP if name in sets}
    if compare.counts(raw, compare.ASKED_OF_RAW):
        parts += [
            "### Asked and reached: tables as they are",
            counts_table(raw, compare.ASKED_OF_RAW),
        ]
    if any(name in sets for name in tables.HOLES):
        parts += ["### What it costs to remove a fifth of the cells", holes_table(sets)]
    if compare.counts(real):
        parts += ["### Asked and reached: real tables", counts_table(real)]
    if compare.counts(made_up):
        parts += ["### The same on made-up problems", counts_table(made_up)]
    if MANY_INPUTS in sets:
        parts += [many_inputs(sets[MANY_INPUTS])]
    if results.get("times"):
        parts += ["### Seconds of a default fit beside boosting", told_of(results["timed_on"])]
        parts += [timing_table(results["times"])]
    if with_effort(sets):
        parts += ["### Error and time over effort", effort_table(with_effort(sets))]
        parts += [f"![Error against time over effort]({FIGURE})"]
    for title, names in GROUPS.items():
        group = {name: sets[name] for name in names if name in sets}
        if group:
            parts += [f"### {title}: mean test MSE", errors_table(group)]
            parts += [f"### {title}: seconds of a fit", seconds_table(group)]
    failed = compare.failures(sets) + compare.failures(results.get("times", {}))
    if failed:
        parts += ["### Without a result", table(["set", "split", "model", "why"], failed)]
    return "\n\n".join(parts)


def told_of(host: dict[str, Any]) -> str:
    """Return a line that tells of the machine."""
    versions = ", ".join(f"{name} {host[name]}" for name in ("python", "numpy", "scikit-learn"))
    return f"Measured on: {host['cpu']}, {host['cpus']} CPUs, {versions}."


def counts_table(sets: dict[str, Any], asked: Sequence[Asked] = compare.ASKED) -> str:
    head = [
        "beside", "asked", "so on", "of sets", "share", "met",
        "geometric mean of our error over theirs", "greatest", "on",
    ]  # fmt: skip
    rows = [
        [
            TITLES[c.asked.other], str(c.asked), c.kept, len(c.ratios), f"{c.share:.0%}", c.met,
            c.mean, c.ratios[c.worst], c.worst,
        ]
        for c in compare.counts(sets, asked)
    ]  # fmt: skip
    return table(head, rows)


def holes_table(sets: dict[str, Any]) -> str:
    """Return how many times the error grows where cells are removed."""
    rows = []
    for whole, holes in zip(tables.WHOLE, tables.HOLES, strict=True):
        if whole in sets and holes in sets:
            pairs = [
                [compare.mean(sets[name], model, "mse") for name in (holes, whole)]
                for model in (OURS, "boosting")
            ]
            grown = ["–" if None in pair else pair[0] / pair[1] for pair in pairs]
            rows.append([whole, *(_shown(pair[0]) for pair in pairs), *grown])
    head = ["set", "MSE, polyadic", "MSE, HistGradientBoosting"]
    return table([*head, "times that of the whole table, polyadic", "HistGradientBoosting"], rows)


def many_inputs(r: dict[str, Any]) -> str:
    """Return R² where three of two hundred inputs matter."""
    values = [(TITLES[m], compare.mean(r, m, "r2")) for m in _present({MANY_INPUTS: r})]
    told = ", ".join(f"{title} {value:.3f}" for title, value in values if value is not None)
    return f"R² with 300 rows of 200 inputs of which three matter: {told}."


def timing_table(sets: dict[str, Any]) -> str:
    rows = []
    for name, r in sets.items():
        seconds = [compare.mean(r, model, "seconds") for model in (OURS, "boosting")]
        times = "–" if None in seconds else seconds[0] / seconds[1]
        errors = [_shown(compare.mean(r, model, "mse")) for model in (OURS, "boosting")]
        rows.append([name, r["threads"], *map(_shown, seconds), times, *errors])
    head = [
        "training rows × inputs", "threads", "polyadic, s", "HistGradientBoosting, s", "ratio",
        "MSE, polyadic", "MSE, HistGradientBoosting",
    ]  # fmt: skip
    return table(head, rows)


def effort_table(sets: dict[str, Any]) -> str:
    names = [models.at_effort(effort) for effort in models.EFFORTS]
    rows = []
    for name, r in sets.items():
        pairs = [(compare.mean(r, n, "mse"), compare.mean(r, n, "seconds")) for n in names]
        rows.append([name, *("–" if a is None else f"{a:.3g}, {b:.3g} s" for a, b in pairs)])
    return table(["set", *(f"effort {effort:g}" for effort in models.EFFORTS)], rows)


def errors_table(sets: dict[str, Any]) -> str:
    shown = _present(sets)
    rows = []
    for name, r in sets.items():
        n_splits = max((len(r["models"].get(model, {})) for model in shown), default=0)
        errors = [_shown(compare.mean(r, model, "mse")) for model in shown]
        rows.append([name, r["rows"], r["inputs"], n_splits, *errors])
    return table(["set", "rows", "inputs", "splits", *(TITLES[m] for m in shown)], rows)


def seconds_table(sets: dict[str, Any]) -> str:
    shown = _present(sets)
    rows = [
        [name, r["threads"], *(_shown(compare.mean(r, model, "seconds")) for model in shown)]
        for name, r in sets.items()
    ]
    return table(["set", "threads", *(TITLES[model] for model in shown)], rows)


def _present(sets: dict[str, Any]) -> list[str]:
    """Return the models that were run on any of some sets."""
    return [model for model in TITLES if any(model in r["models"] for r in sets.values())]


def _shown(value: float | None) -> Any:
    return "–" if value is None else value


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = (*KNOWN, *(name for name in TIMED if name not in KNOWN))
    every = (*MODELS, *AT_EFFORTS)
    parser.add_argument("--sets", type=_choice(known), help=", ".join(KNOWN))
    parser.add_argument("--models", type=_choice(every), help=", ".join(MODELS))
    parser.add_argument("--splits", type=int, help="random splits; by default 10, 3, 2 or 1")
    parser.add_argument("--out", type=Path, help="folder of accuracy.json and accuracy.md")
    parser.add_argument("--data", help="folder of the data sets, or the file that --pack wrote")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--threads", type=int, help="of each process; by default the cores shared")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that a cell may take")
    parser.add_argument("--missing", action="store_true", help="run only cells without a result")
    parser.add_argument("--effort", action="store_true", help="measure ours at several efforts")
    parser.add_argument("--times", action="store_true", help="time five sizes beside boosting")
    parser.add_argument("--report", action="store_true", help="write the page, run nothing")
    parser.add_argument("--as", dest="title", metavar="TITLE", help="measure ours under a title")
    parser.add_argument("--pack", metavar="FILE.npz", help="write all sets into one file, and end")
    arguments = parser.parse_args()
    if arguments.title is not None and arguments.title not in TITLES:
        parser.error(f"--as must be one of {', '.join(TITLES)}, got {arguments.title!r}")
    if arguments.pack is not None:
        pack(arguments.pack, arguments.data)
        parser.exit()
    return arguments


def _choice(known: Any) -> Callable[[str], tuple[str, ...]]:
    """Return the parser of a comma-separated list of known names."""

    def parse(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} must be one of {', '.join(known)}")
        return names

    return parse


if __name__ == "__main__":
    main()
