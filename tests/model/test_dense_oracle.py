"""Everything a fit computes, against the dense model of tests/oracle.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyadic.engines.reference import ReferenceEngine
from polyadic.features import (
    DampedFourierFeatures,
    FourierFeatures,
    GaussianFeatures,
    MercerFeatures,
    PurePowerFeatures,
    Table,
    Tabled,
    TensorLayout,
    Unused,
)
from polyadic.model import cpd
from polyadic.model.normal import solve_core
from polyadic.rows.rows import Rows
from polyadic.samples.memory import MemorySamples
from tests.oracle import (
    Bits,
    Cosines,
    core_jacobian,
    dense_weight,
    input_features,
    layout_features,
)
from tests.small import slow_but

FOURIER = (FourierFeatures(2.0), FourierFeatures(0.7))
DAMPED = (DampedFourierFeatures(1.5, 0.7), DampedFourierFeatures(4.0, 1.0))
GAUSSIAN = (GaussianFeatures(0.3, 1.0), GaussianFeatures(1.1, 2.0))
MIXED = (FourierFeatures(3.0), PurePowerFeatures(), DampedFourierFeatures(2.0, 0.5))
ROUGH, SMOOTH = (Table.mercer(kernel, 0.4, n_basis=3) for kernel in ("matern12", "rbf"))
LAYOUTS = {
    "fourier": TensorLayout.of(FOURIER, (4, 2), True),
    "fourier-plain": TensorLayout.of(FOURIER, (3, 4), False),
    "damped": TensorLayout.of(DAMPED, (2, 8), True),
    "damped-plain": TensorLayout.of(DAMPED, (5, 2), False),
    "powers": TensorLayout.of((PurePowerFeatures(),), (4, 4), True),
    "powers-plain": TensorLayout.of((PurePowerFeatures(),), (3, 1, 2), False),
    "gaussian-plain": TensorLayout.of(GAUSSIAN, (3, 4), False),
    "own": TensorLayout.of((Bits(),), (4, 2), True),
    "own-plain": TensorLayout.of((Cosines(), Cosines(shift=-1.0)), (4, 3), False),
    "mixed": TensorLayout.of((*MIXED, Bits()), (2, 4), True),
    "mixed-plain": TensorLayout.of((*MIXED, *GAUSSIAN, Cosines()), (3, 2), False),
    "mixed-real": TensorLayout.of((PurePowerFeatures(), GAUSSIAN[0]), (3, 2), False),
    "tables": TensorLayout((MercerFeatures(),), (Tabled(ROUGH), Unused(), Tabled(SMOOTH))),
    "one-table": TensorLayout((MercerFeatures(),), (Tabled(SMOOTH),)),
}
QUICK = {"fourier", "damped-plain", "powers", "own", "mixed", "mixed-plain", "tables"}
every_layout = pytest.mark.parametrize("layout", slow_but(QUICK, LAYOUTS), indirect=True)


@pytest.fixture(scope="module")
def layout(request):
    return LAYOUTS[request.param]


@dataclass
class Problem:
    """A random model with rows, kept sparse enough to meet zero factors."""

    rows: Rows
    cores: cpd.Cores
    weights: np.ndarray
    layout: TensorLayout

    @property
    def scale(self):
        return np.ones(len(self.rows)) if self.rows.weight is None else self.rows.weight

    def dense(self):
        return [layout_features(self.rows.X, p, self.layout) for p in self.layout.maps]


def problem(layout, seed):
    rng = np.random.RandomState(seed)
    n, rank = rng.randint(1, 12), rng.randint(1, 4)
    cores = []
    for size in layout.core_sizes:
        core = rng.standard_normal((size, rank))
        if layout.is_complex:
            core = core + 1j * rng.standard_normal((size, rank))
        core[rng.uniform(size=core.shape) < 0.15] = 0.0
        core[:, rng.uniform(size=rank) < 0.1] = 0.0
        cores.append(core)
    X = np.where(rng.uniform(size=(n, len(layout.n_basis))) < 0.2, 0.0, 1.0)
    X *= rng.uniform(-0.2, 1.2, size=X.shape)
    weight = rng.randint(0, 4, size=n).astype(float) if rng.randint(2) else None
    weights = rng.standard_normal(len(layout.maps)) * (rng.uniform(size=len(layout.maps)) > 0.2)
    return Problem(Rows(X, rng.standard_normal(n), weight), cores, weights, layout)


def samples_of(p, chunk_size=3):
    samples = MemorySamples(ReferenceEngine(), p.rows, p.layout, chunk_size)
    samples.start(p.cores)
    return samples


@every_layout
@given(seed=st.integers(0, 10**6))
def test_the_response_is_the_real_part_of_dense_features_times_the_dense_tensor(layout, seed):
    p = problem(layout, seed)
    w = dense_weight(p.cores)
    expected = sum(lam * (phi @ w).real for lam, phi in zip(p.weights, p.dense(), strict=True))
    response = ReferenceEngine().predict(p.rows.X, p.cores, p.weights, layout)
    np.testing.assert_allclose(response, expected, rtol=1e-10, atol=1e-10)


@every_layout
@given(seed=st.integers(0, 10**6))
def test_the_sums_of_the_lambda_step_are_those_of_the_dense_responses(layout, seed):
    p = problem(layout, seed)
    F = np.stack([(phi @ dense_weight(p.cores)).real for phi in p.dense()], axis=1)
    equations, S, y = samples_of(p).mixing_equations(), p.scale, p.rows.y
    np.testing.assert_allclose(equations.gram, F.T @ (S[:, None] * F), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(equations.moment, F.T @ (S * y), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        [equations.target_norm2, equations.total_weight], [S @ y**2, S.sum()]
    )


@every_layout
@given(seed=st.integers(0, 10**6))
def test_gram_products_give_the_norm_of_the_dense_tensor(layout, seed):
    p = problem(layout, seed)
    w = dense_weight(p.cores)
    assert cpd.squared_norm(p.cores) == pytest.approx(np.vdot(w, w).real, rel=1e-10, abs=1e-12)
    grams = [cpd.gram(core) for core in p.cores]
    for index, core in enumerate(p.cores):
        J = core_jacobian(p.cores, index)
        others = np.kron(np.eye(len(core)), cpd.gram_product(grams, without=index))
        np.testing.assert_allclose(J.conj().T @ J, others, rtol=1e-10, atol=1e-10)


@every_layout
@given(seed=st.integers(0, 10**6))
def test_rebalancing_changes_norms_but_not_the_tensor(layout, seed):
    p = problem(layout, seed)
    balanced = cpd.rebalance(p.cores)
    np.testing.assert_allclose(dense_weight(balanced), dense_weight(p.cores), rtol=1e-9, atol=1e-12)
    norms = np.array([np.linalg.norm(core, axis=0) for core in balanced])
    np.testing.assert_allclose(norms, np.broadcast_to(norms[0], norms.shape), rtol=1e-10)


@every_layout
@pytest.mark.parametrize("objective", ["real", "complex"])
@given(seed=st.integers(0, 10**6))
def test_every_core_step_is_the_dense_least_squares_minimum(layout, objective, seed):
    p = problem(layout, seed)
    samples = samples_of(p)
    alpha = 10.0 ** np.random.RandomState(seed).uniform(-3, 1)
    grams = [cpd.gram(core) for core in p.cores]
    for index, core in enumerate(p.cores):
        J = core_jacobian(p.cores, index)
        A = sum(lam * phi for lam, phi in zip(p.weights, p.dense(), strict=True)) @ J
        equations = samples.normal_equations(index, p.weights)
        check_sums(equations, A, p)
        others = cpd.gram_product(grams, without=index)
        solution = solve_core(equations, others, core, alpha, objective)
        expected = dense_step(A, J, p.rows.y, p.scale, alpha, objective)
        # The core itself is not unique where a factor is zero; the tensor is.
        np.testing.assert_allclose(J @ solution.value.ravel(), J @ expected, rtol=1e-6, atol=1e-6)
        p.cores[index], grams[index] = solution.value, cpd.gram(solution.value)
        samples.commit(index, solution.value)


def check_sums(equations, A, p):
    B = np.hstack([A.real, A.imag]) if p.layout.is_complex else A
    gram = B.T @ (p.scale[:, None] * B)
    np.testing.assert_allclose(equations.gram, gram, rtol=1e-9, atol=1e-9 * (1 + gram.max()))
    moment = B.T @ (p.scale * p.rows.y)
    np.testing.assert_allclose(equations.moment, moment, rtol=1e-9, atol=1e-9 * (1 + gram.max()))


@pytest.mark.parametrize("layout", ["tables", "one-table"], indirect=True)
@given(seed=st.integers(0, 10**6))
def test_the_sums_of_conjugate_gradients_are_those_of_the_dense_features(layout, seed):
    p = problem(layout, seed)
    samples, (phi,), S = samples_of(p), p.dense(), p.scale
    for index, core in enumerate(p.cores):
        A = phi @ core_jacobian(p.cores, index)
        direction = np.random.RandomState(seed).standard_normal(core.shape)
        found = samples.gram_product(index, direction)
        expected = A.T @ (S * (A @ direction.ravel()))
        np.testing.assert_allclose(found.ravel(), expected, rtol=1e-9, atol=1e-9)
        sketch = samples.core_sketch(index)
        np.testing.assert_allclose(sketch.moment.ravel(), A.T @ (S * p.rows.y), atol=1e-9)
        assert (sketch.sketched_weight, sketch.total_weight) == (S.sum(), S.sum())
        column = layout.core_inputs[index]
        psi = input_features(layout.inputs[column], p.rows.X[:, column], None)
        np.testing.assert_allclose(sketch.feature_power, S @ psi**2, atol=1e-9)
        # Σᵢψᵢ² of a row times its z zᵀ is what the blocks of its own AᵀA add to.
        blocks = np.einsum("nir,nis->nrs", *[A.reshape(-1, *core.shape)] * 2)
        norms = (psi**2).sum(axis=1)
        expected = np.tensordot(S / norms, blocks, axes=1)
        np.testing.assert_allclose(sketch.product_gram, expected, rtol=1e-9, atol=1e-9)


def dense_step(A, J, y, weight, alpha, objective):
    """Minimise over one core by an ordinary least-squares solver on stacked equations."""
    A, y = np.sqrt(weight)[:, None] * A, np.sqrt(weight) * y
    ridge = np.sqrt(alpha) * J
    if objective == "complex" or not np.iscomplexobj(A):
        stack, right = np.vstack([A, ridge]), np.r_[y, np.zeros(len(J))]
        return np.linalg.lstsq(stack, right, rcond=1e-13)[0]
    stack = np.block([[A.real, -A.imag], [ridge.real, -ridge.imag], [ridge.imag, ridge.real]])
    v = np.linalg.lstsq(stack, np.r_[y, np.zeros(2 * len(J))], rcond=1e-13)[0]
    return v[: A.shape[1]] + 1j * v[A.shape[1] :]
