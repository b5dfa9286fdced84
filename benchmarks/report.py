"""Markdown tables of pages, between their two markers."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import targets
from benchmarks.machine import processor

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def write(results: dict[str, Any], path: Path) -> None:
    """Write the page of speed."""
    parts = [SECTIONS[name](results[name]) for name in SECTIONS if name in results]
    put("\n\n".join([*parts, reached(results)]), path, "Speed")


def put(tables: str, path: Path, title: str) -> None:
    """Put tables between the markers of a page, or make a page of them."""
    text = path.read_text() if path.exists() else f"# {title}\n\n{BEGIN}\n{END}\n"
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}")


@dataclass
class Page:
    """A page whose tables are measured part by part, all on one machine, and kept beside it.

    Parameters
    ----------
    path : Path
        The page; numbers are kept in a file of the same name, with the suffix json.
    title : str
        Of a page that is not there yet.
    command : str
        What measures.
    machine : str
        What it measures on: other numbers are forgotten.
    about : str
        What more there is to say of it.
    """

    path: Path
    title: str
    command: str
    machine: str
    about: str

    def keep(
        self, name: str, what: str, head: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Keep the table of one part, and write those of all."""
        kept = self.path.with_suffix(".json")
        before = json.loads(kept.read_text()) if kept.exists() else {}
        parts = before["parts"] if before.get("machine") == self.machine else {}
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        parts[name] = {"date": date, "what": what, "head": head, "rows": rows}
        results = {"machine": self.machine, "about": self.about, "parts": parts}
        kept.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        put(self.write(results), self.path, self.title)

    def write(self, results: dict[str, Any]) -> str:
        """Return where and when it was measured, and a table for each part."""
        days = sorted({part["date"] for part in results["parts"].values()})
        when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        found = [f"Measured by {self.command}, {when}: {results['machine']}{results['about']}"]
        for part in results["parts"].values():
            found.append(f"**{part['what']}**\n\n" + table(part["head"], part["rows"]))
        return "\n\n".join(found)


def scaling_page(out: Path) -> Page:
    """Return the page of what is beyond memory and one process."""
    command = "`python -m benchmarks.stream FOLDER` and `python -m benchmarks.cluster`"
    cpu = f"{processor()}, {os.cpu_count()} cores"
    return Page(out / "scaling.md", "Scaling", command, cpu, ".")


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table; numbers with three digits."""
    lines = [head, ["---"] * len(head), *([_cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def reached(results: dict[str, Any]) -> str:
    """Return what was to be reached beside what was."""
    rows = [
        [name, bound, number, "yes" if met else "no"]
        for name, bound, number, met in targets.rows(results)
    ]
    return "### Asked and reached\n\n" + table(["number", "asked", "measured", "met"], rows)


def machine(result: dict[str, Any]) -> str:
    versions = ", ".join(
        f"{name} {result[name]}" for name in ("python", "numpy", "scipy", "scikit-learn", "numba")
    )
    return (
        f"Measured on: {result['cpu']}, {result['cpus']} CPUs, {versions}. One thread moves "
        f"{result['bandwidth_GB_s']:.0f} GB/s (read and write) and does "
        f"{result['blas_GF_s']:.0f} billion sums of a Gram matrix a second. Load average at the "
        f"start: {result['load']:.1f}."
    )


def paper(results: list[dict[str, Any]]) -> str:
    threads = f"{results[0]['threads']} threads"
    rows, work = [], []
    for r in results:
        s, mse = r["seconds"], r["mse"]
        yard = s["yardstick"]
        work.append([
            r["set"], r["rows"], yard, s["same"], s["same_threads"], yard / s["same"],
            yard / s["same_threads"], s["same"] / s["same_float32"], s["mixing"] / yard,
            (yard - s["mixing"]) / s["same"], mse["yardstick"], mse["same"],
        ])  # fmt: skip
        rows.append([
            r["set"], yard, s["whole"], s["whole_threads"], yard / s["whole"],
            yard / s["whole_threads"], mse["yardstick"], mse["whole"],
        ])  # fmt: skip
    head = [
        "set", "rows", "yardstick, s", "1 thread, s", f"{threads}, s", "ratio, 1 thread",
        f"ratio, {threads}", "float32 gain", "λ step's share of the yardstick",
        "ratio without it", "test MSE, yardstick", "test MSE, polyadic",
    ]  # fmt: skip
    whole = [
        "set", "yardstick, s", "1 thread, s", f"{threads}, s", "ratio, 1 thread",
        f"ratio, {threads}", "test MSE, yardstick", "test MSE, polyadic",
    ]  # fmt: skip
    return (
        "### Paper settings (P = 8, 10 epochs): the same work from the same start\n\n"
        + table(head, [*work, _means(work, (5, 6, 7, 9))])
        + "\n\n### Paper settings: a whole fit of the estimator, two starts of λ among it\n\n"
        + table(whole, [*rows, _means(rows, (4, 5))])
    )


def _means(rows: list[list[Any]], columns: Sequence[int]) -> list[Any]:
    """Return the last row of a table: the geometric mean of some of its columns."""
    last: list[Any] = ["geometric mean"] + [""] * (len(rows[0]) - 1)
    for column in columns:
        last[column] = _geometric(row[column] for row in rows)
    return last


def _geometric(values: Any) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def peers(results: list[dict[str, Any]]) -> str:
    rows = []
    for r in results:
        ours, theirs = r["polyadic"], r["tnkm"]
        if "skipped" in theirs:
            rows.append([r["set"], ours["seconds"], ours["compile_s"], theirs["skipped"], "", ""])
            continue
        ratio = theirs["seconds"] / ours["seconds"]
        rows.append([
            r["set"], ours["seconds"], ours["compile_s"], theirs["seconds"],
            theirs["compile_s"], ratio,
        ])  # fmt: skip
    head = ["set", "polyadic, s", "its first fit, s more", "tnkm, s", "its compilation, s", "ratio"]
    return "### One map, against tnkm 0.1, one thread\n\n" + table(head, rows)


def scaling(results: dict[str, list[dict[str, Any]]]) -> str:
    head = [
        "N", "D", "I", "R", "P", "dtype", "threads", "start, s", "sweep, s", "all, ns",
        "assembly, ns", "assembly, GB/s", "Gram, GF/s", "BLAS, GF/s", "in the two",
    ]  # fmt: skip
    rows = []
    for series in results.values():
        for r in series:
            row = [r[key] for key in ("N", "D", "I", "R", "P", "dtype", "threads")]
            row += [r["start_s"], r["sweep_s"], r["ns_per_element"]]
            if "assembly_ns" in r:
                inside = (r["assembly_s"] + r["gram_s"]) / r["sweep_s"]
                row += [r[key] for key in ("assembly_ns", "assembly_GB_s", "gram_GF_s")]
                row += [r["blas_GF_s"], f"{inside:.0%}"]
            else:
                row += ["", "", "", "", ""]
            rows.append(row)
    text = "\n\nTimes per element are per sample, map, rank and core; `all` has the start in it."
    return "### Scaling: one epoch\n\n" + table(head, rows) + text


def prediction(results: list[dict[str, Any]]) -> str:
    rows = [[r["model"], r["threads"], r["rows_per_s"]] for r in results]
    return "### Prediction, wine\n\n" + table(["model", "threads", "rows a second"], rows)


def memory(results: list[dict[str, Any]]) -> str:
    rows = [
        [
            r["N"], r["dtype"], r["memory_limit"] or "none", r["data_B"] / 1e6,
            r["state_B"] / 1e6, r["fit_B"] / 1e6, r["ratio"], r["predict_B"] / 1e6,
        ]
        for r in results
    ]  # fmt: skip
    head = [
        "N", "dtype", "memory_limit", "data, MB", "state, MB", "peak of the fit, MB",
        "peak / (data + state)", "more in predict, MB",
    ]  # fmt: skip
    return "### Peak memory (D = 8, R = 20, P = 6)\n\n" + table(head, rows)


SECTIONS: dict[str, Callable[[Any], str]] = {
    "machine": machine,
    "paper": paper,
    "peers": peers,
    "scaling": scaling,
    "prediction": prediction,
    "memory": memory,
}
