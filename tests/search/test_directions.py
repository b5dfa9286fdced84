"""Directions: found where targets change along them, there where rows want them."""

from __future__ import annotations

import numpy as np
import pytest

from polyadic.model.evidence import Evidence
from polyadic.search.directions import leading_directions
from tests.search.ways import learn
from tests.small import turned_rows


def process_mean(X, y, evidence, weight, is_level):
    """Return the mean of a process with the Gaussian kernel as a function, in plain NumPy."""

    def kernel(A, B):
        apart = (A[:, None] - B) / evidence.length_scales
        log_k = -0.5 * apart**2
        differ = A[:, None] != B
        log_k[:, :, is_level] = -(differ / evidence.length_scales)[:, :, is_level]
        return np.exp(log_k.sum(axis=2))

    noise = evidence.noise / evidence.signal / weight + 1e-8
    c = np.linalg.solve(kernel(X, X) + np.diag(noise), y)
    return lambda at: kernel(at, X) @ c


@pytest.mark.parametrize("has_levels", [False, True])
def test_directions_are_those_of_the_gradients(rng, has_levels):
    """Against differences of the mean of the process, row by row."""
    X, y = rng.uniform(size=(60, 4)), rng.standard_normal((60, 2))
    is_level = np.array([False, has_levels, False, False])
    X[:, is_level] = rng.randint(3, size=(60, 1))
    weight = rng.uniform(0.5, 2.0, 60)
    evidence = Evidence("rbf", np.array([0.5, 0.8, 1.0, 0.4]), 2.0, 0.1, 0.0)
    mean, step = process_mean(X, y, evidence, weight, is_level), 1e-6
    numbers = np.flatnonzero(~is_level)
    slopes = [
        (mean(X + step * np.eye(4)[d]) - mean(X - step * np.eye(4)[d])) / (2 * step)
        for d in numbers
    ]
    products = np.einsum("dnt,ent,n->de", slopes, slopes, weight)
    expected = np.linalg.eigh(products)[1][:, ::-1][:, :3]
    found = leading_directions(X, y, evidence, weight, is_level)
    assert found.shape == (4, 3)
    assert not found[is_level].any()
    cosines = np.abs((found[numbers] * expected).sum(axis=0))
    np.testing.assert_allclose(cosines, 1.0, atol=1e-6)


def test_a_wave_along_a_difference_is_seen_along_it():
    ways = learn(*turned_rows(300))
    for way in ways:
        directions = way.scaling.directions
        assert directions.shape == (3, 3)
        first = directions[:, 0] / np.abs(directions).max()
        assert first[0] == pytest.approx(-first[1], rel=0.2)
        lengths = way.evidence.length_scales
        assert lengths[3] < lengths[:2].min() / 3
    gained = ways[0].evidence.value
    assert gained > 0.3  # log density of a target with a hundredth of its variance in noise


@pytest.mark.parametrize("scaled", [True, False])
def test_directions_are_in_units_of_what_the_scaling_shows(scaled):
    X, y = turned_rows(300)
    X = X * [1.0, 100.0, 1.0]
    for way in learn(X, y, scale_inputs=scaled):
        first = way.scaling.directions[:, 0] * ([1, 1, 1] if scaled else [1, 100, 1])
        assert first[0] == pytest.approx(-first[1], rel=0.2)


def test_a_sum_of_functions_needs_none(rng):
    X = rng.uniform(size=(300, 3))
    y = np.sin(8 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(300)
    assert all(way.scaling.directions is None for way in learn(X, y))


def test_noise_has_none(rng):
    ways = learn(rng.uniform(size=(300, 5)), rng.standard_normal(300))
    assert all(way.scaling.directions is None for way in ways)


@pytest.mark.parametrize("why", ["a gap", "labels", "basis sizes of users", "one input"])
def test_there_are_none_where_they_are_not_looked_for(why):
    X, y = turned_rows(300)
    settings = {"n_basis": (8, 8, 8)} if why == "basis sizes of users" else {}
    if why == "a gap":
        X[:30, 2] = np.nan
    elif why == "labels":
        y = (y > 0).astype(float)
    elif why == "one input":
        X = X[:, :1]
    assert all(way.scaling.directions is None for way in learn(X, y, **settings))
