"""Values in a model file: what JSON cannot say, as JSON with a tag.

Plain values stand for themselves.  All else is an object with one key that starts with "$":

    {"$array": "a3"}                        an array, by its name among the tensors
    {"$complex": "a3"}                      the same, real and imaginary parts interleaved
    {"$text": ["x1", "x2"]}                 an array of strings
    {"$tuple": [...]}, {"$dict": [[k, v]]}  containers that JSON lacks
    {"$record": "Model", "fields": {...}}   one of polyadic's dataclasses
    {"$map": "FourierFeatures", "parameters": {...}}
    {"$random": [...]}                      the state of a NumPy RandomState
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic import features
from polyadic.features import FeatureMap, Plain, Quantized, Table, Tabled, TensorLayout, Unused
from polyadic.members import InputSummary, Member, Reach
from polyadic.model.als import Epoch, Fit, Model, Record, Sweep
from polyadic.model.error_distribution import ErrorDistribution
from polyadic.model.posterior import CorePosterior
from polyadic.rows.filling import Bumps, Filling
from polyadic.rows.scaling import InputScaling, TargetScaling
from polyadic.search.trials import Trial
from polyadic.sources.schema import Column, Schema
from polyadic.uncertainty import LearnedScale, PosteriorScale, Uncertainty

# All that files hold, under the names that version 1 gave them.
RECORDS: dict[str, type] = {
    "Bumps": Bumps,
    "Column": Column,
    "CorePosterior": CorePosterior,
    "Epoch": Epoch,
    "ErrorDistribution": ErrorDistribution,
    "Filling": Filling,
    "Fit": Fit,
    "InputScaling": InputScaling,
    "InputSummary": InputSummary,
    "LearnedScale": LearnedScale,
    "Member": Member,
    "Model": Model,
    "Record": Record,
    "Sweep": Sweep,
    "Plain": Plain,
    "PosteriorScale": PosteriorScale,
    "Quantized": Quantized,
    "Reach": Reach,
    "Schema": Schema,
    "Table": Table,
    "Tabled": Tabled,
    "TargetScaling": TargetScaling,
    "TensorLayout": TensorLayout,
    "Trial": Trial,
    "Uncertainty": Uncertainty,
    "Unused": Unused,
}
_NAMES = {record: name for name, record in RECORDS.items()}
# Fields that files of version 1 know under another name.
_NAMES_IN_FILES = {"Model": {"map_weights": "weights"}}
# Fields that they do not know; a file has them where they say something.
_YOUNGER: dict[str, dict[str, Any]] = {
    "CorePosterior": {"curve": None},  # made again when it is asked for
    "InputScaling": {"filling": None, "flagged": (), "ends": (), "directions": None},
    "PosteriorScale": {"span": (0.0, 1.0)},
    "Table": {"has_filled": False},
}


class ModelFileError(ValueError):
    """A model cannot be written to a file, or a file cannot be read as a model."""


def _fields_of(record: Any) -> dict[str, Any]:
    """Return what a record is made of, by the names that files have for it."""
    if isinstance(record, TensorLayout):
        return record.to_fields()
    kind = _NAMES[type(record)]
    names, younger = _NAMES_IN_FILES.get(kind, {}), _YOUNGER.get(kind, {})
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    silent = {
        name
        for name, value in younger.items()
        if type(values[name]) is type(value) and values[name] == value
    }
    return {names.get(n, n): value for n, value in values.items() if n not in silent}


def _record_of(name: str, fields: dict[str, Any]) -> Any:
    """Return the record that a file describes."""
    if name not in RECORDS:
        raise ModelFileError(f"it holds a record {name!r} that is not known. Upgrade polyadic.")
    if name == "TensorLayout":
        return TensorLayout.from_fields(fields)
    if name == "Filling" and "bumps" not in fields:
        # That of scaled numbers; now it is of numbers in their own units.
        raise ModelFileError(
            "it fills in gaps in a way that was given up before the first release. Fit it again."
        )
    names = {old: new for new, old in _NAMES_IN_FILES.get(name, {}).items()}
    return RECORDS[name](**{names.get(key, key): value for key, value in fields.items()})


def _built_in_maps() -> dict[str, type[FeatureMap]]:
    """Return polyadic's own feature maps by name."""
    values = [getattr(features, name) for name in features.__all__]
    return {v.__name__: v for v in values if isinstance(v, type) and issubclass(v, FeatureMap)}


class Encoder:
    """Turns values into JSON and puts their arrays aside, each once."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []  # an id stands for an object only as long as that lives

    def encode(self, value: Any, name: str) -> Any:
        """Return `value` as JSON; `name` is what an error calls it."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list | tuple):
            items = [self.encode(item, name) for item in value]
            return items if isinstance(value, list) else {"$tuple": items}
        if isinstance(value, dict):
            return {
                "$dict": [
                    [self.encode(key, name), self.encode(item, f"{name}[{key!r}]")]
                    for key, item in value.items()
                ]
            }
        if isinstance(value, np.ndarray):
            return self._array(value, name)
        return self._object(value, name)

    def _array(self, value: NDArray[Any], name: str) -> dict[str, Any]:
        if value.dtype.kind in "OU":
            if not all(isinstance(item, str) for item in value.ravel()) or value.ndim != 1:
                raise ModelFileError(f"`{name}` is an array of objects, which has no safe form.")
            return {"$text": value.tolist(), "fixed": value.dtype.kind == "U"}
        if id(value) not in self._names:
            self._kept.append(value)
            self._names[id(value)] = f"a{len(self._names)}"
            plain = np.ascontiguousarray(value).reshape(value.shape)
            is_complex = plain.dtype.kind == "c"
            self.arrays[self._names[id(value)]] = _interleave(plain) if is_complex else plain
        tag = "$complex" if value.dtype.kind == "c" else "$array"
        return {tag: self._names[id(value)]}

    def _object(self, value: Any, name: str) -> dict[str, Any]:
        if isinstance(value, FeatureMap):
            parameters = value.get_params(deep=False)
            encoded = {key: self.encode(item, name) for key, item in parameters.items()}
            return {"$map": type(value).__name__, "parameters": encoded}
        if type(value) in _NAMES:
            encoded = {key: self.encode(item, name) for key, item in _fields_of(value).items()}
            return {"$record": _NAMES[type(value)], "fields": encoded}
        if isinstance(value, np.random.RandomState):
            return {"$random": self.encode(list(value.get_state(legacy=True)), name)}
        raise ModelFileError(
            f"`{name}={value!r}` cannot be written to a model file: {type(value).__qualname__} is "
            "neither data nor a class of polyadic."
        )


class Decoder:
    """Turns the JSON of an :class:`Encoder` back into values."""

    def __init__(
        self, arrays: dict[str, NDArray[Any]], feature_maps: Iterable[type[FeatureMap]] = ()
    ) -> None:
        # Copies, because the arrays of a file are read-only views of its bytes.
        self._arrays = {name: array.copy() for name, array in arrays.items()}
        self._complex: dict[str, NDArray[Any]] = {}
        self._maps = _built_in_maps() | {cls.__name__: cls for cls in feature_maps}

    def decode(self, value: Any) -> Any:
        """Return what a piece of JSON stands for."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        tag = next(iter(value), "")
        readers = {
            "$array": self._array,
            "$complex": self._complex_array,
            "$text": self._text,
            "$tuple": lambda value: tuple(self.decode(value["$tuple"])),
            "$dict": lambda value: {self.decode(k): self.decode(v) for k, v in value["$dict"]},
            "$record": self._record,
            "$map": self._map,
            "$random": self._random,
        }
        if tag not in readers:
            raise ModelFileError(f"it holds a value of unknown kind {tag!r}. Upgrade polyadic.")
        return readers[tag](value)

    def _array(self, value: dict[str, Any]) -> NDArray[Any]:
        return self._arrays[value["$array"]]

    def _complex_array(self, value: dict[str, Any]) -> NDArray[Any]:
        name = value["$complex"]
        if name not in self._complex:
            parts = self._arrays[name]
            kind = np.complex64 if parts.dtype == np.float32 else np.complex128
            self._complex[name] = parts.view(kind)[..., 0]
        return self._complex[name]

    @staticmethod
    def _text(value: dict[str, Any]) -> NDArray[Any]:
        if not all(isinstance(item, str) for item in value["$text"]):
            raise ModelFileError("it holds text that is not text.")
        return np.array(value["$text"], dtype=np.str_ if value["fixed"] else object)

    def _record(self, value: dict[str, Any]) -> Any:
        fields = {key: self.decode(item) for key, item in value["fields"].items()}
        return _record_of(value["$record"], fields)

    def _map(self, value: dict[str, Any]) -> FeatureMap:
        name = value["$map"]
        if name not in self._maps:
            raise ModelFileError(
                f"the model uses a feature map {name!r} that polyadic does not have. Pass its "
                f"class: polyadic.load(path, feature_maps=[{name}])."
            )
        parameters = {key: self.decode(item) for key, item in value["parameters"].items()}
        feature_map = self._maps[name](**parameters)
        feature_map.validate()
        return feature_map

    def _random(self, value: dict[str, Any]) -> np.random.RandomState:
        state = np.random.RandomState(0)
        state.set_state(tuple(self.decode(value["$random"])))
        return state


def _interleave(value: NDArray[Any]) -> NDArray[Any]:
    part = np.float32 if value.dtype == np.complex64 else np.float64
    return value[..., None].view(part)
