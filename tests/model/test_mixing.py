"""Every solver of the feature weights, against SciPy and against a proof of optimality.

For a convex problem a feasible λ comes with a bound on how far it is from the minimum: the
duality gap of the penalised forms, the Frank-Wolfe gap of the constrained ones.  It is
computed here from F and y themselves, not from the sums the solvers see.
"""

from __future__ import annotations

from operator import attrgetter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import lstsq
from scipy.optimize import lsq_linear, minimize, minimize_scalar, nnls

from polyadic.model import mixing
from polyadic.model.mixing import solve_mixing
from polyadic.model.normal import NormalEquations
from tests.small import slow_but

FORMS = [
    ("simplex", False),
    ("l1", False),
    ("l1", True),
    ("l2", False),
    ("l2", True),
    ("fixed_norm", False),
    ("fixed_norm", True),
]
every_form = pytest.mark.parametrize(("kind", "nonnegative"), FORMS)
betas = st.sampled_from([0.0, 1e-3, 0.1, 1.0, 30.0])


def random_columns(rng, n, p):
    return rng.standard_normal((n, p)), rng.standard_normal(n)


def few_rows(rng, n, p):
    return random_columns(rng, max(1, p // 2), p)


def zero_columns(rng, n, p):
    F, y = random_columns(rng, n, p)
    return F * (rng.uniform(size=p) < 0.5), y


def twin_columns(rng, n, p):
    F, y = random_columns(rng, n, p)
    return F[:, rng.randint((p + 1) // 2, size=p)], y


def collinear_columns(rng, n, p):
    F, y = random_columns(rng, n, max(1, p // 2))
    return F @ rng.standard_normal((F.shape[1], p)), y


def nearly_collinear_columns(rng, n, p):
    F, y = collinear_columns(rng, n, p)
    return F + 1e-5 * rng.standard_normal(F.shape), y


def positive_columns(rng, n, p):
    F = np.abs(rng.standard_normal((n, p)))
    return F, F @ rng.uniform(-1, 2, size=p) + 0.01 * rng.standard_normal(n)


def tiny_and_huge_columns(rng, n, p):
    F, y = random_columns(rng, n, p)
    return F * 10.0 ** rng.uniform(-8, 8, size=p), y


def exact_fit(rng, n, p):
    F, _ = random_columns(rng, n, p)
    return F, F @ rng.uniform(-1, 1, size=p)


def one_perfect_map(rng, n, p):
    F, y = random_columns(rng, n, p)
    F[:, rng.randint(p)] = y
    return F, y


def zero_target(rng, n, p):
    return rng.standard_normal((n, p)), np.zeros(n)


def opposite_target(rng, n, p):
    F = np.abs(rng.standard_normal((n, p)))
    return F, -F.sum(axis=1)


KINDS = [
    random_columns,
    few_rows,
    zero_columns,
    twin_columns,
    collinear_columns,
    nearly_collinear_columns,
    positive_columns,
    tiny_and_huge_columns,
    exact_fit,
    one_perfect_map,
    zero_target,
    opposite_target,
]
QUICK = {"random_columns", "twin_columns", "positive_columns", "tiny_and_huge_columns"}
every_problem = pytest.mark.parametrize("problem", slow_but(QUICK, KINDS, attrgetter("__name__")))


def solve(F, y, kind, nonnegative, beta):
    weights = solve_mixing(NormalEquations.of(F, y, None), kind, nonnegative, beta)
    assert np.isfinite(weights).all()
    return weights


def value(weights, F, y, kind, beta):
    residual = y - F @ weights
    return 0.5 * residual @ residual + mixing.penalty(weights, kind, beta)


def assert_feasible(weights, kind, nonnegative):
    if nonnegative or kind == "simplex":
        assert (weights >= 0).all()
    if kind == "simplex":
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    if kind == "fixed_norm":
        assert np.linalg.norm(weights) <= 1 + 1e-12


def gap(weights, F, y, kind, nonnegative, beta):
    """Return a proven bound on how far the objective is above its minimum."""
    found = value(weights, F, y, kind, beta)
    residual = y - F @ weights
    slope = -F.T @ residual
    rounding = 1e-13 * np.linalg.norm(F, axis=0) * np.linalg.norm(y)  # of such a product
    if kind == "simplex":
        return slope @ weights - (slope + rounding).min()
    if kind == "fixed_norm":
        strengths = (0.0, *bracketed_strengths(F, y, nonnegative))
        return found - max(ridge_value(F, y, mu, nonnegative) - 0.5 * mu for mu in strengths)
    if kind == "l2" or beta == 0:
        return found - ridge_value(F, y, beta, nonnegative)
    # The residual, shrunk until Fᵀr ≤ β, is a feasible point of the dual problem.
    correlation = -slope if nonnegative else np.abs(slope)
    dual = residual / max(1.0, float((correlation / (beta + rounding)).max()))
    return found - (y @ dual - 0.5 * dual @ dual)


def ridge_value(F, y, strength, nonnegative):
    """Return min ½‖y − Fλ‖² + ½·strength·‖λ‖² by SciPy on unit columns."""
    design = np.vstack([F, np.sqrt(strength) * np.eye(F.shape[1])])
    scale = np.linalg.norm(design, axis=0)
    design, target = design / np.where(scale > 0, scale, 1.0), np.r_[y, np.zeros(F.shape[1])]
    if nonnegative:
        return 0.5 * nnls(design, target)[1] ** 2
    return 0.5 * np.sum((target - design @ lstsq(design, target)[0]) ** 2)


def bracketed_strengths(F, y, nonnegative):
    """Return ridge strengths, among them nearly the best lower bound of the unit ball."""
    grid = np.linalg.norm(F.T @ y) * 10.0 ** np.arange(-20.0, 2.0) + 1e-300

    def negative_bound(exponent):
        return 0.5 * 10**exponent - ridge_value(F, y, 10**exponent, nonnegative)

    best = int(np.argmin([negative_bound(e) for e in np.log10(grid)]))
    ends = np.log10([grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]])
    found = minimize_scalar(negative_bound, bounds=ends, method="bounded", options={"xatol": 1e-9})
    return [*grid, 10**found.x]


@every_form
@every_problem
@given(seed=st.integers(0, 10**6), p=st.integers(1, 7), beta=betas)
def test_the_weights_are_optimal(kind, nonnegative, problem, seed, p, beta):
    F, y = problem(np.random.RandomState(seed), 20, p)
    weights = solve(F, y, kind, nonnegative, beta)
    assert_feasible(weights, kind, nonnegative)
    size = 0.5 * y @ y + value(weights, F, y, kind, beta)
    assert gap(weights, F, y, kind, nonnegative, beta) <= 1e-9 * size + 1e-14


def scipy_solution(F, y, kind, nonnegative, beta, seed):
    """Minimise with a general-purpose solver of SciPy, over λ = u − v with u, v ≥ 0."""
    p = F.shape[1]
    if kind == "l2":
        design = np.vstack([F, np.sqrt(beta) * np.eye(p)])
        bounds = (0.0, np.inf) if nonnegative else (-np.inf, np.inf)
        return lsq_linear(design, np.r_[y, np.zeros(p)], bounds, method="bvls", tol=1e-14).x
    signed = not nonnegative and kind != "simplex"
    join = np.hstack([np.eye(p), -np.eye(p)]) if signed else np.eye(p)

    def cost(parts):
        slope = -join.T @ (F.T @ (y - F @ (join @ parts)))
        linear = beta * parts.sum() if kind == "l1" else 0.0
        residual = y - F @ (join @ parts)
        return 0.5 * residual @ residual + linear, slope + (beta if kind == "l1" else 0.0)

    constraints = {
        "simplex": [{"type": "eq", "fun": lambda parts: parts.sum() - 1}],
        "fixed_norm": [{"type": "ineq", "fun": lambda parts: 1 - np.sum((join @ parts) ** 2)}],
    }.get(kind, [])
    start = np.random.RandomState(seed).dirichlet(np.ones(join.shape[1]))
    found = minimize(
        cost,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, None)] * join.shape[1],
        constraints=constraints,
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return join @ found.x


@every_form
@pytest.mark.parametrize(
    "problem",
    [random_columns, few_rows, zero_columns, twin_columns, collinear_columns, opposite_target],
    ids=lambda kind: kind.__name__,
)
@pytest.mark.parametrize("p", [1, 2, 5])
@pytest.mark.parametrize("beta", [0.1, 30.0])
def test_the_weights_match_a_general_purpose_solver(kind, nonnegative, problem, p, beta):
    F, y = problem(np.random.RandomState(p), 20, p)
    ours = value(solve(F, y, kind, nonnegative, beta), F, y, kind, beta)
    theirs = value(scipy_solution(F, y, kind, nonnegative, beta, p), F, y, kind, beta)
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-12)


@every_form
@given(seed=st.integers(0, 10**6), p=st.integers(2, 5))
def test_full_rank_weights_are_unique(kind, nonnegative, seed, p):
    F, y = random_columns(np.random.RandomState(seed), 20, p)
    weights = solve(F, y, kind, nonnegative, 0.5)
    expected = scipy_solution(F, y, kind, nonnegative, 0.5, seed)
    np.testing.assert_allclose(weights, expected, atol=2e-5)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_a_strong_l1_penalty_gives_exact_zeros(nonnegative, rng):
    F, y = random_columns(rng, 20, 6)
    edge = np.abs(F.T @ y).max()
    assert not solve(F, y, "l1", nonnegative, 1.001 * edge).any()
    assert np.count_nonzero(solve(F, y, "l1", False, 0.999 * edge)) == 1


def test_l1_keeps_negative_weights(rng):
    # The shrinkage as the paper prints it would lose them.
    F = np.eye(3)
    weights = solve(F, np.array([-2.0, 0.5, 3.0]), "l1", False, 1.0)
    np.testing.assert_allclose(weights, [-1.0, 0.0, 2.0], atol=1e-14)


def test_a_nonnegative_solution_is_not_a_clipped_one():
    F = np.array([[1.0, 0.9], [0.0, 0.5]])
    y = np.array([1.0, -1.0])
    free = solve(F, y, "l2", False, 0.0)
    assert free[1] < 0
    bound = solve(F, y, "l2", True, 0.0)
    np.testing.assert_allclose(bound, [1.0, 0.0], atol=1e-14)
    assert not np.allclose(bound, np.maximum(free, 0.0))


@pytest.mark.parametrize("nonnegative", [False, True])
def test_fixed_norm_leaves_a_short_solution_alone(nonnegative, rng):
    F = np.linalg.qr(rng.standard_normal((20, 3)))[0]
    truth = np.array([0.1, 0.5, 0.2])
    np.testing.assert_allclose(solve(F, F @ truth, "fixed_norm", nonnegative, 0.0), truth)
    long = solve(F, F @ (10 * truth), "fixed_norm", nonnegative, 0.0)
    np.testing.assert_allclose(long, truth / np.linalg.norm(truth), rtol=1e-9)


@every_form
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_sums_that_overflowed_are_an_error(kind, nonnegative, bad):
    sums = NormalEquations(np.diag([1.0, bad]), np.ones(2), 1.0, 1.0)
    with pytest.raises(FloatingPointError, match=r"overflowed.*scale_inputs=True"):
        solve_mixing(sums, kind, nonnegative, 0.1)


@given(seed=st.integers(0, 10**6), p=st.integers(1, 6), kind=st.sampled_from(mixing.MIXINGS))
def test_the_initial_weights_are_feasible(seed, p, kind):
    weights = mixing.initial_weights(p, kind, np.random.RandomState(seed))
    assert weights.shape == (p,)
    assert_feasible(weights, kind, nonnegative=True)
