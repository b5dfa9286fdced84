"""Rows on disk: 20 million rows in 1.4 GB of Parquet, fitted under a memory limit.

    python -m benchmarks.stream FOLDER [--rows 20]

writes the files to FOLDER where they are missing, and its tables to docs/scaling.md.  Every fit has
a process of its own, whose peak size is the process's own count.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import child, child_arguments
from benchmarks.memory import _peak
from benchmarks.report import scaling_page

FILE_ROWS = 500_000
N_INPUTS = 8
LIMIT, TIGHT = "1.5GB", "500MB"
HEAD = (
    "rows", "limit", "where rows are", "fit, s", "processor, s", "ns a row and pass",
    "million rows a second and core step", "peak, MB",
)  # fmt: skip
SHARES_HEAD = "early epochs see", "fit, s", "processor, s", "last loss", "test R²"


def make(folder: Path, rows: int) -> None:
    """Write files of one row group each; number 0 is for tests."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for number in range(rows // FILE_ROWS + 1):
        path = folder / f"{number:03}.parquet"
        if path.exists():
            continue
        rng = np.random.default_rng(number)
        X = rng.uniform(size=(N_INPUTS, FILE_ROWS))
        y = np.sin(5 * X[0]) * X[1] + np.cos(3 * X[2] * X[3]) + X[4] * X[5] + X[6] ** 2 - X[7]
        columns = {f"x{index}": column for index, column in enumerate(X)}
        columns["y"] = y + 0.1 * rng.standard_normal(FILE_ROWS)
        beside = path.with_suffix(".part")
        parquet.write_table(
            pyarrow.table(columns), beside, row_group_size=FILE_ROWS, use_dictionary=False,
            compression=None,
        )  # fmt: skip
        beside.rename(path)


def main() -> None:
    a = child_arguments()
    from polyadic import FeatureLearningRegressor, open_rows
    from polyadic.features import DampedFourierFeatures
    from polyadic.samples.disk import StreamSamples

    files = sorted(Path(a["folder"]).glob("*.parquet"))
    source = open_rows(files[1 : 1 + a["rows"] // FILE_ROWS], target="y")
    model = FeatureLearningRegressor(
        [DampedFourierFeatures(2.0 + 2 * p, 0.7) for p in range(a["P"])], n_basis=4, rank=a["R"],
        max_iter=a["epochs"], tol=0, subsample=a["subsample"], n_jobs=a["threads"],
        memory_limit=a["limit"], random_state=0,
    )  # fmt: skip
    steps, places = [], []
    step = StreamSamples.normal_equations

    def timed_step(self: Any, core: int, weights: Any) -> Any:
        began = time.perf_counter()
        sums = step(self, core, weights)
        steps.append(time.perf_counter() - began)
        places.append(self.place)
        return sums

    StreamSamples.normal_equations = timed_step  # type: ignore[method-assign]
    began, computing = time.perf_counter(), time.process_time()
    model.fit(source)
    seconds, busy = time.perf_counter() - began, time.process_time() - computing
    peak = _peak()
    test = open_rows(files[0], target="y")
    print(json.dumps({
        **a, "fitted": model.n_samples_fit_, "seconds": seconds, "busy_s": busy,
        "peak_B": peak, "step_s": float(np.median(steps)), "n_steps": len(steps),
        "place": places[-1], "r2": model.score(test), "losses": model.loss_curve_,
    }))  # fmt: skip


def sizes(folder: Path, rows: int, threads: int) -> Iterator[dict[str, Any]]:
    """Fit more and more rows; the last count and the first are compared where rows are on disk."""
    case = {"folder": str(folder), "threads": threads, "R": 8, "P": 1, "epochs": 1}
    counts = [rows // part for part in (8, 4, 2, 1)]
    for count, limit in [(counts[0], TIGHT), *((count, LIMIT) for count in counts)]:
        yield child("benchmarks.stream", {**case, "rows": count, "limit": limit, "subsample": None})


def shares(folder: Path, rows: int, threads: int) -> Iterator[dict[str, Any]]:
    """Fit with and without early epochs on a share of the rows."""
    case = {"folder": str(folder), "threads": threads, "R": 10, "P": 2, "epochs": 8}
    for subsample in (None, 0.1):
        yield child(
            "benchmarks.stream", {**case, "rows": rows // 8, "limit": TIGHT, "subsample": subsample}
        )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=20, help="millions of rows")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of scaling.md")
    return parser.parse_args()


def report() -> None:
    arguments = parse()
    folder, rows, threads = arguments.folder, arguments.rows * 1_000_000, arguments.threads
    page = scaling_page(arguments.out)
    make(folder, rows)
    fits, lines = [], []
    for fit in sizes(folder, rows, threads):
        fits.append(fit)
        lines.append(line(fit))
        print(*lines[-1], flush=True)
    few, many = fits[0], fits[-1]
    wall, busy = (
        many[what] / many["fitted"] * few["fitted"] / few[what] for what in ("seconds", "busy_s")
    )
    what = (
        f"Rows on disk: {N_INPUTS} inputs, four basis functions, rank 8, one map, one epoch of 16 "
        f"core steps and three passes more, {threads} threads. A row of "
        f"{many['fitted'] / 1e6:g} million takes {wall:.2f} times as long as one of "
        f"{few['fitted'] / 1e6:g} million, both on disk, and {busy:.2f} times of the processors."
    )
    page.keep("disk", what, HEAD, lines)
    lines = []
    for fit in shares(folder, rows, threads):
        early = "all rows" if fit["subsample"] is None else f"{fit['subsample']:.0%}, 20%, 40%, 80%"
        loss, seconds, busy = fit["losses"][-1], fit["seconds"], fit["busy_s"]
        lines.append([early, f"{seconds:.1f}", f"{busy:.1f}", f"{loss:.6f}", f"{fit['r2']:.6f}"])
        print(*lines[-1], flush=True)
    what = f"First epochs on a part of the rows: {rows // 8 / 1e6:g} million, rank 10, two maps."
    page.keep("shares", what, SHARES_HEAD, lines)


def line(fit: dict[str, Any]) -> list[str]:
    """Return a row of the table."""
    # The statistics, two λ steps and all core steps: each is a pass over the rows.
    each = fit["seconds"] / fit["fitted"] / (fit["n_steps"] + 3)
    return [
        f"{fit['fitted'] / 1e6:g} M",
        fit["limit"],
        fit["place"],
        f"{fit['seconds']:.1f}",
        f"{fit['busy_s']:.1f}",
        f"{each * 1e9:.0f}",
        f"{fit['fitted'] / fit['step_s'] / 1e6:.2f}",
        f"{fit['peak_B'] / 1e6:.0f}",
    ]


if __name__ == "__main__":
    main() if sys.argv[1:2] and sys.argv[1].startswith("{") else report()
