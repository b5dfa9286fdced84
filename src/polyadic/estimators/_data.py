"""From what users pass to what a fit needs: checked rows, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight, validate_data

from polyadic.features import FeatureMap, TensorLayout
from polyadic.rows.rows import Rows, require_two_dimensions
from polyadic.rows.tensors import is_tensor, to_host
from polyadic.sources.data import ArrayData, Data
from polyadic.sources.files.row_source import RowSource


def training_data(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Data:
    """Check what was passed to ``fit``, and set what scikit-learn wants to know of it."""
    if isinstance(X, RowSource):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "`y` and `sample_weight` must be None when `X` is a source of rows, which names "
                "its own. Pass target=… and weight=… to open_rows."
            )
        data = X.data(scale_inputs=estimator.scale_inputs)
        _set_names(estimator, X.names, len(X.names))
        return data
    if is_dask(X):
        from polyadic.sources.dask import dask_data

        require_two_dimensions(X)
        names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        _set_names(estimator, names, X.shape[1])
        return dask_data(X, y, sample_weight, input_names(estimator), estimator.scale_inputs)
    return _array_data(estimator, X, y, sample_weight)


def is_dask(X: Any) -> bool:
    """Whether `X` is a Dask array or data frame; false, without importing Dask, for others."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def _array_data(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Data:
    """Validate rows in memory."""
    spec = estimator._compute_spec
    spec.validate()
    if spec.uses_torch and is_tensor(X):
        return _tensor_data(estimator, X, y, sample_weight)
    X, y, sample_weight = to_host(X), to_host(y), to_host(sample_weight)
    # A device makes doubles of a chunk at a time, and need not have all of them in memory.
    dtype = [np.float64, np.float32] if spec.uses_torch else np.float64
    X, y = validate_data(estimator, X, y, dtype=dtype, multi_output=True, y_numeric=True)
    y = np.asarray(y, dtype=np.float64)
    single_target = y.ndim == 1
    y = y.reshape(len(X), -1)
    weight = None
    if sample_weight is not None:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        used = weight > 0
        if not used.any():
            raise ValueError(
                "`sample_weight` must have at least one positive entry, got none. "
                "Pass positive weights for the rows to learn from."
            )
        X, y, weight = X[used], y[used], weight[used]
    if spec.uses_torch:
        return _on_torch(estimator, Rows(X, y, weight), single_target)
    return ArrayData.of(
        X,
        y,
        weight,
        input_names(estimator),
        scale_inputs=estimator.scale_inputs,
        single_target=single_target,
    )


def _tensor_data(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Data:
    """Validate rows that are tensors, where they are."""
    from polyadic.sources.tensors import checked_rows

    rows, single_target = checked_rows(X, y, sample_weight)
    _set_names(estimator, None, X.shape[1])
    return _on_torch(estimator, rows, single_target)


def _on_torch(estimator: Any, rows: Rows, single_target: bool) -> Data:
    """Return checked rows as tensors, which a torch device scales by itself."""
    from polyadic.sources.tensors import TensorData

    return TensorData.of(
        rows,
        input_names(estimator),
        scale_inputs=estimator.scale_inputs,
        single_target=single_target,
        device=estimator.device,
    )


def _set_names(estimator: Any, names: Sequence[str] | None, n_inputs: int) -> None:
    estimator.n_features_in_ = n_inputs
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_names(estimator: Any, names: Sequence[str] | None, n_inputs: int) -> None:
    """Raise unless rows to predict have the inputs of the fit, in their order."""
    expected = getattr(estimator, "feature_names_in_", None)
    if n_inputs != estimator.n_features_in_:
        raise ValueError(
            f"`X` must have the {estimator.n_features_in_} inputs of the fit, got {n_inputs}. "
            "Pass those columns; open_rows(…, columns=…) names the ones to read from files."
        )
    if names is not None and expected is not None and list(names) != list(expected):
        raise ValueError(
            f"`X` must have the inputs {list(expected)} in this order, got {list(names)}. "
            "Name the columns to read with open_rows(…, columns=…)."
        )


def required_target(y: NDArray[Any] | None) -> NDArray[Any]:
    """Return the targets of a batch; raise where the source has none."""
    if y is None:
        raise ValueError("The source of rows names no target. Pass target=… to open_rows.")
    return y


def input_names(estimator: Any) -> list[str]:
    """Return the names of the inputs as an error message should show them."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [f"column {index}" for index in range(estimator.n_features_in_)]
    return [repr(str(name)) for name in names]


def tensor_layout(
    maps: Sequence[FeatureMap], n_basis: Any, quantized: bool, n_inputs: int
) -> TensorLayout:
    """Check the feature maps and sizes and lay out the tensor."""
    for feature_map in maps:
        if not isinstance(feature_map, FeatureMap):
            raise TypeError(
                "`feature_maps` must hold FeatureMap objects, got "
                f"{feature_map!r}. Use those of polyadic.features, or subclass FeatureMap."
            )
        feature_map.validate()
    return TensorLayout.of(tuple(maps), sizes_of(n_basis, n_inputs), quantized)


def sizes_of(n_basis: Any, n_inputs: int) -> tuple[int, ...]:
    """Return the number of basis functions of each input."""
    sizes = np.atleast_1d(np.asarray(n_basis))
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise ValueError(
            "`n_basis` must be a positive integer, or one for each input, got "
            f"{n_basis!r}. Use for instance n_basis=8."
        )
    if np.ndim(n_basis) == 0:
        sizes = np.repeat(sizes, n_inputs)
    if len(sizes) != n_inputs:
        raise ValueError(
            f"`n_basis` must have one entry for each of the {n_inputs} inputs, got "
            f"{len(sizes)} entries. Pass one integer to use it for every input."
        )
    return tuple(int(size) for size in sizes)
