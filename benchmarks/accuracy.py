"""Measure accuracy beside ordinary tools; write accuracy.json and the table of accuracy.md.

    python -m benchmarks.accuracy --sets yacht,friedman1

Errors are mean squared errors on test rows, the target standardised on the training rows,
and times are those of one fit, compilation left out; both are means over random splits.
Sets that are not run again keep their results: the table can be filled in several calls.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from benchmarks import machine
from benchmarks.collection import COLLECTION
from benchmarks.common import SETS, Split, timed
from benchmarks.real import REAL
from benchmarks.report import BEGIN, END, table
from polyadic import FeatureLearningRegressor, datasets

SHARED = (*SETS, "nycflights")
OURS, YARDSTICK = "polyadic", "svr-grid"
QUICK_ROWS = 8_000


def ours() -> Any:
    return FeatureLearningRegressor(random_state=0)


def boosting() -> Any:
    return HistGradientBoostingRegressor(random_state=0)


def kernel_ridge_grid() -> Any:
    # The least penalty is what the nearly deterministic sets want, the greatest the noisy.
    grid = {
        "kernelridge__alpha": [0.001, 0.01, 0.1, 1.0],
        "kernelridge__gamma": [0.03, 0.1, 0.3],
    }
    return GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=3)


def svr_grid() -> Any:
    grid = {"svr__C": [1.0, 10.0, 100.0], "svr__gamma": [0.03, 0.1, 0.3, 1.0]}
    return GridSearchCV(make_pipeline(StandardScaler(), SVR()), grid, cv=3)


def ridge() -> Any:
    return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 20)))


MODELS: dict[str, Callable[[], Any]] = {
    OURS: ours,
    "boosting": boosting,
    "kernel-ridge-grid": kernel_ridge_grid,
    YARDSTICK: svr_grid,
    "ridge": ridge,
}
# Beyond these training rows a grid takes longer than anybody waits.
MOST_ROWS = {"kernel-ridge-grid": 2_000, YARDSTICK: 8_000}
TITLES = {
    OURS: "polyadic",
    "boosting": "HistGradientBoosting",
    "kernel-ridge-grid": "KernelRidge grid",
    YARDSTICK: "SVR grid",
    "ridge": "RidgeCV",
}


def main() -> None:
    arguments = _arguments()
    out = None if arguments.out is None else Path(arguments.out)
    results: dict[str, Any] = {"sets": {}}
    if out is not None and (out / "accuracy.json").exists():
        results = json.loads((out / "accuracy.json").read_text())
    results["machine"] = machine.describe()
    ours().fit(*COLLECTION["one-input"]())  # compiles
    for name in arguments.sets:
        try:
            X, y = load(name, arguments.data)
        except FileNotFoundError as missing:
            print(f"{name}: left out, {missing}", flush=True)
            continue
        if arguments.quick and len(y) > QUICK_ROWS:
            print(f"{name}: left out, more than {QUICK_ROWS} rows", flush=True)
            continue
        n_splits = 1 if arguments.quick else arguments.splits or default_splits(name, len(y))
        record = measure(name, X, y, arguments.models, n_splits)
        results["sets"][name] = merged(results["sets"].get(name), record)
        if out is not None:
            write(results, out)
    print("\n" + page(results), flush=True)


def load(name: str, folder: str | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the inputs and the target of a set of any collection."""
    if name in COLLECTION:
        return COLLECTION[name]()
    if name in REAL:
        return REAL[name].load()
    bunch = datasets.load(name, folder, download=False)
    return bunch.data, bunch.target


def default_splits(name: str, n_rows: int) -> int:
    """Return over how many splits a set is measured: fewer where fits are slow."""
    if name in SHARED:
        return {"nycflights": 1, "wine": 3}.get(name, 10)
    return 3 if n_rows < 5_000 else 1


def split(name: str, X: NDArray[Any], y: NDArray[Any], seed: int) -> Split:
    """Return X_train, X_test, y_train, y_test; inputs as they are, target standardised."""
    share = 1 / 3 if name == "nycflights" else 0.2
    X, T, y, u = train_test_split(X, y, test_size=share, random_state=seed)
    mean, scale = y.mean(), y.std(ddof=1)
    return X, T, (y - mean) / scale, (u - mean) / scale


def measure(
    name: str, X: NDArray[Any], y: NDArray[Any], models: Sequence[str], n_splits: int
) -> dict[str, Any]:
    """Return error and time of every model on a set, telling them as they come."""
    record: dict[str, Any] = {"rows": len(y), "inputs": X.shape[1], "splits": n_splits}
    record["models"] = {}
    parts = [split(name, X, y, seed) for seed in range(1, n_splits + 1)]
    for model in models:
        if len(parts[0][0]) > MOST_ROWS.get(model, len(y)):
            continue
        runs = [score(MODELS[model](), *part) for part in parts]
        errors, seconds = zip(*runs, strict=True)
        record["models"][model] = {
            "mse": statistics.mean(errors),
            "seconds": statistics.mean(seconds),
            "mse_of_splits": errors,
        }
        print(
            f"{name:<16} {model:<18} MSE {statistics.mean(errors):.5f}  "
            f"{statistics.mean(seconds):.2f} s  {n_splits} splits",
            flush=True,
        )
    return record | {"time_ratio": time_ratio(record["models"])}


def score(estimator: Any, X: Any, T: Any, y: Any, u: Any) -> tuple[float, float]:
    """Return the test error of an estimator and the seconds its fit takes."""
    seconds, _ = timed(lambda: estimator.fit(X, y))
    return float(np.mean((estimator.predict(T) - u) ** 2)), seconds


def time_ratio(models: dict[str, Any]) -> float | None:
    """Return our time over the yardstick's, where the same call measured both."""
    if OURS not in models or YARDSTICK not in models:
        return None
    return float(models[OURS]["seconds"] / models[YARDSTICK]["seconds"])


def merged(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Return the new results of a set, and older ones of models that were not run again."""
    sizes = ("rows", "inputs", "splits")
    if old is None or any(old[key] != new[key] for key in sizes):
        return new
    return {**new, "models": {**old["models"], **new["models"]}}


def write(results: dict[str, Any], out: Path) -> None:
    """Write the numbers, and put the tables between the markers of their page."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "accuracy.json").write_text(json.dumps(results, indent=1) + "\n")
    path = out / "accuracy.md"
    text = path.read_text() if path.exists() else f"# Accuracy\n\n{BEGIN}\n{END}\n"
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n\n{page(results)}\n\n{END}{after}")


def page(results: dict[str, Any]) -> str:
    """Return the tables in Markdown, one of errors and one of times for each collection."""
    host = results["machine"]
    measured = f"Measured on: {host['cpu']}, {host['cpus']} CPUs, load {host['load']:.1f}."
    parts = []
    groups = (
        ("Data sets", SHARED),
        ("Tables of R's packages", tuple(REAL)),
        ("Diabetes, and made-up problems", tuple(COLLECTION)),
    )
    for title, names in groups:
        sets = {name: results["sets"][name] for name in names if name in results["sets"]}
        if sets:
            parts += [f"### {title}: mean test MSE", errors_table(sets)]
            parts += [f"### {title}: seconds of a fit", times_table(sets)]
    return "\n\n".join([measured, *parts])


def errors_table(sets: dict[str, Any]) -> str:
    head = ["set", "rows", "inputs", "splits", *TITLES.values()]
    rows = []
    for name, r in sets.items():
        sizes = [r[key] for key in ("rows", "inputs", "splits")]
        rows.append([name, *sizes, *(_value(r, model, "mse") for model in MODELS)])
    return table(head, rows)


def times_table(sets: dict[str, Any]) -> str:
    head = ["set", *TITLES.values(), "polyadic / SVR grid"]
    rows = []
    for name, r in sets.items():
        ratio = "–" if r["time_ratio"] is None else r["time_ratio"]
        rows.append([name, *(_value(r, model, "seconds") for model in MODELS), ratio])
    return table(head, rows)


def _value(record: dict[str, Any], model: str, key: str) -> Any:
    return record["models"].get(model, {}).get(key, "–")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    known = (*SHARED, *REAL, *COLLECTION)
    parser.add_argument("--sets", type=_choice(known), default=known, help=", ".join(known))
    parser.add_argument(
        "--models", type=_choice(MODELS), default=tuple(MODELS), help=", ".join(MODELS)
    )
    parser.add_argument("--splits", type=int, help="random splits; by default 10, 3 or 1")
    parser.add_argument("--out", help="folder of accuracy.json and accuracy.md, such as docs")
    parser.add_argument("--data", help="folder of the data sets; see polyadic.datasets")
    parser.add_argument("--quick", action="store_true", help="one split, no large sets")
    return parser.parse_args()


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
