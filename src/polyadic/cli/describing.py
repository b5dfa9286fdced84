"""A model in words: the lines that `polyadic fit`, `show` and `evaluate` print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from polyadic.cli.columns import on_one_line, write_columns
from polyadic.cli.errors import warn
from polyadic.cli.measures import count_rows, warn_of_few
from polyadic.cli.training import Fitted
from polyadic.inspection import describe_kernel, short_name, write_number, write_part
from polyadic.members import leading_direction, mean_predicts, names_beside

_LEAST_RELEVANCE = 0.001
_LEAST_WEIGHT = 0.1  # of an input in a direction, beside the greatest


def warn_of_measures(fitted: Fitted) -> None:
    """Warn where the errors of a model are not known, or not well."""
    held_out = fitted.notes["held_out"]
    if held_out is not None:
        warn(warn_of_few(held_out["metrics"], "held-out rows"))
    elif fitted.notes["data"]["rows_fitted"] < 10:
        warn("the table has too few rows to tell how well the model predicts.")


def describe(fitted: Fitted) -> Iterator[str]:
    """Yield the lines that describe a model to a reader."""
    facts = fitted.facts()
    data, inputs, names = facts["data"], facts["inputs"], fitted.expected.names
    count = f"{len(names)} column{'s' * (len(names) != 1)}"
    told = fitted.task.describe(facts["target"] or "target")
    yield f"{facts['estimator']}: {told} from {count}"
    if data:
        missing = data.get("rows_dropped")
        parts = [("held out", data.get("rows_held_out")), ("without a target left out", missing)]
        others = "".join(f", {count} {what}" for what, count in parts if count)
        yield (
            f"  fitted on {data['rows_fitted']} of {data['rows']} rows of {data['file']}{others}, "
            f"in {data['seconds']:.1f} s, {data['date']}, polyadic {facts['version']}"
        )
    yield f"  {_describe_fit(fitted.model, facts)}"
    yield from (f"  {line}" for line in metric_lines(facts["held_out"], "held-out rows"))
    if facts["columns"]:
        yield "Columns"
        yield from write_columns(facts["columns"])
    if any("relevance" in entry for entry in inputs):
        yield from _describe_learned(inputs, fitted.task.scale)
        yield from _describe_direction(fitted.model, [entry["name"] for entry in inputs])
        return
    yield "Feature weights λ" + ": the part of the prediction of each map" * bool(facts["trials"])
    yield from (f"  {weight:7.3f}  {name}" for name, weight in _list_weights(fitted.model))
    if not facts["columns"]:
        yield "Inputs"
        yield from (f"  {', '.join([entry['name'], *_span(entry)])}" for entry in inputs)


def _list_weights(model: Any) -> list[tuple[str, float]]:
    """Return the maps with the weights that can be seen, largest first."""
    pairs = zip(map(short_name, model.feature_maps_), model.feature_weights_, strict=True)
    return sorted((p for p in pairs if abs(p[1]) >= 5e-4), key=lambda pair: -abs(pair[1]))


def _describe_fit(model: Any, facts: dict[str, Any]) -> str:
    """Say how the fit went; a search has many trials, whose last loss says little."""
    if not facts["trials"]:
        return f"{facts['epochs']} epochs, training loss {facts['loss']:.4g}"
    ranks = sorted(set(facts["rank"]))
    of = f"of rank {ranks[0]}" if len(ranks) == 1 else f"of ranks {ranks[0]} to {ranks[-1]}"
    n_members = len(facts["rank"])
    members = f"{n_members} member{'s' * (n_members != 1)} {of}"
    beside = names_beside(model.members_, n_members)
    if mean_predicts(model.members_, n_members):
        return f"{' and '.join([members, *beside])}, chosen in {facts['trials']} trials"
    alone = " and ".join(beside) or "a constant"
    return f"{alone}, to which {members} added nothing on held-out rows"


def _describe_learned(inputs: list[dict[str, Any]], scale: str) -> Iterator[str]:
    """Yield a table of what was learned about the inputs, the most relevant first."""
    yield f"Inputs by relevance: how {scale} change without one, as a part of their variance"
    inputs = [{**entry, "name": on_one_line(entry["name"])} for entry in inputs]
    used = [entry for entry in inputs if entry["kind"] != "unused"]
    told = [entry for entry in used if entry["relevance"] >= _LEAST_RELEVANCE] or used
    rows = [["", "relevance", "kernel", "length scale", "basis functions"]]
    for entry in sorted(told, key=lambda entry: -entry["relevance"]):
        # The trend may use an input that no kernel does.
        length = "–" if entry["length_scale"] is None else write_number(entry["length_scale"], 2)
        learned = [describe_kernel(entry["kernel"]), length, str(entry["n_basis"])]
        rows.append([entry["name"], write_part(entry["relevance"]), *learned])
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    # Text stands on the left, numbers on the right.
    sides = "<><>>"
    for row in rows:
        cells = zip(row, sides, widths, strict=True)
        yield "  " + "  ".join(f"{cell:{side}{width}}" for cell, side, width in cells).rstrip()
    yield "  Length scales are in units of an input's range."
    hardly = [entry["name"] for entry in used if entry not in told]
    unused = [entry["name"] for entry in inputs if entry["kind"] == "unused"]
    for what, names in (("Less than 0.1 %", hardly), ("Unused", unused)):
        if names:
            yield f"  {what}: {', '.join(names)}"


def _describe_direction(model: Any, names: list[str]) -> Iterator[str]:
    """Yield the linear combination of inputs that matters most, if inputs are seen along any."""
    weights = leading_direction(model.members_)
    if weights is None:
        return
    counts = np.flatnonzero(np.abs(weights) >= _LEAST_WEIGHT)
    terms = ""
    for place in counts[np.argsort(-np.abs(weights[counts]), kind="stable")].tolist():
        size = f"{abs(weights[place]):.2f}".rstrip("0").rstrip(".")
        sign = " − " if weights[place] < 0 else " + "
        terms += sign + ("" if size == "1" else f"{size} ") + on_one_line(names[place])
    along = terms.removeprefix(" + ")
    yield f"  Predictions change most along {along}, inputs in units of their ranges."


def _span(entry: dict[str, Any]) -> list[str]:
    """Return the range of an input, where it is known."""
    deciles = entry.get("deciles")
    return [f"{deciles[0]:g} to {deciles[-1]:g}"] if deciles else []


def metric_lines(metrics: dict[str, Any] | None, rows: str = "rows") -> Iterator[str]:
    """Yield the line that says how good predictions are, where that is known."""
    if metrics is None:
        return
    if "log_loss" in metrics:
        yield f"{count_rows(metrics['rows'], rows)}: {_class_metrics(metrics, metrics['auc'])}"
        half = None if metrics["auc"] is None else 0.5
        yield f"a constant prediction: {_class_metrics(metrics['constant'], half)}"
        return
    r2 = "" if metrics["r2"] is None else f", R² {metrics['r2']:.4f}"
    rmse, mae = (write_number(metrics[name], 5) for name in ("rmse", "mae"))
    yield f"{count_rows(metrics['rows'], rows)}: RMSE {rmse}, MAE {mae}{r2}"
    if "log_score" in metrics:
        held, score = 100 * metrics["coverage_90"], write_number(metrics["log_score"])
        yield f"90 % intervals hold {held:.1f} % of them, log score {score}"


def _class_metrics(metrics: dict[str, Any], auc: float | None) -> str:
    """Return log-loss, accuracy and AUC, as far as there are any."""
    loss = metrics["log_loss"]
    parts = [
        *([] if loss is None else [f"log-loss {loss:.4f}"]),
        f"accuracy {100 * metrics['accuracy']:.1f} %",
        *([] if auc is None else [f"AUC {auc:.4f}"]),
    ]
    return ", ".join(parts)
