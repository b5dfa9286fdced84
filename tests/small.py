"""Small material that many tests share: rows as training data, without an estimator."""

from __future__ import annotations

import numpy as np

from polyadic.rows.rows import Rows
from polyadic.sources.arrays import ArraySource


def data_of(X, y, weight=None, *, scale_inputs=True, single_target=False, groups=None):
    """Return arrays or tensors, targets as columns, as training data."""
    names = [f"column {index}" for index in range(X.shape[1])]
    source = ArraySource(Rows(X, y, weight, groups), names, single_target)
    return source.data(scale_inputs)


def respond_reference(X, cores, map_weights, layout):
    """Return the response of a model by the reference engine."""
    from polyadic.engines.reference import ReferenceEngine

    return np.asarray(ReferenceEngine().predict(X, cores, map_weights, layout))
