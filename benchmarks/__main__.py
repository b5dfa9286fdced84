"""Measure polyadic and write docs/speed.json and the tables of docs/speed.md.

``python -m benchmarks compare BASE HEAD`` compares the speed of two commits instead.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import commits, machine, memory, paper, peers, prediction, report, scaling


def main() -> None:
    arguments = _arguments()
    sections: dict[str, Callable[[], Any]] = {
        "machine": machine.describe,
        "paper": lambda: paper.run(arguments.data, arguments.repeats, arguments.threads),
        "peers": lambda: peers.run(arguments.data, arguments.repeats),
        "scaling": lambda: scaling.run(arguments.threads, arguments.quick),
        "prediction": lambda: prediction.run(arguments.data, arguments.repeats, arguments.threads),
        "memory": lambda: memory.run(arguments.threads, arguments.quick),
    }
    results: dict[str, Any] = {}
    path = Path(arguments.out) / "speed.json"
    if path.exists():
        results = json.loads(path.read_text())  # sections that are not run again stay
    for name in arguments.sections or sections:
        began = time.perf_counter()
        results[name] = sections[name]()
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=1) + "\n")
    report.write(results, Path(arguments.out) / "speed.md")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="section",
        help="machine, paper, peers, scaling, prediction, memory; all by default",
    )
    parser.add_argument("--out", default="docs", help="folder of speed.json and speed.md")
    parser.add_argument("--data", help="folder of the data sets; see polyadic.datasets")
    parser.add_argument("--repeats", type=int, default=5, help="fits a median is taken of")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--quick", action="store_true", help="leave out a million rows")
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["compare"]:
        commits.main(sys.argv[2:])
    else:
        main()
