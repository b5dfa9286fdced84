"""What a report is told about a model: rows, errors, and where they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.cli.errors import Mistake
from polyadic.cli.measures import Fingerprint
from polyadic.cli.tables import Table
from polyadic.cli.training import Fitted
from polyadic.report import Subject


def subject_of(
    fitted: Fitted, path: str, table: Table | None, target: str | None, by_name: bool
) -> Subject:
    """Return what a report is about.

    Parameters
    ----------
    fitted : Fitted
        The model.
    path : str
        Its file.
    table : Table or None
        Rows to measure everything on; without them, what the model file kept of its own.
    target : str or None
        Column to compare with.
    by_name : bool
        Whether columns are picked by name.
    """
    fitted.check_single_target()
    rows = _use_notes(fitted) if table is None else _use_table(fitted, table, target, by_name)
    return Subject(
        model=fitted.model,
        target=target or fitted.expected.target or "target",
        names=list(fitted.inputs.names),
        facts=_list_facts(fitted),
        messages=_list_notes(fitted),
        model_file=Path(path).name,
        **rows,
    )


def _use_table(fitted: Fitted, table: Table, target: str | None, by_name: bool) -> dict[str, Any]:
    """Return what a subject says of the rows of a table."""
    target = fitted.expected.comparison_target(table, target)
    source = fitted.source(table, by_name, target)
    found = list(fitted.predict_batches(source, plainly=True))
    if not found:
        raise Mistake(f"{table.path} has no rows to measure on.")
    X = np.concatenate([batch.X for batch, _ in found])
    y = np.concatenate([np.asarray(batch.y)[:, 0] for batch, _ in found])
    name = table.path.name
    return {
        "X": X,
        "y": y,
        "actual": y,
        "predicted": fitted.task.shape(np.concatenate([predicted for _, predicted in found])),
        "measured_on": f"rows of {name}",
        "rows_are": f"the rows of {name}",
        "cautions": _caution(fitted, X, y),
    }


def _list_notes(fitted: Fitted) -> list[str]:
    """Return what there is to say of columns beside what they hold."""
    lines = (fitted.notes.get("table") or {}).get("columns", [])
    return [f"{line['column']!r}: {line['note']}" for line in lines if line["note"]]


def _caution(fitted: Fitted, X: NDArray[np.float64], y: NDArray[np.float64]) -> list[str]:
    rows = Fingerprint()
    rows.add(X, y[:, None])
    known = fitted.warn_of_known(rows)
    return [] if known is None else [known[0].upper() + known[1:]]


def _use_notes(fitted: Fitted) -> dict[str, Any]:
    """Return what a subject says of the rows that the model file kept something of."""
    notes = fitted.notes
    rows: dict[str, Any] = {"X": None}
    sample, inputs, held_out = notes.get("sample"), notes.get("inputs"), notes.get("held_out")
    if sample is not None:
        rows["X"], rows["rows_are"] = np.asarray(sample["inputs"]), sample["described"]
    if inputs is not None:
        unknown = [np.nan] * 11
        deciles = np.array([entry["deciles"] or unknown for entry in inputs])
        rows["ranges"] = deciles[:, [0, 5, 10]]
    if held_out is not None:
        rows["actual"] = np.asarray(held_out["actual"])
        rows["predicted"] = np.asarray(held_out["predicted"])
        rows["metrics"] = {name: held_out["metrics"][name] for name in fitted.task.measures}
    return {
        **rows,
        "ranges_are": "all rows of the fit",
        "measured_on": "held-out rows",
        "measured_how": "They are a part of the table that was kept from the fit.",
    }


def _list_facts(fitted: Fitted) -> list[tuple[str, str]]:
    """Return what was fitted on what; a model saved in Python knows nothing of its data."""
    data = fitted.notes.get("data")
    facts = [] if data is None else _describe_data(data)
    n_members = len(fitted.model.alpha_)
    trend = " and a linear trend" if len(fitted.model.members_) > n_members else ""
    return [*facts, ("members", f"{n_members}{trend}")]


def _describe_data(data: Any) -> list[tuple[str, str]]:
    return [
        ("table", str(data["file"])),
        ("rows fitted on", f"{data['rows_fitted']:,} of {data['rows']:,}"),
        ("date", str(data["date"])),
        ("training time", f"{data['seconds']:.1f} s"),
    ]
