"""The curve of a covariance against the dense quadratic form, written out."""

from dataclasses import replace

import numpy as np
import pytest

from polyadic.features import (
    DampedFourierFeatures,
    MercerFeatures,
    PurePowerFeatures,
    TensorLayout,
)
from polyadic.model.covariance_curve import covariance_curve

FOURIER = DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(3.0, 0.7)
# Maps, basis functions, rank, inputs, and the range of the inputs.
PROBLEMS = {
    "complex": (FOURIER[:1], 12, 12, 3, (0.0, 1.0)),
    "two maps": (FOURIER, 16, 12, 3, (0.0, 1.0)),
    "real": ((PurePowerFeatures(),), 18, 16, 4, (-1.0, 0.5)),
    "kinks": ((MercerFeatures("matern12", 0.3),), 16, 18, 3, (0.0, 1.0)),
    "rank beyond the basis": (FOURIER[:1], 12, 16, 2, (0.0, 1.0)),
}


@pytest.fixture(params=PROBLEMS)
def problem(request, rng):
    """A model, the root of a covariance of its last core, and its curve."""
    maps, n_basis, rank, n_inputs, span = PROBLEMS[request.param]
    layout = TensorLayout.of(maps, (n_basis,) * n_inputs, False)
    cores = [rng.standard_normal((n_basis, rank)) for _ in range(n_inputs)]
    if layout.is_complex:
        cores = [core + 1j * rng.standard_normal(core.shape) for core in cores]
    unknowns = n_basis * rank * (2 if layout.is_complex else 1)
    # Some directions are known a thousand times better than others.
    root = np.linalg.qr(rng.standard_normal((unknowns, unknowns)))[0]
    root = root * np.logspace(-3, 0, unknowns)
    arguments = (root, n_inputs - 1, cores, np.linspace(1.0, 0.5, len(maps)), layout, span)
    return arguments, covariance_curve(*arguments)


def products(X, cores, layout):
    """What all cores but the last say under each map, one input after the other."""
    found = []
    for each in layout.maps:
        responses = [each.plain(x, len(w)) @ w for x, w in zip(X.T, cores[:-1], strict=False)]
        found.append(np.prod(responses, axis=0).T)
    return np.stack(found)


def dense(X, root, cores, weights, layout):
    """‖Lᵀa‖² of each row, a written out."""
    A = 0.0
    for weight, each, z in zip(weights, layout.maps, products(X, cores, layout), strict=True):
        psi = each.plain(X[:, -1], len(cores[-1]))
        A = A + weight * (psi[:, :, None] * z.T[:, None, :]).reshape(len(X), -1)
    if np.iscomplexobj(A):
        A = np.hstack([A.real, -A.imag])
    return np.sum((A @ root) ** 2, axis=1)


def test_a_curve_is_the_quadratic_form_of_the_covariance(problem, rng):
    (root, _, cores, weights, layout, (low, high)), curve = problem
    X = rng.uniform(low, high, (200, len(cores)))
    X[0], X[1] = low, high
    found, off = curve.leverage(X[:, -1], products(X, cores, layout).astype(field(layout)))
    expected = dense(X, root, cores, weights, layout)
    # Rounding is estimated, not bounded.
    assert (np.abs(found - expected) <= 3 * off).all()
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-5 * expected.max())
    at_once = (curve.degree + 1) * curve.nodes[0].size
    assert at_once < root.size / 2  # half of which is zero, where it is triangular


def field(layout):
    return np.complex64 if layout.is_complex else np.float32


def test_what_is_beyond_a_curve_is_not_known(problem, rng):
    (_, _, cores, _, layout, (low, high)), curve = problem
    X = np.full((4, len(cores)), (low + high) / 2)
    X[:3, -1] = low - 1e-3, high + 1e-3, np.inf
    Z = products(np.full_like(X, low), cores, layout).astype(field(layout))
    Z[:, :, 3] = np.nan
    with np.errstate(invalid="ignore"):
        _, off = curve.leverage(X[:, -1], Z)
    np.testing.assert_array_equal(off, np.inf)


def test_a_coarse_curve_says_so(problem, rng, monkeypatch):
    arguments, _ = problem
    monkeypatch.setattr("polyadic.model.covariance_curve._SMOOTH", (3, 2, 2))
    monkeypatch.setattr("polyadic.model.covariance_curve._KINKED", (2, 5, 5))
    root, _, cores, weights, layout, (low, high) = arguments
    curve = covariance_curve(*arguments)
    X = rng.uniform(low, high, (300, len(cores)))
    found, off = curve.leverage(X[:, -1], products(X, cores, layout).astype(field(layout)))
    error = np.abs(found - dense(X, root, cores, weights, layout))
    assert (error <= 3 * off).mean() > 0.99
    assert error.max() > 0.01 * off.max()  # and not out of all proportion


def test_there_is_no_curve_where_it_saves_little(problem):
    (root, core, cores, weights, layout, span), curve = problem
    assert curve is not None
    assert covariance_curve(root, core, cores, weights, layout, (0.5, 0.5)) is None
    alone = TensorLayout.of(layout.maps, (len(cores[-1]),), False)
    assert covariance_curve(root, 0, cores[-1:], weights, alone, span) is None
    few = root[:60, :60]
    assert covariance_curve(few, core, cores, weights, layout, span) is None
    many = tuple(DampedFourierFeatures(2.0 + k, 0.7) for k in range(5))
    if layout.is_complex:
        layout = replace(layout, maps=many)
        assert covariance_curve(root, core, cores, np.ones(5), layout, span) is None


@pytest.mark.parametrize("size", [1e-200, 1e30, 1e90, 1e180])
def test_what_single_precision_has_no_numbers_for_is_not_known(problem, size):
    (root, core, cores, weights, layout, span), _ = problem
    cores = [size * each for each in cores]
    curve = covariance_curve(size * root, core, cores, weights, layout, span)
    if curve is not None:
        assert curve.is_finite
        with np.errstate(over="ignore", invalid="ignore"):
            Z = products(np.full((2, len(cores)), span[0]), cores, layout).astype(field(layout))
            _, off = curve.leverage(np.full(2, span[0]), Z)
        assert size < 1 or np.isinf(off).all()
    assert covariance_curve(root, core, cores, 0 * weights, layout, span) is None
