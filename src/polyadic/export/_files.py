"""What users call to write a model of ONNX, and to see what it takes."""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from polyadic.estimators._base import CPDEstimator
from polyadic.storage.atomic import replacing

_DTYPES = ("float64", "float32")


def to_onnx(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    dtype: str = "float64",
    return_std: bool = True,
) -> Any:
    """Write a fitted estimator as a model of ONNX, which predicts without this package.

    A table of nothing but numbers is one input `X` of shape (n, n_features).  Any other table
    has an input of shape (n, 1) for each column, by its name: numbers, where NaN is a gap; text
    for categories, where the empty text is a gap; and 64-bit whole numbers for dates, the
    microseconds of wall time since 1970.  :func:`onnx_inputs` makes them of a table.

    Regressors have the outputs `prediction` and `std`, of the shape that ``predict`` returns.
    Classifiers have `label` and `probabilities`.  All arithmetic is in double precision.

    Parameters
    ----------
    model : estimator of polyadic
        The fitted estimator.
    path : path, optional
        The file, usually named ``*.onnx``; one that is there is replaced.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the numbers that go in and come out.
    return_std : bool, default=True
        Whether a regressor that knows how sure it is has the output `std`; without, a graph is
        smaller and faster.

    Returns
    -------
    onnx_model : onnx.ModelProto
        What the file holds.

    Examples
    --------
    >>> import onnxruntime
    >>> import polyadic
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(60, random_state=0)
    >>> model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, random_state=0).fit(X, y)
    >>> session = onnxruntime.InferenceSession(polyadic.to_onnx(model).SerializeToString())
    >>> (found,) = session.run(["prediction"], {"X": X})
    >>> bool(abs(found - model.predict(X)).max() < 1e-9)
    True
    """
    _check(model, dtype)
    from polyadic.export._onnx import write_model

    found = write_model(model, dtype, with_std=return_std)
    if path is not None:
        with replacing(path) as file:
            file.write(found.SerializeToString())
    return found


def onnx_inputs(model: Any, X: Any, *, dtype: str = "float64") -> dict[str, NDArray[Any]]:
    """Return a table as the inputs of the graph that :func:`to_onnx` writes.

    Parameters
    ----------
    model : estimator of polyadic
        The fitted estimator.
    X : data frame, or array of shape (n_samples, n_features)
        Rows to predict.
    dtype : {"float64", "float32"}, default="float64"
        As of the graph.

    Returns
    -------
    inputs : dict of ndarray
        What ``session.run(None, inputs)`` of onnxruntime takes.

    Examples
    --------
    >>> import pandas as pd
    >>> import polyadic
    >>> frame = pd.DataFrame({"size": [1.0, 2.0, None] * 20, "colour": ["red", None, "blue"] * 20})
    >>> model = polyadic.FeatureLearningRegressor(effort=0.1).fit(frame, range(60))
    >>> {name: each[:3, 0].tolist() for name, each in polyadic.onnx_inputs(model, frame).items()}
    {'size': [1.0, 2.0, nan], 'colour': ['red', '', 'blue']}
    """
    _check(model, dtype)
    from polyadic.export._onnx import door_of

    return door_of(model, dtype).read(X)


def _check(model: Any, dtype: str) -> None:
    if not isinstance(model, CPDEstimator):
        raise TypeError(
            f"`model` must be an estimator of polyadic, got {type(model).__name__}. For a "
            "pipeline call polyadic.export.register_skl2onnx(), and then skl2onnx.to_onnx."
        )
    if dtype not in _DTYPES:
        raise ValueError(f"`dtype` must be 'float64' or 'float32', got {dtype!r}.")
    check_is_fitted(model)
    import_onnx()


def import_onnx() -> None:
    """Raise an error that says what to install where onnx is not there."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Models of ONNX need the package onnx, which is not installed. Install it with "
            "pip install 'polyadic[onnx]'."
        ) from error
