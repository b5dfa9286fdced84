"""Model files: a fitted estimator in one file, without pickle.

    class, parameters, fitted attributes, notes

They are written as JSON and arrays in a checksummed file, see `container`.  Loading builds
objects of polyadic's own classes and of those the caller names, and runs nothing else.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from polyadic.compute import ComputeSpec, check_device
from polyadic.estimators import (
    FeatureLearningRegressor,
    KernelMachineRegressor,
    KernelMachineRegressorCV,
)
from polyadic.features import FeatureMap
from polyadic.storage.atomic import replacing
from polyadic.storage.container import Container
from polyadic.storage.values import Decoder, Encoder, ModelFileError

__all__ = ["ModelFileError", "load", "load_with_notes", "save"]

MODEL = Container("polyadic", "model file", version=1, remedy="Save it again.")
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
        Equal to the saved one in every parameter and every bit of its arrays.  A `device` that
        cannot be used here becomes None, with a warning: the model predicts on the CPU then.

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
        description, arrays = MODEL.unpack(content)
        model, notes = _restored(description, Decoder(arrays, feature_maps))
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        # The checksum is right, so somebody wrote this on purpose, or with another polyadic.
        raise ModelFileError(
            f"{path}: the model in this file is inconsistent ({error!r})."
        ) from None
    _require_device(model, path)
    return model, notes


def _require_device(model: Any, path: str | os.PathLike[str]) -> None:
    """Let a model that was fitted elsewhere predict on the CPU where its device is not there."""
    if not isinstance(model.device, str) or not ComputeSpec(device=model.device).uses_torch:
        return
    try:
        check_device(model.device)
    except (ImportError, ValueError) as error:
        warnings.warn(
            f"{path} was fitted with device={model.device!r}, which cannot be used here: it "
            f"predicts on the CPU. ({error})",
            stacklevel=4,
        )
        model.set_params(device=None)


def _packed(model: Any, notes: dict[str, Any]) -> bytes:
    """Return the bytes of a model file."""
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
    return MODEL.pack(description, encoder.arrays)


def _fitted_attributes(model: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if _is_fitted_attribute(name)}


def _is_fitted_attribute(name: str) -> bool:
    public = name.endswith("_") and not name.startswith("_")
    return public or name in _PRIVATE_ATTRIBUTES


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
        layout, weights = member.layout, member.model.map_weights
        if not isinstance(member.share, float):
            raise ModelFileError("the share of a member is not a number.")
        if len(layout.n_basis) != model.n_features_in_ or weights.shape != (len(layout.maps),):
            raise ModelFileError("its feature maps do not fit its inputs or weights.")
        for cores in member.model.cores:
            ranks = {core.shape[1] for core in cores}
            if len(ranks) != 1 or tuple(len(core) for core in cores) != layout.core_sizes:
                raise ModelFileError("its cores do not fit its feature maps.")
