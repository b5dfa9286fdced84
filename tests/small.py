"""Small material that many tests share: maps, rows, and an estimator that is fitted in a moment."""

from __future__ import annotations

import numpy as np
import pytest

from polyadic import FeatureLearningRegressor
from polyadic.features import DampedFourierFeatures
from polyadic.rows.inputs import Inputs
from polyadic.rows.rows import Rows
from polyadic.sources.arrays import ArraySource

MAPS = [DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(4.0, 0.6)]
FAR_APART = [DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(6.0, 0.6)]


def slow_but(quick, values, name=str, **others):
    """Return values to parametrise with, all but the quick ones marked as slow.

    `quick` are names of values, and so is what has another mark: `cluster={"dask"}`.
    """
    names = [name(value) for value in values]
    marks = {"slow": set(names) - set(quick), **others}
    assert set(names) >= set().union(quick, *others.values())
    return [
        pytest.param(
            value, id=each, marks=[getattr(pytest.mark, m) for m in marks if each in marks[m]]
        )
        for value, each in zip(values, names, strict=True)
    ]


def turned_rows(n_rows=300, noise=0.05, seed=0):
    """Return three inputs in the unit cube, and a wave along the difference of two of them."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n_rows, 3))
    y = np.sin(9 * (X[:, 0] - X[:, 1])) + X[:, 2]
    return X, y + noise * rng.standard_normal(n_rows)


def smooth_rows(n_rows=300, noise=0.0, seed=0):
    """Return three inputs in the unit cube, and a smooth target with or without noise."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n_rows, 3))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2] + noise * rng.standard_normal(n_rows)


def regressor(feature_maps=MAPS, **parameters):
    """Return an estimator that learns the weights of two maps, with few and small cores."""
    small = {"n_basis": 4, "rank": 3, "max_iter": 4, "random_state": 0}
    return FeatureLearningRegressor(feature_maps, **{**small, **parameters})


def data_of(
    X,
    y,
    weight=None,
    *,
    inputs=None,
    scale_inputs=True,
    single_target=False,
    groups=None,
    merge=False,
):
    """Return arrays or tensors, targets as columns, as training data."""
    inputs = inputs or Inputs.of_numbers([f"x{index}" for index in range(X.shape[1])])
    source = ArraySource(Rows(X, y, weight, groups), inputs, single_target)
    return source.data(scale_inputs, merge=merge)


def respond_reference(X, cores, map_weights, layout):
    """Return the response of a model by the reference engine, of several targets one by one."""
    from polyadic.engines.reference import ReferenceEngine

    if cores[0].ndim == 3:
        every = ([first, *cores[1:]] for first in np.moveaxis(cores[0], 2, 0))
        each = [respond_reference(X, of_target, map_weights, layout) for of_target in every]
        return np.column_stack(each)
    return np.asarray(ReferenceEngine().predict(X, cores, map_weights, layout))


def mean_with(model, frame, **columns):
    """Return the mean prediction over a table with some columns set to one value."""
    import pandas as pd

    each = {
        name: pd.Series([value] * len(frame), frame.index, frame[name].dtype)
        for name, value in columns.items()
    }
    return model.predict(frame.assign(**each)).mean()
