"""What the engine was to reach, beside what a run measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp, log
from typing import Any

Row = tuple[str, str, float, bool]


def rows(results: dict[str, Any]) -> list[Row]:
    """Return name, requirement, measured number and whether it is met, of what was measured."""
    sections: dict[str, Callable[[Any], Iterator[Row]]] = {
        "paper": _paper,
        "peers": _peers,
        "scaling": _scaling,
        "memory": _memory,
    }
    return [
        row for name, read in sections.items() if name in results for row in read(results[name])
    ]


def _least(name: str, number: float, bound: float) -> Row:
    return name, f"≥ {bound:g}", number, number >= bound


def _most(name: str, number: float, bound: float) -> Row:
    return name, f"≤ {bound:g}", number, number <= bound


def _paper(results: list[dict[str, Any]]) -> Iterator[Row]:
    for who, title in (("same", "same work"), ("whole", "whole fit")):
        ratios = [r["seconds"]["yardstick"] / r["seconds"][who] for r in results]
        yield _least(f"yardstick, {title}, 1 thread, geometric mean", _geometric(ratios), 10)
        yield _least(f"yardstick, {title}, 1 thread, least of the sets", min(ratios), 6)
        ratios = [r["seconds"]["yardstick"] / r["seconds"][f"{who}_threads"] for r in results]
        threads = results[0]["threads"]
        yield _least(f"yardstick, {title}, {threads} threads, mean", _geometric(ratios), 16)
    gains = {r["set"]: r["seconds"]["same"] / r["seconds"]["same_float32"] for r in results}
    yield _least("float32 against float64, wine", gains["wine"], 1.5)


def _peers(results: list[dict[str, Any]]) -> Iterator[Row]:
    for r in results:
        if "seconds" in r["tnkm"]:
            ratio = r["tnkm"]["seconds"] / r["polyadic"]["seconds"]
            yield _least(f"tnkm, {r['set']}, 1 thread", ratio, 4)


def _scaling(results: dict[str, list[dict[str, Any]]]) -> Iterator[Row]:
    parts = [r for series in results.values() for r in series if "assembly_ns" in r]
    # Of a thousand rows or rank five, a step is mostly what happens once in it.
    large = [r for r in parts if r["N"] >= 10_000 and r["R"] >= 10 and r["dtype"] == "float64"]
    times = [r["assembly_ns"] for r in large]
    yield _most("assembly, ns an element, largest from N = 10,000, R = 10 on", max(times), 3)
    rates = [r["gram_GF_s"] / r["blas_GF_s"] for r in large]
    yield _least("Gram against BLAS of that shape, least of the same", min(rates), 0.6)
    shares = [(r["assembly_s"] + r["gram_s"]) / r["sweep_s"] for r in large]
    yield _least("share of the two in a sweep, least of the same", min(shares), 0.7)
    each = {r["N"]: r["ns_per_element"] for r in results["N"]}
    if 1_000_000 in each:
        growth = each[1_000_000] / each[100_000]
        yield _most("time of an element at N = 1e6 against 1e5", growth, 1.15)


def _memory(results: list[dict[str, Any]]) -> Iterator[Row]:
    first = results[0]
    yield _most(f"peak memory / (data + state), N = {first['N']:,}", first["ratio"], 1.3)


def _geometric(values: list[float]) -> float:
    return exp(sum(log(value) for value in values) / len(values))
