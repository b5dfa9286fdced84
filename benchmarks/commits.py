"""The speed of two commits, run in turn.

    python -m benchmarks compare BASE HEAD --rounds 7

Each commit is checked out into a folder of its own, and a short set of fits and predictions is
run with one and with the other, turn by turn, each time in a new process; which one begins
changes from round to round.  A ratio is that of a round, so that what the machine does besides
meets both alike.  The first round, which compiles kernels, does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

Times = dict[str, tuple[float, float]]  # of each case: seconds on the wall, seconds of CPU

_ROOT = Path(__file__).resolve().parents[1]


def _rows(n_rows: int, n_inputs: int = 6) -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(n_rows, n_inputs))
    y = np.sin(6 * X[:, 0] * X[:, 1]) + X[:, 2] + 0.1 * rng.standard_normal(n_rows)
    return X, y


def _automatic() -> Callable[[], Any]:
    from polyadic import FeatureLearningRegressor

    model = FeatureLearningRegressor(effort=0.2, n_estimators=2, random_state=0)
    return lambda: model.fit(*_rows(600))


def _classes() -> Callable[[], Any]:
    from polyadic import FeatureLearningClassifier

    model = FeatureLearningClassifier(effort=0.1, n_estimators=1, random_state=0)
    X, y = _rows(300)
    return lambda: model.fit(X, np.digitize(y, [0.5, 1.0]))


def _named() -> Callable[[], Any]:
    from polyadic import KernelMachineRegressor

    return lambda: KernelMachineRegressor(random_state=0, max_iter=5).fit(*_rows(20_000))


def _predict() -> Callable[[], Any]:
    from polyadic import FeatureLearningRegressor

    model = FeatureLearningRegressor(effort=0.1, n_estimators=1, random_state=0).fit(*_rows(200))
    X = _rows(200_000)[0]
    return lambda: model.predict(X)


CASES: dict[str, Callable[[], Callable[[], Any]]] = {
    "automatic fit, 600 rows": _automatic,
    "classes, 300 rows": _classes,
    "named maps, 20,000 rows": _named,
    "prediction, 200,000 rows": _predict,
}


def main(arguments: Sequence[str]) -> None:
    chosen = _arguments(arguments)
    commits = [_commit(name) for name in (chosen.base, chosen.head)]
    rounds = [] if chosen.rounds < 1 else list(run(commits, chosen.rounds, chosen.cases))
    print(write(chosen.base, chosen.head, rounds))


def run(commits: Sequence[str], n_rounds: int, cases: Sequence[str]) -> Iterator[list[Times]]:
    """Yield the times of both commits, round by round."""
    with _checked_out(commits[0]) as base, _checked_out(commits[1]) as head:
        for number in range(1 + n_rounds):
            times = {}
            for folder in (base, head) if number % 2 else (head, base):
                times[folder] = _times(folder, cases)
            if number:  # kernels are compiled
                yield [times[base], times[head]]


def _commit(name: str) -> str:
    done = _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
    if done.returncode:
        raise SystemExit(f"`{name}` must name a commit. Use for instance main, HEAD~1 or a tag.")
    return done.stdout.strip()


def _git(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], cwd=_ROOT, check=check, capture_output=True, text=True
    )


@contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    """Give a folder with the files of a commit, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="polyadic-") as folder:
        path = Path(folder) / commit[:12]
        _git("worktree", "add", "--detach", "--force", str(path), commit)
        try:
            yield path
        finally:
            _git("worktree", "remove", "--force", str(path))


def _times(folder: Path, cases: Sequence[str]) -> Times:
    """Return the times of all cases with the files of a folder, in a process of their own."""
    # The cases are those of this file, whatever the commit; -P keeps its neighbours out.
    done = subprocess.run(
        [sys.executable, "-P", __file__, *cases],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{folder.name} cannot be run: {done.stderr.strip().splitlines()[-1]}")
    found: Times = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(cases: Sequence[str]) -> Times:
    """Return the seconds that each case takes here; those that a commit cannot do are left out."""
    found: Times = {}
    for name in cases:
        try:
            call = CASES[name]()
            call()  # kernels are loaded
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            found[name] = time.perf_counter() - wall, time.process_time() - cpu
        except (ImportError, AttributeError, TypeError) as error:
            print(f"{name}: {error}", file=sys.stderr)
    return found


def write(base: str, head: str, rounds: Sequence[Sequence[Times]]) -> str:
    """Return a table of the ratios, head over base, with the least and the greatest of them."""
    lines = [
        f"| case | {base}, s | {head}, s | ratio | of CPU time | spread | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in CASES:
        both = [(old[name], new[name]) for old, new in rounds if name in old and name in new]
        if not both:
            continue
        seconds = [statistics.median(each[side][0] for each in both) for side in (0, 1)]
        ratios, of_cpu = ([new[i] / old[i] for old, new in both] for i in (0, 1))
        low, high = quartiles(of_cpu)
        lines.append(
            f"| {name} | {seconds[0]:.3g} | {seconds[1]:.3g} | {statistics.median(ratios):.2f} | "
            f"{statistics.median(of_cpu):.2f} | {low:.2f} to {high:.2f} | {verdict(low, high)} |"
        )
    told = "Ratios are medians over rounds; the spread is that of the middle half, of CPU time."
    return "\n".join([*lines, "", f"{len(rounds)} rounds. {told}"])


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return where the middle half of some values begins and ends."""
    low, high = np.quantile(values, [0.25, 0.75])
    return float(low), float(high)


def verdict(low: float, high: float, least: float = 0.03) -> str:
    """Return what a spread of ratios says, in a word; nothing where that is not sure."""
    if low > 1 + least:
        return "slower"
    return "faster" if high < 1 - least else ""


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks compare", description=__doc__)
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("head", help="the commit that is new")
    parser.add_argument("--rounds", type=int, default=7, help="times that both are run")
    parser.add_argument(
        "--cases", nargs="+", choices=list(CASES), default=list(CASES), help="all by default"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:])))
