"""Model files: a fitted estimator in one file, without pickle.

    8 bytes         header length
    header          JSON: where each array lies, and the metadata
                      format   "polyadic"
                      version  of this layout
                      sha256   of the whole file, with 64 zeros in this place
                      model    JSON: class, parameters, fitted attributes, notes
    arrays          the bytes of the numbers, bit for bit

This is a safetensors file, so that any safetensors reader can look inside.  Loading builds
objects of polyadic's own classes and of those the caller names, and runs nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from polyadic.estimators import (
    FeatureLearningRegressor,
    KernelMachineRegressor,
    KernelMachineRegressorCV,
)
from polyadic.features import FeatureMap
from polyadic.files import replacing
from polyadic.model_values import Decoder, Encoder, ModelFileError

__all__ = ["ModelFileError", "load", "load_with_notes", "save"]

VERSION = 1
_NO_CHECKSUM = "0" * 64
_ESTIMATORS = {
    cls.__name__: cls
    for cls in (FeatureLearningRegressor, KernelMachineRegressor, KernelMachineRegressorCV)
}
# Fitted attributes are those whose names end with an underscore, and these.
_PRIVATE_ATTRIBUTES = ("_single_target",)


def save(model: Any, path: str | os.PathLike[str], *, notes: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to a file that :func:`load` reads back bit for bit.

    Parameters
    ----------
    model : FeatureLearningRegressor, KernelMachineRegressor or KernelMachineRegressorCV
        The fitted estimator.
    path : path
        The file.  It appears whole or not at all; one that is there is replaced.
    notes : dict, optional
        Anything to keep beside the model: strings, numbers, lists, dicts and arrays.

    Examples
    --------
    >>> import os, tempfile
    >>> import polyadic
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(60, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "friedman.polyadic")
    ...     polyadic.save(model, path)
    ...     again = polyadic.load(path)
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    from sklearn.utils.validation import check_is_fitted

    if type(model).__name__ not in _ESTIMATORS:
        raise TypeError(
            f"`model` must be one of {', '.join(_ESTIMATORS)}, got {type(model).__name__}. "
            "Save the polyadic step of a pipeline, or pickle the whole of it."
        )
    check_is_fitted(model)
    content = _packed(model, notes or {})
    with replacing(path) as file:
        file.write(content)


def load(path: str | os.PathLike[str], *, feature_maps: Iterable[type[FeatureMap]] = ()) -> Any:
    """Return the fitted estimator that :func:`save` wrote.

    Parameters
    ----------
    path : path
        The file.
    feature_maps : iterable of classes, optional
        Your own feature maps that the model may be made of; polyadic's are always known.

    Returns
    -------
    model : estimator
        Equal to the saved one in every parameter and every bit of its arrays.

    Raises
    ------
    ModelFileError
        If the file is damaged, changed, of another kind or of a newer version.
    """
    return load_with_notes(path, feature_maps=feature_maps)[0]


def load_with_notes(
    path: str | os.PathLike[str], *, feature_maps: Iterable[type[FeatureMap]] = ()
) -> tuple[Any, dict[str, Any]]:
    """Return the estimator of a file and the notes that were saved beside it."""
    content = Path(path).read_bytes()
    try:
        description, arrays = _unpacked(content)
        return _restored(description, Decoder(arrays, feature_maps))
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        # The checksum is right, so somebody wrote this on purpose, or with another polyadic.
        raise ModelFileError(
            f"{path}: the model in this file is inconsistent ({error!r})."
        ) from None


def _packed(model: Any, notes: dict[str, Any]) -> bytes:
    """Return the bytes of a model file."""
    from safetensors.numpy import save as pack

    encoder = Encoder()
    parameters = model.get_params(deep=False)
    description = {
        "class": type(model).__name__,
        "parameters": {name: encoder.encode(value, name) for name, value in parameters.items()},
        "fitted": {
            name: encoder.encode(value, name) for name, value in _fitted_attributes(model).items()
        },
        "notes": encoder.encode(notes, "notes"),
    }
    metadata = {
        "format": "polyadic",
        "version": str(VERSION),
        "sha256": _NO_CHECKSUM,
        "model": json.dumps(description, ensure_ascii=False),
    }
    content = _with_sorted_header(bytes(pack(encoder.arrays, metadata=metadata)))
    start = _checksum_place(content)
    checksum = hashlib.sha256(content).hexdigest().encode()
    return content[:start] + checksum + content[start + 64 :]


def _with_sorted_header(content: bytes) -> bytes:
    """Return the file with its header in a fixed order: equal models make equal files."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # the arrays begin at a multiple of 8
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def _fitted_attributes(model: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if _is_fitted_attribute(name)}


def _is_fitted_attribute(name: str) -> bool:
    public = name.endswith("_") and not name.startswith("_")
    return public or name in _PRIVATE_ATTRIBUTES


def _unpacked(content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the description and the arrays of a file whose checksum is right."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as unpack

    metadata = _metadata(content)
    if not isinstance(metadata, dict) or metadata.get("format") != "polyadic":
        raise ModelFileError("this is not a model file of polyadic.")
    version = metadata.get("version")
    if not (isinstance(version, str) and version.isdecimal()):
        raise ModelFileError("this model file is damaged: it has no version. Save it again.")
    if int(version[:9]) > VERSION:
        raise ModelFileError(
            f"this model file has version {version[:9]} and this polyadic reads version {VERSION}. "
            "Upgrade polyadic."
        )
    start = _checksum_place(content)
    blank = content[:start] + _NO_CHECKSUM.encode() + content[start + 64 :]
    if hashlib.sha256(blank).hexdigest().encode() != content[start : start + 64]:
        raise ModelFileError("this model file was changed after it was saved. Save it again.")
    try:
        return json.loads(metadata["model"]), unpack(content)
    except SafetensorError as error:
        raise ModelFileError(f"this model file is damaged ({error}). Save it again.") from None


def _metadata(content: bytes) -> Any:
    """Return the metadata in the header, or None where there is no such thing."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > len(content) - 8:
        raise ModelFileError("this is not a model file of polyadic, or its end is missing.")
    try:
        header = json.loads(content[8 : 8 + length].decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return header.get("__metadata__") if isinstance(header, dict) else None


def _checksum_place(content: bytes) -> int:
    """Return where the 64 digits of the checksum begin."""
    mark = b'"sha256":"'
    length = int.from_bytes(content[:8], "little")
    if content.count(mark, 8, 8 + length) != 1:
        raise ModelFileError("this model file is damaged: it has no checksum. Save it again.")
    return content.index(mark, 8, 8 + length) + len(mark)


def _restored(description: dict[str, Any], decoder: Decoder) -> tuple[Any, dict[str, Any]]:
    """Return the estimator that a description stands for, and its notes."""
    if description["class"] not in _ESTIMATORS:
        raise ModelFileError(f"this polyadic has no estimator {description['class']!r}.")
    parameters = {k: decoder.decode(v) for k, v in description["parameters"].items()}
    model = _ESTIMATORS[description["class"]](**parameters)
    model._validate_params()
    for name, value in description["fitted"].items():
        if not _is_fitted_attribute(name):
            raise ModelFileError(f"{name!r} is no fitted attribute.")
        setattr(model, name, decoder.decode(value))
    _check_members(model)
    notes = decoder.decode(description["notes"])
    if not isinstance(notes, dict):
        raise ModelFileError("its notes are not a dictionary.")
    return model, notes


def _check_members(model: Any) -> None:
    """Raise unless cores, maps and inputs fit together, as prediction takes for granted."""
    targets = {len(member.model.cores) for member in model.members_}
    if len(targets) != 1:
        raise ModelFileError("its members do not agree on the number of targets.")
    for member in model.members_:
        layout, weights = member.layout, member.model.weights
        if not isinstance(member.share, float):
            raise ModelFileError("the share of a member is not a number.")
        if len(layout.n_basis) != model.n_features_in_ or weights.shape != (len(layout.maps),):
            raise ModelFileError("its feature maps do not fit its inputs or weights.")
        for cores in member.model.cores:
            ranks = {core.shape[1] for core in cores}
            if len(ranks) != 1 or tuple(len(core) for core in cores) != layout.core_sizes:
                raise ModelFileError("its cores do not fit its feature maps.")
