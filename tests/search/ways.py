"""Ways to see the inputs, as a search learns them from few rows, and their kernels."""

from __future__ import annotations

import numpy as np

from polyadic.compute import ComputeSpec
from polyadic.search.learned import learn_features
from polyadic.search.settings import Settings
from tests.small import data_of


def learn(X, y, weight=None, **settings):
    """Return the ways to see these inputs, the best one first."""
    settings = Settings(**settings)
    data = data_of(X, y.reshape(len(y), -1), weight, scale_inputs=settings.scale_inputs, merge=True)
    with ComputeSpec(n_jobs=1).open() as compute:
        return learn_features(data, settings, compute.workers)


def kernel(way, X, Z, layout=None):
    """Return the kernel of rows with others, input by input; by default that of the way itself."""
    X, Z = (way.scaling.apply(each) for each in (X, Z))
    K = np.ones((len(X), len(Z)))
    for d, each in enumerate((layout or way.layout).inputs):
        if each.table is not None:
            K *= each.table.features(X[:, d]) @ each.table.features(Z[:, d]).T
    return K
