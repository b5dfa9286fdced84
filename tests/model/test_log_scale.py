import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import t

from polyadic.model import log_scale
from polyadic.model.log_scale import LogScale, fit_log_scale


def fit(B, errors, blocks=None, likely=None, keys=None) -> LogScale:
    p = B.shape[1]
    return fit_log_scale(
        B,
        errors,
        np.ones(len(B)),
        np.arange(p) - 1 if blocks is None else blocks,
        np.zeros(p, dtype=bool) if likely is None else likely,
        np.random.RandomState(3).permutation(len(B)) if keys is None else keys,
    )


def problem(n=2_000, seed=0):
    rng = np.random.RandomState(seed)
    x = rng.standard_normal(n)
    return np.column_stack([np.ones(n), x]), np.exp(0.5 * (0.4 + 1.2 * x)) * rng.standard_t(4, n)


def test_coefficients_are_those_of_greatest_likelihood():
    B, errors = problem()
    found = fit(B, errors)

    def cost(beta):
        s = np.exp(0.5 * B @ beta)
        return -t(4).logpdf(errors / s).sum() + np.log(s).sum()

    best = minimize(cost, np.zeros(2))
    # With so many rows a penalty that the evidence finds leaves nearly all of it.
    np.testing.assert_allclose(found.coefficients, best.x, rtol=0.02, atol=0.01)
    np.testing.assert_allclose(found.coefficients, [0.4, 1.2], atol=0.15)


def test_a_penalty_is_that_of_greatest_evidence():
    # Laplace's evidence over a grid, with the prior that the strength of a block has.
    rng = np.random.RandomState(5)
    n, p = 1_500, 6
    B = np.column_stack([np.ones(n), rng.standard_normal((n, p))])
    truth = np.append(0.3, 0.15 * rng.standard_normal(p))
    errors = np.exp(0.5 * B @ truth) * rng.standard_t(4, n)
    squares = errors**2
    part = log_scale._Part.of(
        B, squares, np.ones(n), np.full(n, True), np.minimum(np.arange(7), 1) - 1
    )
    usual = 50.0
    found = part.learn(np.full(p + 1, usual))

    def minus_evidence(penalty):
        diagonal = np.append(1e-9, np.full(p, penalty))
        beta = log_scale._climb(B, squares, np.ones(n), diagonal)
        value = log_scale._cost(squares, B @ beta).sum() + 0.5 * diagonal @ beta**2
        value += 0.5 * np.linalg.slogdet(part.information + np.diag(diagonal))[1]
        value -= 0.5 * p * np.log(penalty)
        return value + 0.5 * log_scale._DOUBT * (penalty / usual - np.log(penalty)), beta

    best = min((minus_evidence(each) for each in np.geomspace(2, 2_000, 60)), key=lambda e: e[0])
    np.testing.assert_allclose(found, best[1], rtol=0.05, atol=0.002)


def test_one_block_does_not_pay_for_the_others():
    rng = np.random.RandomState(0)
    n = 800
    x, others = rng.uniform(-1, 1, n), rng.standard_normal((n, 40))
    errors = np.exp(0.5 * 3 * x) * rng.standard_normal(n)
    B = np.column_stack([np.ones(n), x / x.std(), others])
    apart = fit(B, errors, np.array([-1, 0, *np.repeat(np.arange(1, 11), 4)]))
    slope = apart.coefficients[1] / x.std()
    assert slope == pytest.approx(3, abs=0.3)
    assert np.abs(apart.coefficients[2:]).max() < 0.08


def test_columns_of_nothing_are_shrunk_and_gross_errors_move_little():
    B, errors = problem()
    rng = np.random.RandomState(1)
    wide = np.hstack([B, rng.standard_normal((len(B), 60))])
    found = fit(wide, errors, np.minimum(np.arange(62) - 1, 1))
    assert np.abs(found.coefficients[2:]).max() < 0.1
    errors[:20] = 1e6
    gross = fit(B, errors)
    np.testing.assert_allclose(gross.coefficients, [0.4, 1.2], atol=0.2)


def test_where_errors_are_as_large_everywhere_no_row_is_better_known():
    rng = np.random.RandomState(0)
    spreads = []
    for _ in range(20):
        B = np.column_stack([np.ones(300), rng.standard_normal((300, 10))])
        found = fit(B, rng.standard_normal(300), likely=(np.arange(11) > 0) & (np.arange(11) < 4))
        spreads.append(found.predicted.std())
    assert np.median(spreads) < 1e-12
    assert max(spreads) < 0.3


def test_what_is_predicted_for_a_row_hardly_depends_on_its_error():
    B, errors = problem(2_000)
    before = fit(B, errors).predicted
    errors[7] *= 1e6
    after = fit(B, errors).predicted
    assert after[7] == pytest.approx(before[7], abs=0.01)


def test_rows_of_one_key_do_not_tell_of_each_other():
    # Each row is there twice, with an error that nothing explains: a fold must not know its twin.
    rng = np.random.RandomState(0)
    n = 150
    B = np.column_stack([np.ones(n), rng.standard_normal((n, 60))])
    errors = rng.standard_normal(n) ** 3
    twice, keys = np.vstack([B, B]), np.tile(rng.permutation(n), 2)
    known = fit(twice, np.tile(errors, 2), np.minimum(np.arange(61), 1) - 1)
    apart = fit(twice, np.tile(errors, 2), np.minimum(np.arange(61), 1) - 1, keys=keys)
    assert apart.predicted.std() < 0.5 * known.predicted.std()
    np.testing.assert_allclose(apart.predicted[:n], apart.predicted[n:])


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows_and_errors_of_zero(n):
    found = fit(np.ones((n, 1)), np.zeros(n))
    assert np.isfinite(found.coefficients).all()
    assert np.isfinite(found.predicted).all()
