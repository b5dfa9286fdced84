"""A model with what the command line keeps beside it: data, preparation, held-out errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic import FeatureLearningRegressor, __version__
from polyadic.cli.errors import Mistake, warn
from polyadic.cli.measures import Comparison, Fingerprint, Outside
from polyadic.cli.notes import check_learned, check_notes, read_preparation
from polyadic.cli.prepare import Preparation
from polyadic.cli.tables import Table
from polyadic.estimators.saving import load_with_notes, save
from polyadic.rows.holdout import row_hash
from polyadic.sources.files.row_source import RowSource

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
    preparation: Preparation
    notes: dict[str, Any]
    interrupted: bool = False

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predict prepared inputs."""
        import warnings

        with warnings.catch_warnings():
            # The names were checked when the table became numbers.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            self.check_single_target()
            return np.asarray(self.model.predict(X))

    def predict_batches(self, source: RowSource) -> Iterator[tuple[Any, NDArray[np.float64]]]:
        """Yield batches and their predictions; at the end, warn of rows outside the range."""
        self.check_single_target()
        outside = Outside(self.notes.get("inputs"))
        for batch, predicted in self.model.predict_batches(source):
            outside.add(batch.X)
            yield batch, predicted[:, 0]
        warn(outside.warning)

    def check_single_target(self) -> None:
        """Raise a mistake where the command line has no room for what the model predicts."""
        if not self.model.single_target_:
            raise Mistake(
                "This model has several targets, and the command line has room for one. Use it "
                "in Python: polyadic.load(path).predict(X)."
            )

    def evaluate(self, source: RowSource) -> dict[str, Any]:
        """Return the errors on the rows of a source; warn if the model was fitted to them."""
        comparison, fingerprint = Comparison(), Fingerprint()
        for batch, predicted in self.predict_batches(source):
            comparison.add(batch.y[:, 0], predicted)
            fingerprint.add(batch.X, batch.y)
        if not comparison.rows:
            raise Mistake(f"{source.files[0]} has no rows to measure on.")
        warn(self.warn_of_known(fingerprint))
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
        save(self.model, path, notes={**self.notes, "preparation": self.preparation.as_dict()})

    def facts(self) -> dict[str, Any]:
        """Return what a script may want to know, as JSON."""
        kept = self.notes.get("held_out") or {}
        return {
            "estimator": type(self.model).__name__,
            "version": self.notes.get("version"),
            "data": self.notes.get("data"),
            "target": self.preparation.target,
            "inputs": self._inputs(),
            "preparation": self.preparation.messages,
            "held_out": kept.get("metrics"),
            "feature_weights": feature_weights(self.model),
            "rank": _ranks(self.model),
            "trials": len(getattr(self.model, "selection_", {}).get("stage", [])),
            "epochs": int(self.model.n_iter_),
            "loss": float(self.model.loss_curve_[-1]),
            "parameters": parameters(self.model),
        }

    def _inputs(self) -> list[dict[str, Any]]:
        """Return what is known of each input: its deciles, and what the fit learned about it."""
        inputs = self.notes.get("inputs") or [{"name": n} for n in self.preparation.names]
        learned = getattr(self.model, "inputs_", None)
        if learned is None:
            return list(inputs)
        # A summary may have another name for an input that has none.
        return [{**dict(one), **entry} for one, entry in zip(learned, inputs, strict=True)]


def fit_model(
    table: Table,
    n_rows: int,
    preparation: Preparation,
    source: RowSource,
    holdout: float,
    parameters: dict[str, Any],
    sample: bool = True,
) -> Fitted:
    """Fit on most of the rows, told by their hash, and measure on the rest.

    Parameters
    ----------
    table : Table
        Where the rows are from.
    n_rows : int
        Number of rows of the table, with those that are left out for their gaps.
    preparation : Preparation
        How columns became inputs.
    source : RowSource
        The rows.
    holdout : float
        Fraction of the rows to measure on.
    parameters : dict
        Parameters of the estimator.
    sample : bool
        Whether the notes keep rows of the fit.
    """
    kept, held = source, None
    if holdout > 0 and n_rows >= _LEAST_ROWS_TO_SPLIT:
        kept, held = source.split(holdout)
    model = FeatureLearningRegressor(**{"random_state": 0, **parameters})
    interrupted = False
    began = time.perf_counter()
    try:
        model.fit(kept)
    except KeyboardInterrupt:
        if not model.__sklearn_is_fitted__():
            raise
        interrupted = True
    seconds = time.perf_counter() - began
    rows = _Rows.of(kept)
    notes = _notes(table, rows, source.names, seconds, sample)
    fitted = Fitted(model, preparation, notes, interrupted)
    data = notes["data"]
    comparison, whole = Comparison(), rows.fingerprint
    if held is not None:
        for batch, predicted in model.predict_batches(held):
            assert batch.y is not None
            comparison.add(batch.y[:, 0], predicted[:, 0])
            whole.add(batch.X, batch.y)
    data["fingerprints"].append(str(whole))
    data["rows"], data["rows_held_out"] = n_rows, comparison.rows
    data["rows_dropped"] = n_rows - rows.n_rows - comparison.rows
    if data["rows_dropped"]:
        preparation.messages.append(f"{data['rows_dropped']} rows with missing values left out")
    if comparison.rows:
        notes["held_out"] = comparison.notes()
    return fitted


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
        some, sample = list[NDArray[Any]](), np.empty((0, len(source.names)))
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
        deciles = np.quantile(np.concatenate(some), _DECILES, axis=0).T
        return cls(count, deciles, sample, fingerprint)


def _notes(
    table: Table, rows: _Rows, names: list[str], seconds: float, sample: bool
) -> dict[str, Any]:
    """Return what is noted of a fit."""
    notes: dict[str, Any] = {
        "version": __version__,
        "data": {
            "file": table.path.name,
            "rows": rows.n_rows,
            "rows_fitted": rows.n_rows,
            "fingerprints": [str(rows.fingerprint)],
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "seconds": round(seconds, 3),
        },
        "inputs": [
            {"name": name, "deciles": deciles.tolist()}
            for name, deciles in zip(names, rows.deciles, strict=True)
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
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{index}" for index in range(model.n_features_in_)]
    preparation = read_preparation(path, notes, [str(name) for name in names])
    check_notes(path, notes, model.n_features_in_)
    check_learned(path, getattr(model, "inputs_", None), model.n_features_in_)
    return Fitted(model, preparation, notes)


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
