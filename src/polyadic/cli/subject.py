"""What a report is told about a model: rows, errors, and where they come from."""

from __future__ import annotations

import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.cli.errors import Mistake
from polyadic.cli.measures import Fingerprint
from polyadic.cli.tables import Table
from polyadic.cli.training import Fitted
from polyadic.estimators._sources import file_rows_to_predict
from polyadic.members import mean_predicts, names_beside
from polyadic.report import Subject
from polyadic.rows.holdout import row_hash
from polyadic.sources.files.row_source import RowSource
from polyadic.sources.schema import TableWarning

_MOST_FIT_ROWS = 20_000  # that other models learn from


def subject_of(
    fitted: Fitted,
    path: str,
    table: Table | None,
    train: Table | None,
    target: str | None,
    by_name: bool,
) -> Subject:
    """Return what a report is about.

    Parameters
    ----------
    fitted : Fitted
        The model.
    path : str
        Its file.
    table : Table or None
        Rows to measure everything on; without them, those that were held out of `train`, or what
        the model file kept of its own.
    train : Table or None
        The table of the fit, for models that learn from the same rows.
    target : str or None
        Column to compare with.
    by_name : bool
        Whether columns are picked by name.
    """
    fitted.check_single_target()
    rows = {}
    if train is not None:
        rows = _use_train(fitted, train, target, by_name, measured=table is None)
    elif table is None:
        rows = _use_notes(fitted)
    if table is not None:
        rows |= _use_table(fitted, table, target, by_name)
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
    rows = _read(fitted, fitted.source(table, by_name, target))
    if not rows:
        raise Mistake(f"{table.path} has no rows to measure on.")
    name = table.path.name
    return {
        **rows,
        "measured_on": f"rows of {name}",
        "rows_are": f"the rows of {name}",
        "cautions": _caution(fitted, rows["X"], rows["y"]),
    }


def _read(fitted: Fitted, source: RowSource) -> dict[str, Any]:
    """Return the rows of a source and what is predicted for them; nothing where it has none."""
    found = list(fitted.predict_batches(source, plainly=True))
    if not found:
        return {}
    y = np.concatenate([np.asarray(batch.y)[:, 0] for batch, _ in found])
    return {
        "X": np.concatenate([batch.X for batch, _ in found]),
        "y": y,
        "actual": y,
        "predicted": fitted.task.shape(np.concatenate([predicted for _, predicted in found])),
    }


def _use_train(
    fitted: Fitted, table: Table, target: str | None, by_name: bool, *, measured: bool
) -> dict[str, Any]:
    """Return the rows of the fit, and where it is `measured` on them those that it held out."""
    source = fitted.source(table, by_name, fitted.expected.comparison_target(table, target))
    data = fitted.notes.get("data") or {}
    kept, held, known = source, None, data.get("fingerprints")
    if data.get("holdout"):
        kept, held = source.split(data["holdout"])
    fit_rows, fingerprint = _gather(file_rows_to_predict(fitted.model, kept))
    if known is not None and str(fingerprint) not in known:
        raise Mistake(
            f"--train must be the table that the model was fitted to, {data['file']}, got "
            f"{table.path}, whose rows are others. Leave it out to have other models learn from "
            "parts of DATA."
        )
    if not measured:
        return {"fit_rows": fit_rows}
    with warnings.catch_warnings():
        # Levels of rows that were held out are news to the fit, and none to the user.
        warnings.simplefilter("ignore", TableWarning)
        rows = {} if held is None else _read(fitted, held)
    if not rows:
        raise Mistake(
            f"As far as the model file says, the fit held out no rows of {table.path}, so that "
            "none are left to measure it on. Pass DATA, a table of rows that it has not seen."
        )
    return {
        **rows,
        "fit_rows": fit_rows,
        "measured_on": "held-out rows",
        "measured_how": f"They are the part of {table.path.name} that was kept from the fit, "
        "chosen by a hash of what a row says, so that copies of a row stay together.",
        "rows_are": "the held-out rows",
    }


def _gather(
    source: RowSource,
) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], Fingerprint]:
    """Return rows and targets, those of the least hashes where they are many, and a fingerprint."""
    rows, hashes = np.empty((0, len(source.inputs) + 1)), np.empty(0, dtype=np.int64)
    fingerprint = Fingerprint()
    with closing(source.batches()) as batches:
        for batch in batches:
            assert batch.y is not None
            fingerprint.add(batch.X, batch.y)
            hashes = np.concatenate([hashes, row_hash([batch.X, batch.y], 1)])
            order = np.argsort(hashes, kind="stable")[:_MOST_FIT_ROWS]
            rows = np.concatenate([rows, np.column_stack([batch.X, batch.y])])[order]
            hashes = hashes[order]
    return (rows[:, :-1], rows[:, -1]), fingerprint


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
    members, n_members = fitted.model.members_, len(fitted.model.alpha_)
    alone = [str(n_members)] if mean_predicts(members, n_members) else []
    told = [*alone, *names_beside(members, n_members)] or ["none, a constant"]
    return [*facts, ("members", " and ".join(told))]


def _describe_data(data: Any) -> list[tuple[str, str]]:
    return [
        ("table", str(data["file"])),
        ("rows fitted on", f"{data['rows_fitted']:,} of {data['rows']:,}"),
        ("date", str(data["date"])),
        ("training time", f"{data['seconds']:.1f} s"),
    ]
