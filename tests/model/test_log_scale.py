import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import t

from polyadic.model.log_scale import fit_log_scale


def problem(n=2_000, seed=0):
    rng = np.random.RandomState(seed)
    x = rng.standard_normal(n)
    return np.column_stack([np.ones(n), x]), np.exp(0.5 * (0.4 + 1.2 * x)) * rng.standard_t(4, n)


def test_coefficients_are_those_of_greatest_likelihood():
    B, errors = problem()
    found = fit_log_scale(B, errors, np.ones(len(B)), np.array([True, True]))

    def cost(beta):
        s = np.exp(0.5 * B @ beta)
        return -t(4).logpdf(errors / s).sum() + np.log(s).sum() + 0.5 * beta[1] ** 2

    best = minimize(cost, np.zeros(2))
    # Shrunk by a standard error, as long as that is little.
    ratio = found.coefficients[1] / best.x[1]
    assert 0.93 < ratio < 1.0
    assert found.coefficients[0] == pytest.approx(best.x[0], abs=0.01)
    np.testing.assert_allclose(found.coefficients, [0.4, 1.2], atol=0.15)


def test_columns_of_nothing_are_shrunk_and_gross_errors_move_little():
    B, errors = problem()
    rng = np.random.RandomState(1)
    wide = np.hstack([B, rng.standard_normal((len(B), 60))])
    free = np.arange(62) < 2
    found = fit_log_scale(wide, errors, np.ones(len(B)), free)
    assert np.abs(found.coefficients[2:]).max() < 0.1
    errors[:20] = 1e6
    gross = fit_log_scale(B, errors, np.ones(len(B)), np.array([True, True]))
    np.testing.assert_allclose(gross.coefficients, [0.4, 1.2], atol=0.2)


def test_where_errors_are_as_large_everywhere_no_row_is_better_known():
    rng = np.random.RandomState(0)
    spreads = []
    for _ in range(20):
        B = np.column_stack([np.ones(300), rng.standard_normal((300, 10))])
        found = fit_log_scale(B, rng.standard_normal(300), np.ones(300), np.arange(11) < 4)
        spreads.append(found.predicted.std())
    assert np.median(spreads) < 1e-12
    assert max(spreads) < 0.3


def test_what_is_predicted_for_a_row_hardly_depends_on_its_error():
    B, errors = problem(2_000)
    before = fit_log_scale(B, errors, np.ones(2_000), np.array([True, True])).predicted
    errors[7] *= 1e6
    after = fit_log_scale(B, errors, np.ones(2_000), np.array([True, True])).predicted
    assert after[7] == pytest.approx(before[7], abs=0.01)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows_and_errors_of_zero(n):
    found = fit_log_scale(np.ones((n, 1)), np.zeros(n), np.ones(n), np.array([True]))
    assert np.isfinite(found.coefficients).all()
    assert np.isfinite(found.predicted).all()
