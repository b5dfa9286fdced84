"""A model with what the command line keeps beside it: data, preparation, held-out errors."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic import FeatureLearningRegressor, __version__
from polyadic.cli.errors import Mistake
from polyadic.cli.prepare import Preparation
from polyadic.estimators.saving import load_with_notes, save

MAX_KEPT = 2000
"""Held-out pairs that a model file keeps for its report."""

_DECILES = np.linspace(0, 1, 11)


@dataclass(frozen=True)
class Fitted:
    """A fitted estimator and its notes."""

    model: Any
    preparation: Preparation
    notes: dict[str, Any]

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predict prepared inputs."""
        with warnings.catch_warnings():
            # The names were checked when the table became numbers.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            self.check_single_target()
            return np.asarray(self.model.predict(X))

    def check_single_target(self) -> None:
        """Raise a mistake where the command line has no room for what the model predicts."""
        if len(self.model.target_scaling_.mean) != 1 or not self.model._single_target:
            raise Mistake(
                "This model has several targets, and the command line has room for one. Use it "
                "in Python: polyadic.load(path).predict(X)."
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
            "inputs": self.notes.get("inputs") or [{"name": n} for n in self.preparation.names],
            "preparation": self.preparation.messages,
            "held_out": kept.get("metrics"),
            "feature_weights": feature_weights(self.model),
            "epochs": int(self.model.n_iter_),
            "loss": float(self.model.loss_curve_[-1]),
            "parameters": parameters(self.model),
        }


def check_folder(out: str) -> None:
    """Raise a mistake before any work if a file cannot be written."""
    path = Path(out)
    if path.is_dir():
        raise Mistake(f"--out {out} is a folder. Name a file in it.")
    if not path.parent.is_dir():
        raise Mistake(
            f"--out {out} is in a folder that does not exist. Create {path.parent} first."
        )


def fit_model(
    path: str,
    preparation: Preparation,
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    holdout: float,
    parameters: dict[str, Any],
) -> Fitted:
    """Fit on a random part of the rows and measure on the rest."""
    model = FeatureLearningRegressor(**{"random_state": 0, **parameters})
    out = np.zeros(len(X), dtype=bool)
    # A random part of a handful of rows measures nothing.
    if holdout > 0 and len(X) >= 10:
        count = max(1, round(holdout * len(X)))
        out[np.random.RandomState(0).permutation(len(X))[:count]] = True
    began = time.perf_counter()
    model.fit(X[~out], y[~out])
    seconds = time.perf_counter() - began
    model.feature_names_in_ = np.array(preparation.names, dtype=object)
    notes = notes_of(path, preparation.names, X[~out], int((~out).sum()), seconds)
    fitted = Fitted(model, preparation, notes)
    if out.any():
        notes["held_out"] = compared(y[out], fitted.predict(X[out]))
        notes["data"]["rows"] += int(out.sum())
    return fitted


def notes_of(
    path: str, names: Sequence[str], X: NDArray[np.float64], n_rows: int, seconds: float
) -> dict[str, Any]:
    """Return what is noted of a fit on `n_rows` rows, of which `X` are some or all."""
    return {
        "version": __version__,
        "data": {
            "file": Path(path).name,
            "rows": n_rows,
            "rows_fitted": n_rows,
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "seconds": round(seconds, 3),
        },
        "inputs": _inputs(names, X),
        "held_out": None,
    }


def open_model(path: str) -> Fitted:
    """Read a model file; one that was saved in Python has no notes of a table."""
    model, notes = load_with_notes(path)
    if "preparation" in notes:
        try:
            return Fitted(model, Preparation.from_dict(notes["preparation"]), notes)
        except (KeyError, TypeError) as error:
            raise Mistake(f"{path} says nothing sensible of its columns: {error!r}.") from error
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{index}" for index in range(model.n_features_in_)]
    return Fitted(model, Preparation.of_numbers([str(name) for name in names]), notes)


def compared(y: NDArray[np.float64], predicted: NDArray[np.float64]) -> dict[str, Any]:
    """Return the errors of predictions, and a part of the pairs for pictures."""
    kept = np.random.RandomState(0).permutation(len(y))[:MAX_KEPT]
    return {"metrics": measure(y, predicted), "actual": y[kept], "predicted": predicted[kept]}


def measure(y: NDArray[np.float64], predicted: NDArray[np.float64]) -> dict[str, Any]:
    """Return errors in the target's units, and R² where the target varies."""
    residual = predicted - y
    mse = float(np.mean(residual**2))
    spread = float(np.var(y))
    return {
        "rows": len(y),
        "mse": mse,
        "rmse": mse**0.5,
        "mae": float(np.mean(np.abs(residual))),
        "r2": 1 - mse / spread if spread > 0 else None,
    }


def feature_weights(model: Any) -> list[dict[str, Any]]:
    """Return the feature maps with their weights λ, largest first."""
    pairs = zip(model.feature_maps_, model.feature_weights_, strict=True)
    found = [{"feature_map": str(m), "weight": float(w)} for m, w in pairs]
    return sorted(found, key=lambda entry: -abs(entry["weight"]))


def parameters(model: Any) -> dict[str, Any]:
    """Return the estimator's parameters in a form that JSON has."""
    plain = (bool, int, float, str, type(None))
    values = model.get_params(deep=False)
    return {name: v if isinstance(v, plain) else str(v) for name, v in values.items()}


def _inputs(names: Sequence[str], X: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return the deciles of each input: what a report needs to know of rows it has not."""
    deciles = np.quantile(X, _DECILES, axis=0).T
    return [{"name": n, "deciles": d.tolist()} for n, d in zip(names, deciles, strict=True)]
