"""Conjugate gradients solve the system of a core step, and no iteration makes it worse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from polyadic.engines.reference import ReferenceEngine
from polyadic.features import MercerFeatures, Table, Tabled, TensorLayout
from polyadic.model import als, cpd
from polyadic.model.conjugate import CoreSketch, GramProduct, solve_core_iteratively
from polyadic.rows.rows import Rows
from polyadic.samples.memory import MemorySamples

seeds = st.integers(0, 10**6)
KINDS = ["random", "weighted", "nearly singular", "zero column", "few rows", "scales"]
ALPHAS = [1e-10, 1e-2, 1.0, 1e8]


@dataclass
class Step:
    """The step of one core: features, products of the others, their Gram, targets, weights."""

    psi: np.ndarray
    Z: np.ndarray
    H: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    alpha: float
    current: np.ndarray

    @property
    def block(self):
        return (self.psi[:, :, None] * self.Z[:, None]).reshape(len(self.y), -1)

    def sketch(self, every=1):
        """Return the sums, those of ZᵀZ over some of the rows."""
        weighted, some = self.weight[:, None] * self.Z, slice(None, None, every)
        return CoreSketch(
            self.psi.T @ (weighted * self.y[:, None]),
            self.weight @ self.psi**2,
            self.Z[some].T @ weighted[some],
            self.weight[some].sum(),
            self.weight.sum(),
        )

    def gram_product(self, value):
        response = self.block @ value.ravel()
        return (self.block.T @ (self.weight * response)).reshape(value.shape)

    def solve(self, every=1, **options):
        """Return the core that conjugate gradients find."""
        found = solve_core_iteratively(
            self.sketch(every), self.gram_product, self.H, self.current, self.alpha, **options
        )
        assert found.jitter == 0
        return found.value

    def objective(self, value):
        residual = self.y - self.block @ value.ravel()
        return 0.5 * self.weight @ residual**2 + 0.5 * self.alpha * np.sum((value @ self.H) * value)

    def rounding(self, value):
        """Return how far rounding may move the objective, whose terms may cancel."""
        terms = np.sum((np.abs(value) @ np.abs(self.H)) * np.abs(value))
        return np.finfo(float).eps * self.alpha * terms

    def best(self):
        """Return the least objective, by least squares on stacked equations."""
        size = len(self.current)
        values, vectors = np.linalg.eigh(self.H)
        root = np.sqrt(self.alpha * np.maximum(values, 0))[:, None] * vectors.T
        scale = np.sqrt(self.weight)
        stack = np.vstack([scale[:, None] * self.block, np.kron(np.eye(size), root)])
        right = np.r_[scale * self.y, np.zeros(size * len(self.H))]
        found = np.linalg.lstsq(stack, right, rcond=1e-14)[0]
        return found.reshape(self.current.shape)


def make_step(kind, alpha, seed):
    rng = np.random.RandomState(seed)
    n, size, rank = (6 if kind == "few rows" else 80), 3, 4
    psi, Z = rng.standard_normal((n, size)), rng.standard_normal((n, rank))
    others = rng.standard_normal((5, rank))
    if kind == "nearly singular":
        Z[:, 1] = Z[:, 0] + 1e-4 * Z[:, 1]
        others[:, 1] = others[:, 0] + 1e-4 * others[:, 1]
    if kind == "zero column":  # a term that is zero has zeros in its Gram matrix as well
        Z[:, 2], others[:, 2], psi[:, 0] = 0.0, 0.0, 0.0
    if kind == "scales":
        units = 10.0 ** np.array([-4, 0, 2, 4])
        Z, others = Z * units, others * units
    weight = rng.uniform(0.1, 3, size=n) if kind == "weighted" else np.ones(n)
    current = rng.standard_normal((size, rank))
    return Step(psi, Z, others.T @ others, rng.standard_normal(n), weight, alpha, current)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_many_iterations_find_the_direct_solution(kind, alpha, seed):
    step = make_step(kind, alpha, seed)
    value = step.solve(max_iter=400, tol=1e-13)
    best = step.objective(step.best())
    assert step.objective(value) <= best + 1e-6 * step.objective(np.zeros_like(value))


@given(seed=seeds)
def test_many_iterations_find_the_core_itself_where_it_is_unique(seed):
    step = make_step("weighted", 0.5, seed)
    np.testing.assert_allclose(step.solve(max_iter=100, tol=1e-14), step.best(), atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds, log_alpha=st.floats(-10, 8), every=st.sampled_from([1, 3]))
@example(seed=88724, log_alpha=3.0, every=1)
def test_no_iteration_raises_the_objective(kind, seed, log_alpha, every):
    step = make_step(kind, 10.0**log_alpha, seed)
    before = step.objective(step.current)
    for n_iterations in range(13):
        value = step.solve(every, max_iter=n_iterations, tol=0.0)
        after = step.objective(value)
        assert after <= before * (1 + 1e-9) + step.rounding(value)
        before = after


@given(seed=seeds)
def test_a_step_from_the_solution_stays_there(seed):
    step = make_step("random", 0.5, seed)
    step.current = step.best()
    np.testing.assert_allclose(step.solve(), step.current, atol=1e-9)


def test_independent_features_and_products_take_one_iteration():
    # Every row of ψ meets every row of z, so that the preconditioner is the system.
    rng = np.random.RandomState(0)
    few, others = np.linalg.qr(rng.standard_normal((9, 3)))[0], rng.standard_normal((7, 4))
    psi, Z = np.repeat(few, 7, axis=0), np.tile(others, (9, 1))
    ones, y = np.ones(63), rng.standard_normal(63)
    step = Step(psi, Z, np.eye(4), y, ones, 0.3, np.zeros((3, 4)))
    np.testing.assert_allclose(step.solve(max_iter=2, tol=0.0), step.best(), atol=1e-6)


def test_sums_of_parts_add_up():
    step = make_step("weighted", 1.0, 0)
    whole = step.sketch()
    both = None
    for part in (slice(None, 30), slice(30, None)):
        rows = (a[part] for a in (step.y, step.weight))
        some = Step(step.psi[part], step.Z[part], step.H, *rows, 1.0, step.current).sketch()
        both = some if both is None else both + some
    for name in ("moment", "feature_power", "product_gram", "sketched_weight", "total_weight"):
        np.testing.assert_allclose(getattr(both, name), getattr(whole, name), rtol=1e-12)
    ones = GramProduct(np.ones((2, 2)))
    np.testing.assert_array_equal((ones + ones).on_host().value, 2.0)


def test_sums_that_overflowed_are_an_error():
    step = make_step("random", 1.0, 0)
    step.Z[0] = 1e200
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(FloatingPointError):
        step.solve()


class Either(MemorySamples):
    """Samples that iterate, or do not, as they are told."""

    iterating = False

    def iterates(self, core):
        return self.iterating


@pytest.mark.parametrize("alpha", [1e-3, 1.0])
@pytest.mark.parametrize("kernel", ["matern12", "rbf"])
@pytest.mark.parametrize("seed", [0, 1])
def test_an_epoch_is_nearly_as_good_as_a_direct_one(alpha, kernel, seed):
    rng = np.random.RandomState(seed)
    table = Table.mercer(kernel, 0.4, n_basis=8)
    layout = TensorLayout((MercerFeatures(),), (Tabled(table),) * 3)
    X = rng.uniform(size=(600, 3))
    y = np.sin(5 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + 0.1 * rng.standard_normal(600)
    model = als.Model((cpd.initial_cores(layout.core_sizes, 6, False, rng),), np.ones(1))
    values = []
    for iterating in (False, True):
        samples = Either(ReferenceEngine(), Rows(X, y - y.mean()), layout, 200)
        samples.iterating = iterating
        fit = als.fit([samples], als.Objective(alpha), model, als.Stopping(3))
        values.append([epoch.loss for epoch in fit.history])
    direct, iterated = np.array(values)
    assert iterated[-1] < 0.5 * np.var(y)
    np.testing.assert_array_less(iterated, 1.01 * direct)


def test_products_of_single_precision_may_depend_on_each_other(rng):
    few = rng.standard_normal((400, 3)).astype(np.float32)
    Z = few @ rng.standard_normal((3, 40)).astype(np.float32)
    gram = (Z.T @ Z).astype(np.float64)
    # Rounding of sums that are single makes eigenvalues negative, here by more than usual.
    gram -= 1e-4 * np.diag(gram.diagonal())
    sketch = CoreSketch(np.zeros((5, 40)), np.ones(5), gram, 400.0, 400.0)
    solve = sketch.preconditioner(np.eye(40), 0.1)
    residual = rng.standard_normal((5, 40))
    assert (residual * solve(residual)).sum() > 0
