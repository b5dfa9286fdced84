"""A model with what the command line keeps beside it: data, columns, held-out errors."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic import __version__
from polyadic.cli.columns import describe_columns
from polyadic.cli.errors import Mistake, warn
from polyadic.cli.measures import Fingerprint, Outside, count_rows
from polyadic.cli.notes import check_learned, check_notes, read_expected
from polyadic.cli.survey import Chosen
from polyadic.cli.tables import Expected, Table
from polyadic.cli.targets import REGRESSION
from polyadic.cli.tasks import Task, new_model, task_of
from polyadic.estimators._sources import file_rows_to_predict
from polyadic.estimators._tables import schema_of
from polyadic.estimators.saving import load_with_notes, save
from polyadic.rows.holdout import row_hash
from polyadic.rows.inputs import Inputs
from polyadic.sources.files.row_source import Batch, RowSource
from polyadic.sources.schema import TableWarning

SAMPLE_ROWS = 1000
"""Rows of the fit that a model file keeps for its report."""

_DECILES = np.linspace(0, 1, 11)
_DECILE_ROWS = 50_000
# A part of a handful of rows measures nothing.
_LEAST_ROWS_TO_SPLIT = 10


@dataclass(frozen=True)
class Fitted:
    """A fitted estimator and its notes."""

    model: Any
    expected: Expected
    notes: dict[str, Any]
    interrupted: bool = False

    def source(self, table: Table, by_name: bool = False, target: str | None = None) -> RowSource:
        """Return the rows of a table that is like the one of the fit, with a target or without."""
        self.expected.check(table, by_name, target)
        missing = "keep" if target is None else "drop"
        source = table.source(self.expected.names, target, missing, schema_of(self.model))
        for remark in source.remarks:
            warn(remark)
        return source

    @property
    def inputs(self) -> Inputs:
        """The inputs that the columns become."""
        return schema_of(self.model).inputs

    @property
    def task(self) -> Task:
        """What the model predicts."""
        return task_of(self.model)

    def predict_batches(
        self, source: RowSource, *, plainly: bool = False
    ) -> Iterator[tuple[Batch, NDArray[np.float64]]]:
        """Yield batches and their predictions; at the end, warn of rows outside the range.

        Predictions are a column of numbers, and unless they are wanted `plainly` the scales of
        their errors if these are known; or a column of probabilities for each class.
        """
        self.check_single_target()
        outside = Outside(self.notes.get("inputs"))
        batches = self.model.predict_batches if plainly else partial(self.task.batches, self.model)
        for batch, predicted in batches(source):
            outside.add(batch.X)
            yield batch, predicted
        warn(outside.warning)

    def check_single_target(self) -> None:
        """Raise a mistake where the command line has no room for what the model predicts."""
        if self.task.name == REGRESSION and not self.model.single_target_:
            raise Mistake(
                "This model has several targets, and the command line has room for one. Use it "
                "in Python: polyadic.load(path).predict(X)."
            )

    def evaluate(self, source: RowSource) -> dict[str, Any]:
        """Return the errors on the rows of a source; warn if the model was fitted to them."""
        comparison, fingerprint = self.task.comparison(), Fingerprint()
        for batch, predicted in self.predict_batches(source):
            assert batch.y is not None
            comparison.add(batch.y[:, 0], predicted)
            fingerprint.add(batch.X, batch.y)
        if not comparison.rows:
            raise Mistake(f"{source.files[0]} has no rows to measure on.")
        warn(self.warn_of_known(fingerprint))
        warn(comparison.warning)
        if source.n_dropped:
            warn(f"{count_rows(source.n_dropped)} without a target left out.")
        return comparison.metrics

    def warn_of_known(self, rows: Fingerprint) -> str | None:
        """Return a warning where the model was fitted to these very rows, or to most of them."""
        data = self.notes.get("data") or {}
        if str(rows) not in data.get("fingerprints", []):
            return None
        return (
            f"these are the rows of {data['file']} that the model was fitted to, so the errors "
            "on new rows will be larger. Evaluate it on rows it has not seen."
        )

    def save(self, path: str) -> None:
        """Write the model file."""
        save(self.model, path, notes=self.notes)

    def facts(self) -> dict[str, Any]:
        """Return what a script may want to know, as JSON."""
        kept = self.notes.get("held_out") or {}
        return {
            "estimator": type(self.model).__name__,
            "task": self.task.name,
            "version": self.notes.get("version"),
            "data": self.notes.get("data"),
            "target": self.expected.target,
            **self.task.facts(),
            "columns": self._columns(),
            "inputs": self._inputs(),
            "held_out": kept.get("metrics"),
            "feature_weights": feature_weights(self.model),
            "rank": _ranks(self.model),
            "trials": len(getattr(self.model, "selection_", {}).get("stage", [])),
            "epochs": int(self.model.n_iter_),
            "loss": float(self.model.loss_curve_[-1]),
            "parameters": parameters(self.model),
        }

    def _columns(self) -> list[dict[str, str]] | None:
        """Return what was done with each column; None where all that is known is numbers."""
        schema, note = schema_of(self.model), self.notes.get("table")
        if note is not None:
            return list(note["columns"])
        return None if schema.is_numeric else describe_columns(schema, 0, [], {}, {}, [])

    def _inputs(self) -> list[dict[str, Any]]:
        """Return what is known of each input: its deciles, and what the fit learned about it."""
        inputs = self.notes.get("inputs") or [{"name": name} for name in self.inputs.names]
        learned = getattr(self.model, "inputs_", None)
        if learned is None:
            return list(inputs)
        # A summary may have another name for an input that has none.
        return [{**dict(one), **entry} for one, entry in zip(learned, inputs, strict=True)]


def fit_model(
    chosen: Chosen, task: str, holdout: float, parameters: dict[str, Any], sample: bool = True
) -> Fitted:
    """Fit on most of the rows, told by their hash, and measure on the rest.

    Parameters
    ----------
    chosen : Chosen
        The columns of a table, and their rows.
    task : str
        What the target is: "regression" or "classification".
    holdout : float
        Fraction of the rows to measure on.
    parameters : dict
        Parameters of the estimator.
    sample : bool
        Whether the notes keep rows of the fit.
    """
    model = new_model(task, parameters, chosen.values, chosen.target)
    kept, held = chosen.source, None
    if holdout > 0 and chosen.n_rows >= _LEAST_ROWS_TO_SPLIT:
        kept, held = chosen.source.split(holdout)
    interrupted = False
    began = time.perf_counter()
    try:
        model.fit(kept)
    except KeyboardInterrupt:
        if not model.__sklearn_is_fitted__():
            raise
        interrupted = True
    seconds = time.perf_counter() - began
    schema = schema_of(model)
    rows = _Rows.of(file_rows_to_predict(model, kept))
    notes = _notes(chosen, rows, schema.inputs, seconds, sample)
    data = notes["data"]
    comparison, whole = task_of(model).comparison(), rows.fingerprint
    if held is not None:
        with warnings.catch_warnings():
            # Levels of rows that were held out are news to the fit, and none to the user.
            warnings.simplefilter("ignore", TableWarning)
            for batch, predicted in task_of(model).batches(model, held):
                assert batch.y is not None
                comparison.add(batch.y[:, 0], predicted)
                whole.add(batch.X, batch.y)
    data["fingerprints"].append(str(whole))
    data["rows"], data["rows_held_out"] = chosen.n_rows, comparison.rows
    data["holdout"] = 0.0 if held is None else holdout
    data["rows_dropped"] = chosen.n_rows - rows.n_rows - comparison.rows
    lines = describe_columns(
        schema, rows.n_rows, notes["inputs"], chosen.notes, chosen.left_out, chosen.table.names
    )
    expected = Expected(
        [column.name for column in schema.columns],
        chosen.target,
        tuple(chosen.left_out),
        chosen.table.dates,
        chosen.table.strays,
        chosen.table.files[0].decimal,
    )
    notes["table"] = {
        "target": expected.target,
        "ignored": list(expected.ignored),
        "dates": dict(expected.dates),
        "strays": dict(expected.strays),
        "decimal": expected.decimal,
        "columns": lines,
    }
    if comparison.rows:
        notes["held_out"] = comparison.notes()
    return Fitted(model, expected, notes, interrupted)


@dataclass(frozen=True)
class _Rows:
    """What one pass over the rows of a fit tells of them."""

    n_rows: int
    deciles: NDArray[np.float64]
    sample: NDArray[np.float64]
    fingerprint: Fingerprint

    @classmethod
    def of(cls, source: RowSource) -> _Rows:
        """Read the rows; the sample is those with the least hashes."""
        count, stride = 0, 1
        some, sample = list[NDArray[Any]](), np.empty((0, len(source.inputs)))
        hashes, fingerprint = np.empty(0, dtype=np.int64), Fingerprint()
        with closing(source.batches()) as batches:
            for batch in batches:
                assert batch.y is not None
                count += len(batch)
                fingerprint.add(batch.X, batch.y)
                found = row_hash([batch.X, batch.y], 1)
                hashes = np.concatenate([hashes, found])
                order = np.argsort(hashes, kind="stable")[:SAMPLE_ROWS]
                sample = np.concatenate([sample, batch.X])[order]
                hashes = hashes[order]
                some.append(batch.X[::stride].copy())
                if sum(map(len, some)) > 2 * _DECILE_ROWS:
                    some, stride = [np.concatenate(some)[::2]], 2 * stride
        return cls(count, _deciles(np.concatenate(some)), sample, fingerprint)


def _deciles(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the deciles of each input beside its gaps; NaN where there is nothing else."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice")
        return np.asarray(np.nanquantile(X, _DECILES, axis=0).T)


def _notes(
    chosen: Chosen, rows: _Rows, inputs: Inputs, seconds: float, sample: bool
) -> dict[str, Any]:
    """Return what is noted of a fit."""
    notes: dict[str, Any] = {
        "version": __version__,
        "data": {
            "file": chosen.table.path.name,
            "rows": rows.n_rows,
            "rows_fitted": rows.n_rows,
            "fingerprints": [str(rows.fingerprint)],
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "seconds": round(seconds, 3),
        },
        "inputs": [
            {"name": name, "deciles": None if levels or np.isnan(found[0]) else found.tolist()}
            for name, levels, found in zip(inputs.names, inputs.n_levels, rows.deciles, strict=True)
        ],
        "held_out": None,
    }
    if sample:
        count, total = len(rows.sample), rows.n_rows
        described = f"a sample of {count} of the {total} rows of the fit"
        notes["sample"] = {
            "inputs": rows.sample,
            "described": described if count < total else f"the {total} rows of the fit",
        }
    return notes


def open_model(path: str) -> Fitted:
    """Read a model file; one that was saved in Python has no notes of a table."""
    model, notes = load_with_notes(path)
    schema = schema_of(model)
    expected = read_expected(path, notes, [column.name for column in schema.columns])
    n_inputs = len(schema.inputs)
    check_notes(path, notes, n_inputs, task_of(model).n_classes)
    check_learned(path, getattr(model, "inputs_", None), n_inputs)
    return Fitted(model, expected, notes)


def feature_weights(model: Any) -> list[dict[str, Any]]:
    """Return the feature maps with their weights λ, largest first."""
    pairs = zip(model.feature_maps_, model.feature_weights_, strict=True)
    found = [{"feature_map": str(m), "weight": float(w)} for m, w in pairs]
    return sorted(found, key=lambda entry: -abs(entry["weight"]))


def _ranks(model: Any) -> list[int]:
    """Return the rank of each member; the linear trend of an old file is none."""
    members = model.members_[: len(model.alpha_)]
    return [int(member.model.cores[0][0].shape[1]) for member in members]


def parameters(model: Any) -> dict[str, Any]:
    """Return the estimator's parameters in a form that JSON has."""
    plain = (bool, int, float, str, type(None))
    values = model.get_params(deep=False)
    return {name: v if isinstance(v, plain) else str(v) for name, v in values.items()}
