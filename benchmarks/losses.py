"""Regression under losses other than squared error, beside other models with the same loss.

    python -m benchmarks.losses --data DATA --out docs --jobs 16

Poisson: half the mean deviance of counts.  Quantiles: the pinball loss of three of them, and how
many test rows the band between the outer two covers.  Huber: the error on clean test rows after a
fit to targets of which one in twenty is moved by ten deviations, over that of a fit to clean ones.

DATA is the folder of the shared sets, or the file that --pack wrote.  A fifth of the rows is for
testing; results are stored in losses.json, and the tables go between the markers of losses.md.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import machine, tables
from benchmarks.classes import single_thread
from benchmarks.models import Boosting, encoder_of
from benchmarks.report import put, table

OURS, BOOSTING, LINEAR = "polyadic", "boosting", "linear"
COUNTS = "raw/doctor-visits"
BANDS = tuple(f"raw/{n}" for n in ("abalone", "insurance", "cpu-act", "kin8nm", "california-ocean"))
OUTLIERS = ("airfoil", "concrete", "energy", "abalone", "kin8nm")
QUANTILES = (0.05, 0.5, 0.95)
_SHARE, _SIZE = 0.05, 10.0  # of the targets that are moved, and by how many deviations
CLEAN, MOVED, SQUARED, SQUARED_MOVED = "huber", "huber, moved", "squared", "squared, moved"


def main() -> None:
    arguments = _arguments()
    path = arguments.out / "losses.json"
    results = json.loads(path.read_text()) if path.exists() else {"sets": {}}
    if not arguments.report:
        results["machine"] = machine.describe()
        for (name, model, split), outcome in run(arguments):
            of_set = results["sets"].setdefault(name, {})
            of_set.setdefault(model, {})[str(split)] = outcome
            path.write_text(json.dumps(results, indent=1) + "\n")
            print(name, model, split, outcome, flush=True)
    put(write(results), arguments.out / "losses.md", "Losses")


def cells(splits: int) -> Iterator[tuple[str, str, int]]:
    """Yield what to measure: a set, a model with its loss, and a split."""
    for split in range(1, 1 + splits):
        for model in (OURS, BOOSTING, LINEAR):
            yield COUNTS, f"poisson {model}", split
        for name in BANDS:
            for level in QUANTILES:
                for model in (OURS, BOOSTING):
                    yield name, f"quantile {model} {level}", split
        for name in OUTLIERS:
            for model in (CLEAN, MOVED, SQUARED, SQUARED_MOVED):
                yield name, model, split


def run(arguments: argparse.Namespace) -> Iterator[tuple[tuple[str, str, int], dict[str, Any]]]:
    """Yield each result as it comes."""
    load = _packed(arguments.data)
    asked = arguments.sets.split(",") if arguments.sets else None
    todo = [cell for cell in cells(arguments.splits) if asked is None or cell[0] in asked]
    context = get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, context, initializer=single_thread) as pool:
        waiting = {pool.submit(measure, load[cell[0]], *cell): cell for cell in todo}
        for each in as_completed(waiting):
            yield waiting[each], each.result()


def measure(packed: bytes, name: str, model: str, split: int) -> dict[str, Any]:
    """Return the losses on test rows, or why there are none."""
    from sklearn.model_selection import train_test_split

    X, y = tables.frame(packed) if name.startswith("raw/") else _numbers(packed)
    X, T, y, u = train_test_split(X, y, test_size=0.2, random_state=split)
    try:
        began = time.perf_counter()
        predict = fit(model, X, moved(y, split) if model.endswith("moved") else y)
        seconds = time.perf_counter() - began
        return {**score(model, u, predict(T)), "seconds": seconds}
    except Exception as error:  # whatever a model raises is its result
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}


def moved(y: NDArray[Any], seed: int) -> NDArray[Any]:
    """Return targets of which some are far out, up or down."""
    rng = np.random.RandomState(seed)
    chosen = rng.permutation(len(y))[: round(_SHARE * len(y))]
    y = y.copy()
    y[chosen] += rng.choice([-1.0, 1.0], len(chosen)) * _SIZE * y.std()
    return y


def fit(model: str, X: Any, y: NDArray[Any]) -> Any:
    """Return what predicts."""
    from polyadic import FeatureLearningRegressor

    loss, *rest = model.replace(",", "").split(" ")
    options: dict[str, Any] = {"loss": {"squared": "squared_error"}.get(loss, loss)}
    if loss == "quantile":
        options["quantile"] = float(rest[1])
    if rest and rest[0] == BOOSTING:
        return Boosting(1, **options).fit(X, y).predict
    if rest and rest[0] == LINEAR:
        from sklearn.linear_model import PoissonRegressor
        from sklearn.pipeline import make_pipeline

        linear = PoissonRegressor(alpha=1e-4, max_iter=2_000)
        return make_pipeline(encoder_of(X), linear).fit(X, y).predict
    return FeatureLearningRegressor(random_state=0, n_jobs=1, **options).fit(X, y).predict


def score(model: str, y: NDArray[Any], f: NDArray[Any]) -> dict[str, float]:
    """Return the loss of predictions, and of a quantile how many targets are below it."""
    if model.startswith("poisson"):
        from sklearn.metrics import mean_poisson_deviance

        return {"loss": 0.5 * float(mean_poisson_deviance(y, np.maximum(f, 1e-12)))}
    if model.startswith("quantile"):
        level = float(model.split(" ")[2])
        rest = y - f
        pinball = np.mean(np.maximum(level * rest, (level - 1) * rest))
        return {"loss": float(pinball), "below": float(np.mean(y <= f))}
    return {"loss": float(np.sqrt(np.mean((y - f) ** 2)))}


def write(results: dict[str, Any]) -> str:
    """Return the tables in Markdown."""
    sets = results["sets"]
    parts = [f"Measured on: {results['machine']['cpu']}, one thread a fit."]
    if COUNTS in sets:
        found = [_mean(sets[COUNTS], f"poisson {model}") for model in (OURS, BOOSTING, LINEAR)]
        head = ["half the mean Poisson deviance", "polyadic", "HistGradientBoosting", "linear"]
        parts += ["### Counts", table(head, [[COUNTS.removeprefix("raw/"), *found]])]
    rows = [_of_band(name, sets[name]) for name in BANDS if name in sets]
    if rows:
        head = ["set", *(f"{level:g}" for level in QUANTILES), "all three", "90 % band", "theirs"]
        parts += [
            "### Quantiles: pinball loss over that of HistGradientBoosting, and rows in the band",
            table(head, rows),
        ]
    rows = [_of_outliers(name, sets[name]) for name in OUTLIERS if name in sets]
    if rows:
        head = [
            "set", "Huber, clean", "Huber, moved", "over clean", "squared error, clean",
            "squared error, moved", "Huber, moved, over squared error, clean",
        ]  # fmt: skip
        parts += ["### Outliers: root mean squared error on clean test rows", table(head, rows)]
    return "\n\n".join(parts)


def _of_band(name: str, r: dict[str, Any]) -> list[Any]:
    losses = {
        model: [_mean(r, f"quantile {model} {level}") for level in QUANTILES]
        for model in (OURS, BOOSTING)
    }
    ratios = [ours / other for ours, other in zip(*losses.values(), strict=True)]
    every = sum(losses[OURS]) / sum(losses[BOOSTING])
    covered = [
        _mean(r, f"quantile {model} {QUANTILES[-1]}", "below")
        - _mean(r, f"quantile {model} {QUANTILES[0]}", "below")
        for model in losses
    ]
    return [name.removeprefix("raw/"), *ratios, every, *covered]


def _of_outliers(name: str, r: dict[str, Any]) -> list[Any]:
    clean, bad, squared, squared_bad = (
        _mean(r, model) for model in (CLEAN, MOVED, SQUARED, SQUARED_MOVED)
    )
    return [name, clean, bad, bad / clean, squared, squared_bad, bad / squared]


def _mean(r: dict[str, Any], model: str, key: str = "loss") -> float:
    found = [each[key] for each in r.get(model, {}).values() if key in each]
    return float(np.mean(found)) if found else float("nan")


def _packed(data: str) -> dict[str, bytes]:
    """Return the sets, each a file: those with text as they are, others as their numbers."""
    if data.endswith(".npz"):
        with np.load(data) as file:
            return {name: file[name].tobytes() for name in file.files}
    found = {name: tables.raw_bytes(name, data) for name in (COUNTS, *BANDS)}
    for name in OUTLIERS:
        file = io.BytesIO()
        np.savez_compressed(file, **dict(zip("Xy", tables.load(name, data), strict=True)))
        found[name] = file.getvalue()
    return found


def _numbers(packed: bytes) -> tuple[NDArray[Any], NDArray[Any]]:
    with np.load(io.BytesIO(packed)) as file:
        return file["X"], file["y"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.losses",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", help="folder of the sets, or the file that --pack wrote")
    parser.add_argument("--sets", help="names, with commas; by default all")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of losses.json")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--report", action="store_true", help="write the page, run nothing")
    parser.add_argument("--pack", metavar="FILE.npz", help="write all sets into one, and end")
    arguments = parser.parse_args()
    if arguments.pack is not None:
        packed = _packed(arguments.data)
        np.savez(arguments.pack, **{n: np.frombuffer(b, np.uint8) for n, b in packed.items()})
        parser.exit()
    return arguments


if __name__ == "__main__":
    main()
