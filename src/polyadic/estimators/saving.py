"""Fitted estimators to files and back; `storage.model_file` says what such a file holds."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from polyadic.compute import ComputeSpec
from polyadic.estimators._tables import plain_schema, schema_of
from polyadic.estimators.classifiers import FeatureLearningClassifier, KernelMachineClassifier
from polyadic.estimators.feature_learning import FeatureLearningRegressor
from polyadic.estimators.kernel_machine import KernelMachineRegressor, KernelMachineRegressorCV
from polyadic.features import FeatureMap
from polyadic.storage.atomic import replacing
from polyadic.storage.model_file import ModelFileError, SavedModel, is_fitted_attribute

_ESTIMATORS = {
    cls.__name__: cls
    for cls in (
        FeatureLearningClassifier,
        FeatureLearningRegressor,
        KernelMachineClassifier,
        KernelMachineRegressor,
        KernelMachineRegressorCV,
    )
}


def save(model: Any, path: str | os.PathLike[str], *, notes: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to a file that :func:`load` reads back bit for bit.

    Parameters
    ----------
    model : estimator of polyadic
        The fitted estimator.
    path : path
        The file.  It appears whole or not at all; one that is there is replaced, and keeps
        its mode.
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
    if type(model).__name__ not in _ESTIMATORS:
        raise TypeError(
            f"`model` must be one of {', '.join(_ESTIMATORS)}, got {type(model).__name__}. "
            "Save the polyadic step of a pipeline, or pickle the whole of it."
        )
    check_is_fitted(model)
    fitted = {name: value for name, value in vars(model).items() if is_fitted_attribute(name)}
    if fitted.get("schema_") == plain_schema(model):
        del fitted["schema_"]  # which files of the first edition do not have
    saved = SavedModel(type(model).__name__, model.get_params(deep=False), fitted, notes or {})
    content = saved.pack()
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
    ...     polyadic.load(path).rank
    2
    """
    return load_with_notes(path, feature_maps=feature_maps)[0]


def load_with_notes(
    path: str | os.PathLike[str], *, feature_maps: Iterable[type[FeatureMap]] = ()
) -> tuple[Any, dict[str, Any]]:
    """Return the estimator of a file and the notes that were saved beside it."""
    try:
        saved = SavedModel.unpack(Path(path).read_bytes(), feature_maps)
        model = _estimator(saved)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    _require_device(model, path)
    return model, saved.notes


def _estimator(saved: SavedModel) -> Any:
    """Return the estimator that a file describes."""
    if saved.estimator not in _ESTIMATORS:
        raise ModelFileError(f"this polyadic has no estimator {saved.estimator!r}.")
    try:
        model: Any = _ESTIMATORS[saved.estimator](**saved.parameters)
        model._validate_params()
    except (TypeError, ValueError) as error:
        raise ModelFileError(
            f"its parameters are not those of {saved.estimator}: {error}"
        ) from None
    vars(model).update(saved.fitted)
    model.schema_ = schema_of(model)
    return model


def _require_device(model: Any, path: str | os.PathLike[str]) -> None:
    """Let a model that was fitted elsewhere predict on the CPU where its device is not there."""
    spec = ComputeSpec(engine=model.engine, device=model.device)
    try:
        spec.validate()
    except (ImportError, ValueError) as error:
        warnings.warn(
            f"{path} was fitted with device={model.device!r} and engine={model.engine!r}, which "
            f"cannot be used here: it predicts on the CPU. ({error})",
            stacklevel=4,
        )
        model.set_params(device=None, engine="auto")
