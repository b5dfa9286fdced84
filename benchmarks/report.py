"""The Markdown tables of docs/speed.md, between its two markers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def write(results: dict[str, Any], path: Path) -> None:
    """Put the tables between the markers of a page, or make a page of them."""
    text = path.read_text() if path.exists() else f"# Speed\n\n{BEGIN}\n{END}\n"
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    tables = "\n\n".join(SECTIONS[name](results[name]) for name in SECTIONS if name in results)
    path.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}")


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table; numbers with three digits."""
    lines = [head, ["---"] * len(head), *([_cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


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
    counts = list(results[0]["polyadic_s"])
    many = counts[-1]
    rows = []
    for r in results:
        ours, yard = r["polyadic_s"], r["yardstick_s"]
        without = yard - r["yardstick_mixing_s"]
        rows.append([
            r["set"], r["rows"], yard, r["yardstick_mixing_s"], ours["1"], ours[many],
            yard / ours["1"], without / ours["1"], yard / ours[many], ours["1"] / r["float32_s"],
            r["mse"]["plain"], r["mse"]["polyadic"],
        ])  # fmt: skip
    means = [_geometric(row[index] for row in rows) for index in (6, 7, 8, 9)]
    rows.append(["geometric mean", "", "", "", "", "", *means, "", ""])
    head = [
        "set", "rows", "yardstick, s", "of it λ, s", "1 thread, s", f"{many} threads, s",
        "ratio, 1 thread", "without its λ step", f"ratio, {many} threads", "float32 gain",
        "test MSE, yardstick", "test MSE, polyadic",
    ]  # fmt: skip
    return "### Paper settings (P = 8, 10 epochs)\n\n" + table(head, rows)


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
