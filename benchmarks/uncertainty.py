"""Log densities, coverage and width of intervals, beside other models; writes uncertainty.md.

    python -m benchmarks.uncertainty --data DATA --out docs --jobs 16

DATA is the folder with pbp/NAME.npz, the csv sets and tables/, or the file that --pack wrote.
Sets of pbp/ have their official twenty splits, and the numeric columns of the others, at most
10,000 rows, two random ones; a fifth of the rows is for testing.  Log densities are those of
targets standardised on the training rows.  Results are stored in uncertainty.json and meet what is
there already.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import machine
from benchmarks.classes import single_thread
from benchmarks.report import put, table

PBP = ("concrete", "energy", "power", "wine-red", "yacht")
ASKED_OF_PBP = {"concrete": 0.05, "energy": -1.75, "power": -0.10, "wine-red": 1.05, "yacht": -2.5}
COVERAGES = (0.5, 0.8, 0.9, 0.95)
COST_ROWS = (300, 10_000)
OURS, PROCESS, NGBOOST, BOOSTING, CQR = "polyadic", "process", "ngboost", "boosting", "cqr"
TITLES = {
    OURS: "polyadic",
    PROCESS: "exact process",
    NGBOOST: "NGBoost",
    BOOSTING: "boosting, constant noise",
    CQR: "conformalised quantile boosting",
}
Array = NDArray[np.float64]


def main() -> None:
    arguments = _arguments()
    if arguments.pack is not None:
        np.savez_compressed(arguments.pack, **dict(_columns(arguments.data)))
        return
    if arguments.report:
        keep(arguments.out)
        return
    sets, described = results(arguments.out).get("sets", {}), machine.describe()
    for (name, split, model), outcome in run(arguments):
        sets.setdefault(name, {}).setdefault(model, {})[str(split)] = outcome
        keep(arguments.out, sets=sets, machine=described)
        print(name, split, model, outcome, flush=True)


def results(out: Path) -> dict[str, Any]:
    """Return what has been measured so far."""
    path = out / "uncertainty.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def keep(out: Path, **parts: Any) -> None:
    """Keep what was measured, and write the page of all of it."""
    found = {**results(out), **parts}
    (out / "uncertainty.json").write_text(json.dumps(found, indent=1) + "\n")
    put(write(found), out / "uncertainty.md", "Uncertainty")


def run(arguments: argparse.Namespace) -> Iterator[tuple[tuple[str, int, str], dict[str, Any]]]:
    """Yield the result of each model on each split of each set, as they come."""
    data = dict(_columns(arguments.data))
    names = arguments.sets.split(",") if arguments.sets else sorted(_names(data))
    todo = []
    for name in names:
        X = data[f"{name}/X"]
        is_pbp = name.startswith("pbp/")
        splits = range(20 if is_pbp else 2)[: arguments.splits]
        models = [OURS] if is_pbp else list(TITLES)
        if arguments.models:
            models = arguments.models.split(",")
        todo += [
            (X.size * (5 if model == OURS else 1), name, split, model)
            for split in splits
            for model in models
        ]
    context = get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, context, initializer=single_thread) as pool:
        waiting = {}
        for _, name, split, model in sorted(todo, reverse=True):
            X, y, test = data[f"{name}/X"], data[f"{name}/y"], _test_rows(data, name, split)
            waiting[pool.submit(measure, model, X, y, test)] = (name, split, model)
        for each in as_completed(waiting):
            yield waiting[each], each.result()


def _test_rows(data: dict[str, Any], name: str, split: int) -> NDArray[np.bool_]:
    if f"{name}/test_mask" in data:
        return np.asarray(data[f"{name}/test_mask"][:, split])
    n = len(data[f"{name}/y"])
    test = np.zeros(n, dtype=bool)
    test[np.random.RandomState(split + 1).permutation(n)[: n // 5]] = True
    return test


def measure(model: str, X: Array, y: Array, test: NDArray[np.bool_]) -> dict[str, Any]:
    """Fit one model on one split; return its log score, coverages and the width of intervals."""
    mean, deviation = y[~test].mean(), y[~test].std()
    y = (y - mean) / deviation
    began = time.perf_counter()
    try:
        density, intervals = MODELS[model](X[~test], y[~test], X[test], y[test])
    except Exception as error:  # a peer that fails on a set is told, and the rest goes on
        return {"error": repr(error)[:200]}
    outcome: dict[str, Any] = {"seconds": round(time.perf_counter() - began, 2)}
    if density is not None:
        outcome["nll"] = float(-np.mean(density))
    if intervals is not None:
        inside = [(low <= y[test]) & (y[test] <= high) for low, high in intervals]
        outcome["coverage"] = [float(each.mean()) for each in inside]
        low, high = intervals[COVERAGES.index(0.9)]
        outcome["width"] = float(np.mean(high - low))
    return outcome


def _normal(y: Array, mean: Array, deviation: Array | float) -> tuple[Array, list[Any]]:
    from scipy.stats import norm

    ends = [norm.interval(each, mean, deviation) for each in COVERAGES]
    return norm.logpdf(y, mean, deviation), ends


def _ours(X: Array, y: Array, X_test: Array, y_test: Array) -> tuple[Array, list[Any]]:
    from polyadic import FeatureLearningRegressor

    model = FeatureLearningRegressor(random_state=0, n_jobs=1, verbose=0).fit(X, y)
    density = np.array([model.log_score(X_test, y_test)])
    intervals = model.predict_interval(X_test, COVERAGES)
    return density, [tuple(each) for each in np.moveaxis(intervals, (2, 1), (0, 1))]


def _process(X: Array, y: Array, X_test: Array, y_test: Array) -> tuple[Array, list[Any]]:
    from benchmarks.process import ExactProcess

    return _normal(y_test, *ExactProcess().fit(X, y).predict(X_test, return_std=True))


def _ngboost(X: Array, y: Array, X_test: Array, y_test: Array) -> tuple[Array, list[Any]]:
    from ngboost import NGBRegressor

    found = NGBRegressor(verbose=False, random_state=0).fit(X, y).pred_dist(X_test)
    return _normal(y_test, found.params["loc"], found.params["scale"])


def _boosting(X: Array, y: Array, X_test: Array, y_test: Array) -> tuple[Array, list[Any]]:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import cross_val_predict

    model = HistGradientBoostingRegressor(random_state=0)
    noise = float(np.std(y - cross_val_predict(model, X, y, cv=5)))
    return _normal(y_test, model.fit(X, y).predict(X_test), noise)


def _cqr(X: Array, y: Array, X_test: Array, y_test: Array) -> tuple[None, list[Any]]:
    from mapie.regression import ConformalizedQuantileRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor

    held = np.random.RandomState(0).permutation(len(y))[: len(y) // 5]
    train = np.setdiff1d(np.arange(len(y)), held)
    ends = []
    for coverage in COVERAGES:
        model = ConformalizedQuantileRegressor(
            HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=0),
            confidence_level=coverage,
        )
        model.fit(X[train], y[train]).conformalize(X[held], y[held])
        _, found = model.predict_interval(X_test)
        ends.append((found[:, 0, 0], found[:, 1, 0]))
    return None, ends


MODELS: dict[str, Callable[..., Any]] = {
    OURS: _ours,
    PROCESS: _process,
    NGBOOST: _ngboost,
    BOOSTING: _boosting,
    CQR: _cqr,
}


def write(found: dict[str, Any]) -> str:
    """Return the tables of the page."""
    parts = {"sets": _write_sets, "quarters": _write_quarters, "costs": _write_costs}
    return "\n\n".join(write(found[part]) for part, write in parts.items() if part in found)


def _write_sets(sets: dict[str, Any]) -> str:
    official = [
        [name, *_shown(_mean(sets[f"pbp/{name}"][OURS], "nll")), ASKED_OF_PBP[name],
         len(sets[f"pbp/{name}"][OURS])]
        for name in PBP
        if f"pbp/{name}" in sets
    ]  # fmt: skip
    text = ["Official splits, mean negative log density of standardised targets:", ""]
    text += [table(["set", "polyadic", "asked: at most", "splits"], official), ""]
    others = {name: models for name, models in sets.items() if not name.startswith("pbp/")}
    text += ["Numeric columns of other sets; the less the better:", ""]
    scored = [OURS, PROCESS, NGBOOST, BOOSTING]
    rows = [
        [name, *(_shown(_mean(models.get(model, {}), "nll"))[0] for model in scored)]
        for name, models in sorted(others.items())
    ]
    text += [table(["set", *(TITLES[each] for each in scored)], rows), ""]
    text += [*_counts(others), ""]
    text += ["Coverage on test rows, and the mean width of 90 % intervals:", ""]
    rows = []
    for name, models in sorted(others.items()):
        coverage = _mean(models.get(OURS, {}), "coverage")
        widths = [_shown(_mean(models.get(model, {}), "width"))[0] for model in (OURS, CQR)]
        theirs = _mean(models.get(CQR, {}), "coverage")
        if coverage is not None:
            at_90 = "" if theirs is None else f"{theirs[2]:.3f}"
            rows.append([name, *(f"{each:.3f}" for each in coverage), *widths, at_90])
    heads = ["set", *(f"{each:.0%}" for each in COVERAGES), "width", "width of quantile boosting"]
    text += [table([*heads, "its coverage"], rows)]
    return "\n".join(text)


def _write_quarters(problems: dict[str, Any]) -> str:
    """Return how far coverage is from nominal at most, in a quarter of the predicted widths."""
    rows = []
    for name, sizes in problems.items():
        for n_rows, draws in sorted(sizes.items(), key=lambda each: int(each[0])):
            gaps = np.array(list(draws.values())) - np.array(COVERAGES)[:, None]
            largest = np.abs(gaps).max(axis=(1, 2))
            of_mean = np.abs(gaps.mean(axis=0)).max()
            shown = [f"{each:.3f}" for each in (np.mean(largest), np.max(largest), of_mean)]
            rows.append([name, f"{int(n_rows):,}", len(draws), *shown])
    heads = ["errors", "rows", "draws", "of a draw", "of the worst draw", "of the mean of draws"]
    title = "Coverage in every quarter of the predicted width: the largest distance from nominal"
    return f"{title} of 16 figures:\n\n{table(heads, rows)}"


def _write_costs(costs: dict[str, list[float]]) -> str:
    rows = [[name, *(f"{each:.1f}" for each in ratios)] for name, ratios in costs.items()]
    title = "A prediction with its deviation, in predictions without:"
    return f"{title}\n\n{table(['fit', *(f'{n:,} rows' for n in COST_ROWS)], rows)}"


def _counts(others: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each model that is compared with."""
    for model, margin in ((PROCESS, 0.05), (NGBOOST, 0.0), (BOOSTING, 0.0)):
        both = _beside(others, model, "nll")
        if both:
            held = sum(a <= b + margin for a, b in both)
            within = f" or within {margin} of it" if margin else ""
            yield f"- ahead of {TITLES[model]}{within} on {held} of {len(both)}"
    both = _beside(others, CQR, "width")
    if both:
        held = sum(a < b for a, b in both)
        yield f"- 90 % intervals narrower than those of {TITLES[CQR]} on {held} of {len(both)}"


def _beside(others: dict[str, Any], model: str, key: str) -> list[tuple[float, float]]:
    """Return our number and that of a model, of each set where both are known."""
    pairs = [
        (_mean(models.get(OURS, {}), key), _mean(models.get(model, {}), key))
        for models in others.values()
    ]
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def _mean(splits: dict[str, Any], key: str) -> Any:
    found = [each[key] for each in splits.values() if key in each]
    return None if not found else np.mean(found, axis=0)


def _shown(value: Any) -> list[str]:
    return ["" if value is None else f"{value:.3f}"]


def _names(data: dict[str, Any]) -> list[str]:
    return [key.removesuffix("/X") for key in data if key.endswith("/X")]


def _columns(data: str) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of all sets by their names."""
    if data.endswith(".npz"):
        with np.load(data) as file:
            yield from file.items()
        return
    from benchmarks import tables

    for name in PBP:
        with np.load(Path(data) / "pbp" / f"{name}.npz") as file:
            yield from ((f"pbp/{name}/{key}", file[key]) for key in file)
    for name in (*tables.CSV_SETS, *tables.TABLES):
        X, y = tables.capped(*tables.load(name, data), 10_000)
        yield f"{name}/X", np.asarray(X, dtype=np.float64)
        yield f"{name}/y", np.asarray(y, dtype=np.float64)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.uncertainty",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", default="../shared/data", help="folder of the data, or a pack")
    parser.add_argument("--sets", help="names, with commas; by default all")
    parser.add_argument("--models", help="names, with commas; by default all, ours on pbp/")
    parser.add_argument("--splits", type=int, help="the first so many")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of the results")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--report", action="store_true", help="write the page, run nothing")
    parser.add_argument("--pack", metavar="FILE.npz", help="write all sets into one, and end")
    return parser.parse_args()


if __name__ == "__main__":
    main()
