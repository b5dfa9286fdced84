"""Normal equations: they add up, and their solve always gives a finite, no worse answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyadic.model.normal import NormalEquations, guarded_solve, solve_core, solve_core_guarded

seeds = st.integers(0, 10**6)


@given(seed=seeds, cut=st.integers(0, 9))
def test_the_sums_of_parts_add_to_the_sums_of_the_whole(seed, cut):
    rng = np.random.RandomState(seed)
    B, y, weight = rng.standard_normal((9, 4)), rng.standard_normal(9), rng.uniform(size=9)
    whole = NormalEquations.of(B, y, weight)
    parts = [
        NormalEquations.of(B[part], y[part], weight[part])
        for part in (slice(None, cut), slice(cut, None))
    ]
    both = parts[0] + parts[1]
    np.testing.assert_allclose(both.gram, whole.gram, atol=1e-13)
    np.testing.assert_allclose(both.moment, whole.moment, atol=1e-13)
    assert both.target_norm2 == pytest.approx(whole.target_norm2)
    assert both.total_weight == pytest.approx(whole.total_weight)


@given(seed=seeds)
def test_integer_weights_equal_repeated_rows(seed):
    rng = np.random.RandomState(seed)
    B, y, count = rng.standard_normal((6, 3)), rng.standard_normal(6), rng.randint(0, 4, 6)
    weighted = NormalEquations.of(B, y, count.astype(float))
    repeated = NormalEquations.of(np.repeat(B, count, axis=0), np.repeat(y, count), None)
    np.testing.assert_allclose(weighted.gram, repeated.gram, atol=1e-13)
    np.testing.assert_allclose(weighted.moment, repeated.moment, atol=1e-13)
    assert weighted.total_weight == repeated.total_weight


@given(seed=seeds)
def test_the_squared_error_is_that_of_the_residual(seed):
    rng = np.random.RandomState(seed)
    B, y, v = rng.standard_normal((6, 3)), rng.standard_normal(6), rng.standard_normal(3)
    equations = NormalEquations.of(B, y, None)
    assert equations.squared_error(v) == pytest.approx(np.sum((y - B @ v) ** 2), rel=1e-10)


def test_the_squared_error_of_an_exact_fit_is_not_negative(rng):
    B, v = rng.standard_normal((50, 3)), rng.standard_normal(3)
    assert 0 <= NormalEquations.of(B, B @ v, None).squared_error(v) < 1e-12


def test_single_precision_rows_are_summed_in_double():
    rows = np.full((10**5, 1), 0.1, dtype=np.float32)
    equations = NormalEquations.of(rows, rows[:, 0], None)
    assert equations.gram.dtype == np.float64
    assert equations.target_norm2 == pytest.approx(10**5 * float(rows[0, 0]) ** 2, rel=1e-12)


def design(kind, rng, is_complex):
    A = rng.standard_normal((12, 5))
    if is_complex:
        A = A + 1j * rng.standard_normal(A.shape)
    match kind:
        case "twins":
            A[:, 1] = A[:, 0]
        case "wide":
            A = A[:3]
        case "zero column":
            A[:, 2] = 0
        case "all zero":
            A[:] = 0
        case "nearly collinear":
            A[:, 1] = A[:, 0] * (1 + 1e-9) + 1e-9 * A[:, 1]
        case "scales":
            A = A * 10.0 ** np.array([-80, -8, 0, 8, 80])
        case "tiny":
            A = A * 1e-150
        case "huge":
            A = A * 1e150
    return A, rng.standard_normal(len(A))


KINDS = ["sound", "twins", "wide", "zero column", "all zero", "nearly collinear"]


@pytest.mark.parametrize("kind", [*KINDS, "scales", "tiny", "huge"])
@pytest.mark.parametrize("is_complex", [False, True])
@given(seed=seeds)
def test_a_solve_is_finite_and_no_worse_than_where_it_started(kind, is_complex, seed):
    rng = np.random.RandomState(seed)
    A, y = design(kind, rng, is_complex)
    current = rng.standard_normal(A.shape[1]) / max(1.0, float(np.abs(A).max()))
    matrix, moment = A.conj().T @ A, A.conj().T @ y
    answer, jitter = guarded_solve(matrix, moment, current, scale=y @ y)
    assert np.isfinite(answer).all()
    assert jitter == 0 or kind not in ("sound", "scales", "zero column", "tiny", "huge")
    before, after = (np.sum(np.abs(y - A @ v) ** 2) for v in (current, answer))
    assert after <= before + 1e-9 * (y @ y)
    if kind in KINDS and kind != "nearly collinear":
        best = np.sum(np.abs(y - A @ np.linalg.lstsq(A, y, rcond=None)[0]) ** 2)
        assert after <= best + 1e-6 * (y @ y)


def test_a_singular_system_says_so():
    A = np.ones((5, 2))
    answer, jitter = guarded_solve(A.T @ A, A.T @ np.ones(5), np.zeros(2), scale=5.0)
    assert jitter > 0
    np.testing.assert_allclose(A @ answer, 1.0, rtol=1e-6)


def test_a_zero_system_answers_zero():
    answer, jitter = guarded_solve(np.zeros((3, 3)), np.zeros(3), np.ones(3), scale=1.0)
    np.testing.assert_array_equal(answer, 0.0)
    assert jitter == 0


@pytest.mark.parametrize("slope", [5.0, 1.005], ids=["beyond jitter", "within jitter"])
def test_an_indefinite_system_keeps_what_it_had(slope):
    # Rounding alone can make a Gram matrix so; the old core is finite, and better than zero.
    current = np.array([1.0, -1.0])
    matrix = np.array([[1.0, slope], [slope, 1.0]])
    answer, jitter = guarded_solve(matrix, np.zeros(2), current, scale=1.0)
    np.testing.assert_array_equal(answer, current)
    assert jitter > 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_sums_that_overflowed_are_an_error(bad):
    with pytest.raises(FloatingPointError, match=r"overflowed.*scale_inputs=True"):
        guarded_solve(np.eye(2), np.array([1.0, bad]), np.zeros(2), scale=1.0)
    with pytest.raises(FloatingPointError, match="overflowed"):
        guarded_solve(np.diag([1.0, bad]), np.zeros(2), np.zeros(2), scale=1.0)


@pytest.mark.parametrize("objective", ["real", "complex"])
@pytest.mark.parametrize("is_complex", [False, True])
@given(seed=seeds)
def test_a_core_without_data_or_penalty_stays_finite(objective, is_complex, seed):
    core = np.random.RandomState(seed).standard_normal((2, 3)).astype(complex)
    core = core if is_complex else core.real
    size = core.size * (2 if is_complex else 1)
    empty = NormalEquations(np.zeros((size, size)), np.zeros(size), 0.0, 0.0)
    solution = solve_core(empty, np.zeros((3, 3), dtype=core.dtype), core, 0.0, objective)
    assert solution.value.shape == core.shape
    assert np.isfinite(solution.value).all()


def core_problem(rng, size, rank, field, n_rows):
    """Return sums, the Gram of the other cores and a current core, all random."""
    draw = rng.standard_normal
    current, other = draw((size, rank)), draw((rank + 1, rank))
    if field is complex:
        current, other = current + 1j * draw((size, rank)), other + 1j * draw((rank + 1, rank))
    columns = size * rank * (2 if field is complex else 1)
    equations = NormalEquations.of(draw((n_rows, columns)), draw(n_rows), None)
    return equations, other.conj().T @ other, current


@pytest.mark.parametrize(
    ("field", "objective"), [(complex, "complex"), (complex, "real"), (float, "real")]
)
@pytest.mark.parametrize(("size", "rank"), [(2, 1), (2, 9), (5, 4)])
def test_the_compiled_solve_is_the_plain_one(rng, field, objective, size, rank):
    problem = core_problem(rng, size, rank, field, 200)
    found = solve_core(*problem, 0.3, objective)
    expected = solve_core_guarded(*problem, 0.3, objective)
    assert found.jitter == expected.jitter == 0.0
    np.testing.assert_allclose(found.value, expected.value, rtol=0, atol=1e-12)


@pytest.mark.parametrize("objective", ["complex", "real"])
def test_what_is_not_sound_is_left_to_the_plain_solve(rng, objective):
    problem = core_problem(rng, 2, 4, complex, 3)  # fewer rows than unknowns, no penalty
    found = solve_core(*problem, 0.0, objective)
    expected = solve_core_guarded(*problem, 0.0, objective)
    assert found.jitter == expected.jitter > 0
    np.testing.assert_array_equal(found.value, expected.value)
