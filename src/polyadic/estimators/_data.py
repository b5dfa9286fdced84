"""From what users pass to what the driver needs: checked, scaled rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight, validate_data

from polyadic.device import to_host
from polyadic.engines import Rows
from polyadic.features import FeatureMap, TensorLayout
from polyadic.scaling import InputScaling, TargetScaling


@dataclass(frozen=True)
class TrainingData:
    """Scaled training rows with the scalings that made them.

    `observed` are the targets in their own units: unlike `y` they do not depend, through the
    rounding of a mean, on whether a row is weighted or repeated.  `raw` are the inputs in
    theirs.
    """

    X: NDArray[np.float64]
    raw: NDArray[np.float64]
    y: NDArray[np.float64]
    observed: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    inputs: InputScaling
    targets: TargetScaling
    single_target: bool

    def rows(self, target: int) -> Rows:
        """Return the rows of one target."""
        return Rows(self.X, self.y[:, target], self.weight)


def training_data(
    estimator: Any, X: Any, y: Any, sample_weight: Any, scale_inputs: bool
) -> TrainingData:
    """Validate and scale what was passed to ``fit``."""
    X, y, sample_weight = to_host(X), to_host(y), to_host(sample_weight)
    X, y = validate_data(estimator, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
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
    if scale_inputs:
        inputs = InputScaling.fit(X, input_names(estimator))
    else:
        inputs = InputScaling.identity(X.shape[1])
    targets = TargetScaling.fit(y, weight)
    return TrainingData(
        inputs.apply(X), X, targets.apply(y), y, weight, inputs, targets, single_target
    )


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
    return TensorLayout(tuple(maps), sizes_of(n_basis, n_inputs), quantized)


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
