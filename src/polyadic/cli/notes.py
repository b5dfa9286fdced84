"""What a model file notes of its fit, checked when the file is opened.

Nothing of a file is run, but a forged or damaged note must end in a sentence in every command,
not in a traceback in the one that happens to use it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.cli.columns import HEADS
from polyadic.cli.errors import Mistake
from polyadic.cli.tables import Expected

_N_DECILES = 11
_DATA = {"file": str, "rows": int, "rows_fitted": int, "date": str, "seconds": float}
# Files of the first versions do not have these.
_LATER_DATA = {"rows_held_out": int, "rows_dropped": int, "holdout": float}
_METRICS = {"rows": int, "mse": float, "rmse": float, "mae": float}
_SURE_METRICS = ("coverage_90", "log_score")
_CLASS_METRICS = {"rows": int, "accuracy": float}


def read_expected(path: str, notes: dict[str, Any], names: list[str]) -> Expected:
    """Return the table that a model takes, by what is noted of it and by the model's columns."""
    if notes.get("preparation") is not None:
        # Files of the first versions; what they did to numbers is what is done now.
        plain = [isinstance(c, dict) and _was_number(c) for c in notes["preparation"]["columns"]]
        if not all(plain):
            raise Mistake(
                f"{path} was fitted by an earlier version, which encoded text, dates or gaps in "
                "another way. Fit the model again."
            )
    note = notes.get("table") or notes.get("preparation") or {"target": None, "ignored": []}
    _check(path, "table", partial(_check_table, note))
    spelled = note.get("dates", {}), note.get("strays", {}), note.get("decimal", ".")
    return Expected(names, note["target"], tuple(note["ignored"]), *spelled)


def _was_number(column: dict[str, Any]) -> bool:
    return column.get("kind") in ("number", "flag") and column.get("fill") is None


def check_notes(path: str, notes: dict[str, Any], n_inputs: int, n_classes: int | None) -> None:
    """Raise a mistake that names the note that is not as `polyadic fit` writes it.

    Parameters
    ----------
    path : str
        The model file.
    notes : dict
        Its notes.
    n_inputs : int
        Inputs of the model.
    n_classes : int or None
        Its classes; None where it predicts a number.
    """
    checks: dict[str, Callable[[Any], None]] = {
        "version": lambda note: _check_types({"version": note}, {"version": str}),
        "data": _check_data,
        "inputs": lambda note: _check_inputs(note, n_inputs),
        "held_out": lambda note: _check_held_out(note, n_classes),
        "sample": lambda note: _check_sample(note, n_inputs),
    }
    for name, check in checks.items():
        note = notes.get(name)
        if note is not None:
            _check(path, name, partial(check, note))


def check_learned(path: str, learned: Any, n_inputs: int) -> None:
    """Raise a mistake unless a fit that learned its features says of each input what it found."""
    if learned is not None:
        _check(path, "inputs_", lambda: _check_summaries([dict(one) for one in learned], n_inputs))


def _check(path: str, name: str, check: Callable[[], None]) -> None:
    try:
        check()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise Mistake(
            f"{path} cannot be used: what it notes of {name!r} is not what polyadic writes "
            f"({type(error).__name__}: {error}). Fit the model again."
        ) from error


def _check_table(note: Any) -> None:
    _check_texts(list(note["ignored"]))
    if note["target"] is not None:
        _check_texts([note["target"]])
    _check_texts([text for pair in note.get("dates", {}).items() for text in pair])
    _check_texts([note.get("decimal", ".")])
    _check_texts([text for texts in note.get("strays", {}).values() for text in texts])
    for line in note.get("columns", []) if "messages" not in note else []:
        _check_texts([line[head] for head in HEADS])


def _check_data(note: Any) -> None:
    _check_types(note, _DATA)
    _check_types(note, {name: kind for name, kind in _LATER_DATA.items() if name in note})
    _check_texts(list(note.get("fingerprints", [])))
    if not 0 <= note.get("holdout", 0.0) < 1:
        raise ValueError(f"holdout is {note['holdout']!r}")


def _check_inputs(note: Any, n_inputs: int) -> None:
    _check_texts([entry["name"] for entry in note])
    if len(note) != n_inputs:
        raise ValueError(f"{len(note)} inputs, not {n_inputs}")
    known = [entry["deciles"] for entry in note if entry["deciles"] is not None]
    if known:
        _check_numbers(known, (len(known), _N_DECILES))


def _check_summaries(found: list[dict[str, Any]], n_inputs: int) -> None:
    used = [one for one in found if one["kind"] != "unused"]
    if len(found) != n_inputs:
        raise ValueError(f"{len(found)} inputs, not {n_inputs}")
    for one in found:
        _check_types(one, {"n_basis": int, "relevance": float})
    for one in used:
        # A linear trend may use an input that no kernel does.
        kernel, length_scale = one["kernel"], one["length_scale"]
        if (kernel is None) != (length_scale is None):
            raise ValueError(f"a kernel {kernel} with the length scale {length_scale}")
        _check_texts([one["name"]])
        if kernel is not None:
            _check_texts([kernel])
            _check_numbers([length_scale], (1,))
    _check_numbers([one["relevance"] for one in found], (n_inputs,))


def _check_held_out(note: Any, n_classes: int | None) -> None:
    actual = _check_numbers(note["actual"], (None,))
    if n_classes is not None:
        if not np.isin(actual, np.arange(n_classes)).all():
            raise ValueError("no places of classes")
        _check_numbers(note["predicted"], (len(actual), n_classes))
        _check_class_metrics(note["metrics"])
        return
    _check_numbers(note["predicted"], (len(actual),))
    _check_types(note["metrics"], _METRICS)
    _check_optional(note["metrics"], "r2")
    # Of files that know how sure predictions were.
    _check_optional(note["metrics"], *(name for name in _SURE_METRICS if name in note["metrics"]))


def _check_class_metrics(metrics: Any) -> None:
    _check_types(metrics, _CLASS_METRICS)
    _check_types(metrics["constant"], {"accuracy": float})
    _check_optional(metrics, "auc", "log_loss")
    _check_optional(metrics["constant"], "log_loss")


def _check_optional(metrics: Any, *names: str) -> None:
    """Raise unless what was measured is a number, or None where there was nothing to measure."""
    _check_types(metrics, {name: float for name in names if metrics[name] is not None})


def _check_sample(note: Any, n_inputs: int) -> None:
    _check_numbers(note["inputs"], (None, n_inputs), gaps=True)
    _check_texts([note["described"]])


def _check_types(note: Any, kinds: dict[str, type]) -> None:
    """Raise unless values are of these types; an int is a float, and a bool is neither."""
    for name, kind in kinds.items():
        value, allowed = note[name], (int, float) if kind is float else kind
        if not isinstance(value, allowed) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}")


def _check_texts(values: list[Any]) -> None:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is no text")


def _check_numbers(
    values: Any, shape: tuple[int | None, ...], *, gaps: bool = False
) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64)
    sizes = zip(numbers.shape, shape, strict=True)
    if not all(size == wanted or wanted is None for size, wanted in sizes):
        raise ValueError(f"an array of shape {numbers.shape}")
    sound = ~np.isinf(numbers) if gaps else np.isfinite(numbers)
    if not sound.all() or not np.isfinite(numbers).any():
        raise ValueError("no finite numbers")
    return numbers
