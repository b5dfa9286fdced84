"""From what users pass to a source of checked rows: the one place that looks at its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight, check_consistent_length

from polyadic.estimators._tables import (
    check_table,
    check_targets,
    find_gaps,
    keep_schema,
    learn_inputs,
    schema_of,
)
from polyadic.features import FeatureMap, TensorLayout
from polyadic.rows.rows import Rows, require_two_dimensions
from polyadic.rows.tensors import is_tensor, to_host
from polyadic.sources import Source
from polyadic.sources.arrays import ArraySource
from polyadic.sources.columns import take_rows
from polyadic.sources.files.row_source import RowSource
from polyadic.sources.files.streamed import FileSource
from polyadic.sources.schema import Schema, explain_columns
from polyadic.sources.survey import FROM_DTYPE


def training_source(
    estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any = None
) -> Source:
    """Check what was passed to ``fit``, and set what scikit-learn wants to know of it."""
    if groups is not None and (isinstance(X, RowSource) or is_dask(X)):
        raise TypeError(
            f"`groups` must be None for rows of {type(X).__name__}, which are held out by their "
            "values. Pass arrays or a data frame in memory."
        )
    if isinstance(X, RowSource):
        _require_nothing_beside(y, sample_weight)
        return FileSource(_file_rows(estimator, X))
    if is_dask(X):
        return _dask_source(estimator, X, y, sample_weight)
    rows, single_target = _training_rows(estimator, X, y, sample_weight, groups)
    spec = estimator._spec()
    device = spec.device if spec.uses_torch else None
    return ArraySource(rows, estimator.schema_.inputs, single_target, device)


def rows_to_predict(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Source:
    """Check rows to predict, and what they are compared with where `y` is given."""
    if isinstance(X, RowSource):
        _require_nothing_beside(y, sample_weight)
        return FileSource(file_rows_to_predict(estimator, X))
    if is_dask(X):
        check_names(estimator, _column_names(X), X.shape[1])
        return _encoded_source(schema_of(estimator), X, y, sample_weight)
    inputs = inputs_to_predict(estimator, X, stacklevel=5)
    targets: Any = np.empty((len(inputs), 0))
    if y is not None:
        targets = check_targets(estimator, y)
        targets = targets.reshape(len(targets), -1)
    weight = _check_weight(sample_weight, inputs)
    return ArraySource(Rows(inputs, targets, weight), schema_of(estimator).inputs)


def file_rows_to_predict(estimator: Any, rows: RowSource) -> RowSource:
    """Return rows in files as the inputs of the fit."""
    check_names(estimator, rows.names, len(rows.names))
    labelled: RowSource = estimator._label(rows)
    return labelled.encoded(schema_of(estimator))


def inputs_to_predict(estimator: Any, X: Any, stacklevel: int = 3) -> Any:
    """Return the inputs of rows in memory, as a model takes them; tell once what is new in them.

    A tensor stays one where torch computes.
    """
    schema = schema_of(estimator)
    if is_tensor(X) and estimator._spec().uses_torch and schema.is_numeric:
        from polyadic.sources.tensors import check_inputs, count_gaps

        X = check_inputs(X, gaps=not schema.is_whole)
        check_names(estimator, None, X.shape[1])
        surprises = schema.unseen_gaps(count_gaps(X))
    else:
        X = refuse_lazy_frames(to_host(X))
        X = check_table(estimator, X, reset=False, whole=schema.is_whole, dtype=np.float64)
        encoded = schema.encode(X)
        X, surprises = encoded.X, encoded.surprises
    surprises.warn(schema, stacklevel)
    return X


def _dask_source(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Source:
    """Learn the schema of Dask collections, and return the source of their inputs."""
    require_two_dimensions(X)
    names = _column_names(X)
    _set_names(estimator, names, X.shape[1])
    if estimator._takes_tables():
        from polyadic.sources.dask.tables import learn_lazily

        schema, doubts = learn_lazily(X, y, sample_weight, names, estimator.categorical_features)
        keep_schema(estimator, schema, doubts)
    return _encoded_source(estimator.schema_, X, y, sample_weight)


def _encoded_source(schema: Schema, X: Any, y: Any, sample_weight: Any) -> Source:
    from polyadic.sources.dask import DaskSource
    from polyadic.sources.dask.tables import LazyTable

    table = LazyTable(X, schema)
    return DaskSource(table, y, sample_weight, schema.inputs, gaps=not schema.is_whole)


def is_dask(X: Any) -> bool:
    """Whether `X` is a Dask array or data frame; false, without importing Dask, for others."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def refuse_lazy_frames(X: Any) -> Any:
    """Return `X`; raise where it is a frame whose rows are not there yet."""
    if type(X).__name__ == "LazyFrame":
        raise TypeError(
            "`X` must be a table whose rows are there, got a Polars LazyFrame. Pass X.collect(), "
            "or write it to Parquet and pass polyadic.open_rows(path, target=…)."
        )
    return X


def _require_nothing_beside(y: Any, sample_weight: Any) -> None:
    if y is not None or sample_weight is not None:
        raise ValueError(
            "`y` and `sample_weight` must be None when `X` is a source of rows, which names "
            "its own. Pass target=… and weight=… to open_rows."
        )


def _file_rows(estimator: Any, rows: RowSource) -> RowSource:
    """Learn the schema of rows in files; named feature maps take numbers, which need no pass."""
    rows.require_numbers()
    _set_names(estimator, rows.names, len(rows.names))
    if estimator._takes_tables() or not rows.is_plain:
        wanted = getattr(estimator, "categorical_features", FROM_DTYPE)
        keep_schema(estimator, *rows.learn_schema(wanted))
    return rows.encoded(estimator.schema_)


def _training_rows(
    estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any
) -> tuple[Rows, bool]:
    """Validate rows in memory; return those of positive weight, and whether `y` is a vector."""
    spec = estimator._spec()
    spec.validate()
    if spec.uses_torch and is_tensor(X):
        rows, single_target = _tensor_rows(estimator, X, y, sample_weight)
    else:
        rows, single_target = _table_rows(estimator, X, y, sample_weight, spec.uses_torch)
    if groups is not None:
        rows = _add_groups(rows, groups, sample_weight)
    return (_as_tensors(rows) if spec.uses_torch else rows), single_target


def _tensor_rows(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Rows, bool]:
    from polyadic.sources.tensors import check_rows, count_gaps

    _set_names(estimator, None, X.shape[-1])
    takes_gaps = estimator._takes_tables()
    rows, single_target = check_rows(X, y, sample_weight, gaps=takes_gaps)
    schema = Schema.of_numbers(None, rows.X.shape[1], count_gaps(rows.X) if takes_gaps else None)
    estimator.schema_ = schema if takes_gaps else schema.whole()
    return rows, single_target


def _table_rows(
    estimator: Any, X: Any, y: Any, sample_weight: Any, on_torch: bool
) -> tuple[Rows, bool]:
    # A device makes doubles of a chunk at a time, and need not have all of them in memory.
    dtype = [np.float64, np.float32] if on_torch else np.float64
    X = check_table(
        estimator,
        refuse_lazy_frames(to_host(X)),
        reset=True,
        whole=not estimator._takes_tables(),
        has_targets=y is not None,
        dtype=dtype,
    )
    y = check_targets(estimator, y)
    check_consistent_length(X, y)
    weight = _check_weight(sample_weight, X)
    used = np.ones(len(y), dtype=bool) if weight is None else weight > 0
    if not used.all():  # rows that do not count have no say in what a column is
        X, y, weight = take_rows(X, used), y[used], None if weight is None else weight[used]
    inputs = learn_inputs(estimator, X, weight)
    return Rows(inputs, y.reshape(len(y), -1), weight), y.ndim == 1


def _check_weight(sample_weight: Any, X: Any) -> NDArray[np.float64] | None:
    if sample_weight is None:
        return None
    weight: NDArray[np.float64] = _check_sample_weight(
        to_host(sample_weight), X, dtype=np.float64, ensure_non_negative=True
    )
    if not weight.any():
        raise ValueError(
            "`sample_weight` must have at least one positive entry, got none. "
            "Pass positive weights for the rows to learn from."
        )
    return weight


def _add_groups(rows: Rows, groups: Any, sample_weight: Any) -> Rows:
    """Return rows with a number for each group; labels may be anything that can be sorted."""
    gaps = find_gaps(to_host(groups))
    if len(gaps):
        raise ValueError(
            f"`groups` must have a label for each row, but {len(gaps)} have none, the first in row "
            f"{gaps[0]} (the first row is 0). Give each of these rows a group of its own."
        )
    labels = np.asarray(to_host(groups))
    used = slice(None) if sample_weight is None else np.asarray(to_host(sample_weight)) > 0
    if labels.ndim != 1 or len(labels[used]) != len(rows):
        raise ValueError(
            f"`groups` must have one label for each row of `X`, got shape {labels.shape}."
        )
    names, numbers = np.unique(labels[used], return_inverse=True)
    if len(names) == 1 < len(rows):
        raise ValueError(
            f"`groups` must have at least two groups, for whole ones are held out, got "
            f"{names.tolist()[0]!r} for all {len(rows)} rows. Leave `groups` out."
        )
    return Rows(rows.X, rows.y, rows.weight, numbers.astype(np.int64))


def _as_tensors(rows: Rows) -> Rows:
    from polyadic.engines.torch.engine import as_tensor

    return rows.map(as_tensor)


def _column_names(X: Any) -> list[str] | None:
    return [str(name) for name in X.columns] if hasattr(X, "columns") else None


def _set_names(estimator: Any, names: Sequence[str] | None, n_inputs: int) -> None:
    estimator.n_features_in_ = n_inputs
    estimator.schema_ = Schema.of_numbers(names, n_inputs).whole()
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_names(estimator: Any, names: Sequence[str] | None, n_inputs: int) -> None:
    """Raise unless rows to predict have the inputs of the fit, in their order."""
    expected = getattr(estimator, "feature_names_in_", None)
    if names is not None and expected is not None and list(names) != list(expected):
        explained = explain_columns(list(names), list(expected))
        raise ValueError(f"{explained} Of files, open_rows(…, columns=…) reads those it names.")
    if n_inputs != estimator.n_features_in_:
        raise ValueError(
            f"`X` must have the {estimator.n_features_in_} inputs of the fit, got {n_inputs}. "
            "Pass those columns; open_rows(…, columns=…) names the ones to read from files."
        )


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
    sizes: NDArray[Any] = np.atleast_1d(np.asarray(n_basis))
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
