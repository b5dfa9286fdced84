"""Log-loss, accuracy and calibration of classifiers on tables as they are, beside other models.

    python -m benchmarks.classes --data DATA --out docs --jobs 16

DATA is the folder with tables/NAME.csv.gz, or the file that --pack wrote; the digits of
scikit-learn are one table more.  Five random splits, two above 10,000 rows; a fifth of the rows is
for testing.  The model "regression" is ours with the class as a number: it is there for its time.
Results are stored in classes.json and meet what is there already; the tables go between the
markers of classes.md.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import machine, tables
from benchmarks.models import as_texts, category_names, encoder_of
from benchmarks.report import put, table

OURS, BOOSTING, CATBOOST, LOGISTIC = "polyadic", "boosting", "catboost", "logistic"
REGRESSION, DIGITS = "regression", "digits"
TITLES = {
    OURS: "polyadic",
    BOOSTING: "HistGradientBoosting",
    CATBOOST: "CatBoost",
    LOGISTIC: "logistic regression",
}
# Our log-loss is to be at most 2 % above theirs on this share of the tables, and our area under
# the ROC curve, or accuracy of more than two classes, at most 2 % below.
ASKED = {BOOSTING: 0.70, CATBOOST: 0.45, LOGISTIC: 0.95}
_MARGIN = 0.02
_MOST_GAP, _MANY_ROWS = 0.03, 2_000  # of calibration, on tables above so many rows
_MOST_SLOWER = 3.0  # than a regression, for two classes; for C classes C times that
# The most error, and the most log-loss, on tables of which that is known.
GOALS = {
    "nursery": (0.005, None),
    "mushroom": (0.005, None),
    DIGITS: (0.015, None),
    "pendigits": (0.007, None),
    "spambase": (0.055, 0.16),
}
_BINS = 15
_LEAST_PROBABILITY = 1e-15


def main() -> None:
    arguments = _arguments()
    found = results(arguments.out)
    if not arguments.report:
        found["machine"] = machine.describe()
        for (name, model, split), outcome in run(arguments):
            of_table = found["tables"].setdefault(name, {})
            of_table.setdefault(model, {})[str(split)] = outcome
            keep(arguments.out, found)
            print(name, model, split, outcome, flush=True)
    keep(arguments.out, found)


def results(out: Path) -> dict[str, Any]:
    """Return what has been measured so far."""
    path = out / "classes.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"tables": {}}
    return found


def keep(out: Path, found: dict[str, Any]) -> None:
    """Keep what was measured, and write the page of all of it."""
    (out / "classes.json").write_text(json.dumps(found, indent=1) + "\n")
    put(write(found), out / "classes.md", "Classification")


def run(arguments: argparse.Namespace) -> Iterator[tuple[tuple[str, str, int], dict[str, Any]]]:
    """Yield the result of each model on each split of each table, as they come."""
    packed = dict(files(arguments.data))
    lines = {name: gzip.decompress(each).count(b"\n") for name, each in packed.items()}
    todo = [
        (name, model, split)
        for model in arguments.models.split(",")
        for name in sorted(packed, key=lambda each: -lines[each])  # what takes long comes first
        for split in range(1, 1 + _splits(model, lines[name] - 1, arguments.splits))
        if not arguments.tables or name in arguments.tables.split(",")
    ]
    context = get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, context, initializer=single_thread) as pool:
        waiting = {pool.submit(measure, packed[cell[0]], *cell[1:]): cell for cell in todo}
        for each in as_completed(waiting):
            yield waiting[each], each.result()


def _splits(model: str, n_rows: int, asked: int | None) -> int:
    if model == REGRESSION:
        return 1
    return asked or (5 if n_rows <= 10_000 else 2)


def single_thread() -> None:
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")


def measure(packed: bytes, model: str, split: int) -> dict[str, Any]:
    """Return the scores of one model on one split, or why there are none."""
    X, T, y, u = parts(packed, split)
    try:
        began = time.perf_counter()
        fitted = fit(model, X, y)
        seconds = time.perf_counter() - began
        found = {} if model == REGRESSION else scores(fitted.predict_proba(T), fitted.classes_, u)
        return {**found, "seconds": seconds}
    except Exception as error:  # whatever a model raises is its result
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}


def parts(packed: bytes, split: int) -> tuple[Any, Any, NDArray[Any], NDArray[Any]]:
    """Return the inputs to learn from and to test with, and their labels, which are texts."""
    from sklearn.model_selection import train_test_split

    X, labels = tables.read_frame(packed)
    y = labels.astype(str).to_numpy(dtype=object).astype(str)
    counts = np.unique(y, return_counts=True)[1]
    stratify = y if counts.min() > 1 else None
    X, T, y, u = train_test_split(X, y, stratify=stratify, test_size=0.2, random_state=split)
    # Some models refuse a column without values, and nobody learns from it.
    there = X.columns[X.notna().any()]
    return X[there], T[there], y, u


def scores(P: NDArray[Any], classes: NDArray[Any], y: NDArray[Any]) -> dict[str, Any]:
    """Return log-loss, accuracy, area under the ROC curve of two classes, and calibration.

    The expected calibration error is the sum over bins of confidence of how far right answers and
    confidence are apart; `gaps` has that of each bin, with its sign, so that splits can be added.
    """
    columns = columns_of(y, classes)
    own = np.where(columns >= 0, P[np.arange(len(y)), columns], 0.0)
    gaps = gaps_of(P, columns)
    found = {
        "log_loss": float(-np.mean(np.log(np.maximum(own, _LEAST_PROBABILITY)))),
        "accuracy": float((P.argmax(axis=1) == columns).mean()),
        "calibration": sum(map(abs, gaps)) / len(y),
        "classes": len(classes),
        "rows": len(y),
        "gaps": gaps,
    }
    if len(classes) == 2 and set(columns.tolist()) == {0, 1}:
        from sklearn.metrics import roc_auc_score

        found["auc"] = float(roc_auc_score(columns == 1, P[:, 1]))
    return found


def columns_of(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the column of each label, -1 of one that the fit did not have."""
    place = {label: column for column, label in enumerate(classes.tolist())}
    return np.array([place.get(label, -1) for label in y.tolist()], dtype=np.intp)


def gaps_of(P: NDArray[Any], columns: NDArray[np.intp]) -> list[float]:
    """Return how many more answers are right than is believed, in each bin of confidence."""
    right, sure = P.argmax(axis=1) == columns, P.max(axis=1)
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    return [float(np.sum((right - sure)[bins == b])) for b in range(_BINS)]


def fit(model: str, X: Any, y: Any) -> Any:
    """Fit a model with its own settings."""
    if model == OURS:
        from polyadic import FeatureLearningClassifier

        return FeatureLearningClassifier(random_state=0, n_jobs=1).fit(X, y)
    if model == REGRESSION:
        from polyadic import FeatureLearningRegressor

        numbers = np.unique(y, return_inverse=True)[1].astype(float)
        return FeatureLearningRegressor(random_state=0, n_jobs=1).fit(X, numbers)
    if model == BOOSTING:
        from sklearn.ensemble import HistGradientBoostingClassifier

        boosting = HistGradientBoostingClassifier(random_state=0, categorical_features="from_dtype")
        return boosting.fit(X, y)
    if model == CATBOOST:
        return _CatBoost().fit(X, y)
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(encoder_of(X), LogisticRegression(max_iter=2_000)).fit(X, y)


class _CatBoost:
    """CatBoost with its own settings; a gap in a category is a level."""

    def fit(self, X: Any, y: Any) -> _CatBoost:
        from catboost import CatBoostClassifier

        self.model_ = CatBoostClassifier(
            verbose=0, thread_count=1, random_seed=0, allow_writing_files=False
        )
        self.model_.fit(as_texts(X), y, cat_features=category_names(X))
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.model_.predict_proba(as_texts(X))


def write(results: dict[str, Any]) -> str:
    """Return what was asked, and the tables, in Markdown."""
    found = results["tables"]
    shown = [model for model in TITLES if any(model in each for each in found.values())]
    shared = {name: each for name, each in found.items() if name != DIGITS}
    parts = [f"Measured on: {results['machine']['cpu']}, one thread a fit."]
    parts += ["### Asked and reached", _beside_others(shared), _alone(found)]
    for key, title in (
        ("log_loss", "Log-loss"),
        ("accuracy", "Accuracy"),
        ("auc", "Area under the ROC curve"),
        ("seconds", "Seconds of a fit"),
    ):
        lines = [
            [name, *(_shown(r, model, key) for model in shown)]
            for name, r in found.items()
            if any(_has(r, model, key) for model in shown)
        ]
        parts += [f"### {title}", table(["table", *(TITLES[model] for model in shown)], lines)]
    lines = [
        [name, *(pooled_gap(r[model]) if _has(r, model, "gaps") else "–" for model in shown)]
        for name, r in found.items()
    ]
    title = f"### Expected calibration error, {_BINS} bins, test rows of all splits together"
    parts += [title, table(["table", *(TITLES[model] for model in shown)], lines)]
    if "chance" in results:
        parts += ["### Calibration over more splits, and by chance", _chance(results["chance"])]
    return "\n\n".join(parts)


def _beside_others(found: dict[str, Any]) -> str:
    """Return on how many tables we are as good as other models, or about as good."""
    rows = []
    for model, share in ASKED.items():
        both = {name: r for name, r in found.items() if _has(r, OURS) and _has(r, model)}
        if not both:
            continue
        losses = {name: _mean(r, OURS) / _mean(r, model) for name, r in both.items()}
        kept = sum(ratio <= 1 + _MARGIN for ratio in losses.values())
        mean = float(np.exp(np.mean(np.log(list(losses.values())))))
        worst = max(losses, key=losses.__getitem__)
        keys = {name: "auc" if _has(r, model, "auc") else "accuracy" for name, r in both.items()}
        ranked = sum(
            _mean(r, OURS, keys[name]) >= (1 - _MARGIN) * _mean(r, model, keys[name])
            for name, r in both.items()
        )
        rows.append([
            TITLES[model], f"on {share:.0%}", f"{kept} of {len(both)}, {kept / len(both):.0%}",
            f"{ranked} of {len(both)}, {ranked / len(both):.0%}", mean, losses[worst], worst,
        ])  # fmt: skip
    head = [
        "beside", "asked", "log-loss at most 2 % above", "AUC or accuracy at most 2 % below",
        "geometric mean of the ratios of log-loss", "greatest", "on",
    ]  # fmt: skip
    return table(head, rows)


def _alone(found: dict[str, Any]) -> str:
    """Return what was asked of calibration, of single tables and of time."""
    ours = {name: r for name, r in found.items() if _has(r, OURS)}
    many = {
        name: pooled_gap(r[OURS])
        for name, r in ours.items()
        if 5 * _mean(r, OURS, "rows") > _MANY_ROWS
    }
    rows: list[list[Any]] = []
    if many:
        worst = max(many, key=many.__getitem__)
        least = f"at most {_MOST_GAP} on tables above {_MANY_ROWS:,} rows"
        rows.append(["calibration", least, f"{many[worst]:.3f} at most, on {worst}"])
    for name, (error, loss) in GOALS.items():
        if name in ours:
            reached = f"{1 - _mean(ours[name], OURS, 'accuracy'):.2%}"
            rows.append([f"error, {name}", f"at most {error:.1%}", reached])
            if loss is not None:
                reached = f"{_mean(ours[name], OURS):.3f}"
                rows.append([f"log-loss, {name}", f"at most {loss}", reached])
    slower = {
        name: _mean(r, OURS, "seconds") / _mean(r, REGRESSION, "seconds")
        for name, r in ours.items()
        if _has(r, REGRESSION, "seconds")
    }
    for several in (False, True):
        allowed = {
            name: slower[name] / (_MOST_SLOWER * (n if several else 1))
            for name in slower
            if ((n := round(_mean(ours[name], OURS, "classes"))) > 2) == several
        }
        if allowed:
            worst = max(allowed, key=allowed.__getitem__)
            many_classes = f"{_MOST_SLOWER:g} times the classes"
            what = many_classes if several else f"{_MOST_SLOWER:g} times"
            kept = sum(each <= 1 for each in allowed.values())
            rows.append([
                f"seconds of a regression, {'more' if several else 'two'} classes",
                f"at most {what}",
                f"on {kept} of {len(allowed)}, {slower[worst]:.2g} times on {worst}",
            ])  # fmt: skip
    return table(["number", "asked", "measured"], rows)


def _chance(rows: list[list[Any]]) -> str:
    """Return what `benchmarks.calibration` has found."""
    head = [
        "table", "splits", "test rows", "different ones", "calibration error",
        "of right probabilities, mean", "in one of ten draws more than",
    ]  # fmt: skip
    return table(head, rows)


def pooled_gap(of_splits: dict[str, Any]) -> float:
    """Return the expected calibration error of the test rows of all splits together.

    A bin of few rows has a gap by chance; of more rows that is less.
    """
    whole = [each for each in of_splits.values() if "gaps" in each]
    gaps = np.sum([each["gaps"] for each in whole], axis=0)
    return float(np.abs(gaps).sum() / sum(each["rows"] for each in whole))


def _has(r: dict[str, Any], model: str, key: str = "log_loss") -> bool:
    return any(key in each for each in r.get(model, {}).values())


def _mean(r: dict[str, Any], model: str, key: str = "log_loss") -> float:
    return float(np.mean([each[key] for each in r[model].values() if key in each]))


def _shown(r: dict[str, Any], model: str, key: str) -> Any:
    return _mean(r, model, key) if _has(r, model, key) else "–"


def files(data: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the file of each table for classification."""
    if data.endswith(".npz"):
        with np.load(data) as file:
            for name in file.files:
                yield name, file[name].tobytes()
        return
    folder = Path(data) / "tables"
    with (folder / "MANIFEST.csv").open(newline="") as lines:
        names = [row["name"] for row in csv.DictReader(lines) if row["task"] == "class"]
    for name in names:
        yield name, (folder / f"{name}.csv.gz").read_bytes()
    yield DIGITS, _digits()


def _digits() -> bytes:
    """Return the digits of scikit-learn as the file of a table."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    lines = [",".join([f"p{d}" for d in range(X.shape[1])] + ["target"])]
    lines += [",".join(f"{value:g}" for value in row) for row in np.column_stack([X, y])]
    return gzip.compress("\n".join([*lines, ""]).encode(), mtime=0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.classes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", help="folder of the tables, or the file that --pack wrote")
    parser.add_argument("--tables", help="names, with commas; by default all")
    parser.add_argument("--models", default=",".join((OURS, BOOSTING, LOGISTIC)))
    parser.add_argument("--splits", type=int, help="by default 5, above 10,000 rows 2")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of classes.json")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--report", action="store_true", help="write the page, run nothing")
    parser.add_argument("--pack", metavar="FILE.npz", help="write all tables into one, and end")
    arguments = parser.parse_args()
    if arguments.pack is not None:
        packed = {n: np.frombuffer(each, dtype=np.uint8) for n, each in files(arguments.data)}
        np.savez(arguments.pack, **packed)
        parser.exit()
    return arguments


if __name__ == "__main__":
    main()
