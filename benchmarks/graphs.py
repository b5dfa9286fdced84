"""Graphs of ONNX beside the estimators they were written from: agreement and speed.

    python -m benchmarks.graphs --data DATA --out docs

DATA is the folder of the shared sets.  Each set is fitted with little effort to at most 500 of
its rows and predicted on at most 20,000: the five sets of numbers, the numbers of the further
tables, and these tables as they are, for regression and for classes.  Differences are in units
of the predictions' standard deviation, those of probabilities as they are, and those of deviations
in parts of them.  Times are those of one thread, without deviations.  The table goes between the
markers of onnx.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import polyadic
from benchmarks import machine, tables
from benchmarks.common import least_time
from benchmarks.report import put, table

_MOST_FITTED, _MOST_PREDICTED, _BATCH = 500, 20_000, 1_000
_PARAMETERS = {"effort": 0.1, "n_estimators": 1, "random_state": 0}
_HEADER = (
    "set", "difference", "of std", "nodes", "MB", "1 row: ours, ms", "onnxruntime",
    "1,000 rows: ours, ms", "onnxruntime",
)  # fmt: skip


def main() -> None:
    arguments = _arguments()
    warnings.simplefilter("ignore")
    rows, cpu = [], machine.describe()["cpu"]
    for name, X, y in sets(Path(arguments.data)):
        if not arguments.sets or name in arguments.sets.split(","):
            rows.append([name, *measure(X, y)])
            print(*rows[-1], flush=True)
            put(write(rows, cpu), Path(arguments.out) / "onnx.md", "ONNX")


def sets(folder: Path) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, inputs and targets of all sets; targets of classes are text."""
    for name in (*tables.CSV_SETS, *tables.TABLES, tables.FLIGHTS):
        yield name, *tables.load(name, folder)
    known = {name.removeprefix("raw/") for name in tables.RAW}
    for path in sorted((folder / "tables").glob("*.csv.gz")):
        name = path.name.removesuffix(".csv.gz")
        X, y = tables.read_frame(path.read_bytes())
        yield f"raw/{name}", X, y.to_numpy(float) if name in known else y.astype(str).to_numpy(str)


def measure(X: Any, y: Any) -> list[Any]:
    """Fit a set, and return what its graph differs by, its size, and the time of both."""
    order = np.random.RandomState(0).permutation(len(y))
    fitted, seen = order[:_MOST_FITTED], order[:_MOST_PREDICTED]
    if not isinstance(X, np.ndarray):  # of what few rows have nothing, nothing is learned
        X = X.loc[:, X.iloc[fitted].notna().any()]
    is_class = y.dtype.kind == "U"
    kind = polyadic.FeatureLearningClassifier if is_class else polyadic.FeatureLearningRegressor
    model = kind(**_PARAMETERS).fit(_rows(X, fitted), y[fitted])
    predict = model.predict_proba if is_class else model.predict
    graph = polyadic.to_onnx(model, return_std=False)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), _one_thread())
    model.set_params(n_jobs=1)
    wanted = predict(_rows(X, seen))
    output = "probabilities" if is_class else "prediction"
    (found,) = session.run([output], polyadic.onnx_inputs(model, _rows(X, seen)))
    unit = 1.0 if is_class else float(wanted.std()) or 1.0
    times = []
    for size in (1, _BATCH):
        some = _rows(X, np.resize(seen, size))
        inputs = polyadic.onnx_inputs(model, some)
        times += [least_time(predict, some), least_time(session.run, [output], inputs)]
    difference = float(np.abs(found - wanted).max()) / unit
    size = len(graph.graph.node), graph.ByteSize() / 1e6
    of_std = "" if is_class else f"{_difference_of_std(model, _rows(X, seen[:2_000])):.0e}"
    shown = [f"{1e3 * each:.2g}" for each in times]
    return [f"{difference:.0e}", of_std, size[0], f"{size[1]:.1f}", *shown]


def _difference_of_std(model: Any, X: Any) -> float:
    graph = polyadic.to_onnx(model).SerializeToString()
    session = onnxruntime.InferenceSession(graph, _one_thread())
    (found,) = session.run(["std"], polyadic.onnx_inputs(model, X))
    return float(np.abs(found / model.predict(X, return_std=True)[1] - 1).max())


def _one_thread() -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return options


def _rows(X: Any, rows: Any) -> Any:
    return X[rows] if isinstance(X, np.ndarray) else X.iloc[rows]


def write(rows: list[list[Any]], cpu: str) -> str:
    """Return the table, and what it comes to."""
    worst = [max(float(row[i] or 0) for row in rows) for i in (1, 2)]
    ratios = [[float(row[i]) / float(row[i + 1]) for row in rows] for i in (5, 7)]
    faster = [float(np.exp(np.mean(np.log(each)))) for each in ratios]
    return (
        f"{len(rows)} sets, greatest difference {worst[0]:.0e}, that of deviations {worst[1]:.0e}. "
        f"onnxruntime {onnxruntime.__version__} is {faster[0]:.0f} times as fast for one row, and "
        f"{faster[1]:.1f} times for {_BATCH:,} (geometric means; {cpu}).\n\n"
        + table(list(_HEADER), rows)
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graphs", description=__doc__)
    parser.add_argument("--data", required=True, help="folder of the data sets")
    parser.add_argument("--out", default="docs", help="folder of onnx.md")
    parser.add_argument("--sets", help="names of those to run, separated by commas")
    return parser.parse_args()


if __name__ == "__main__":
    main()
