"""The model of how large errors are where, against scales that are known."""

import numpy as np
import pytest

import polyadic
from polyadic import FeatureLearningRegressor
from polyadic.compute import Compute
from polyadic.engines.reference import ReferenceEngine
from polyadic.features.tables import N_KNOTS, Table, knots
from polyadic.rows.inputs import Inputs
from polyadic.rows.scaling import InputScaling
from polyadic.search.scales import learn_scale
from polyadic.search.trend import Product, additive_member


def respond(member, X):
    return member.respond(X, 0, Compute(ReferenceEngine()).predict)


def test_products_are_added_to_a_sum(rng):
    x = np.clip(knots(), 0.0, 1.0)
    line, bend = Table(0.0, 1.0, x[:, None]), Table(0.0, 1.0, np.column_stack([x, x**2]))
    products = [Product(0, x, 3, 2 * x**2), Product(2, x - 1, 0, x**2)]
    coefficients = np.array([[3.0], [-1.0], [4.0], [0.5], [7.0]])
    tables = [line, None, bend, line]
    member = additive_member(InputScaling.identity(4), tables, coefficients, products)
    X = rng.uniform(size=(50, 4))
    a, _, b, c = X.T
    expected = 3 * a - b + 4 * b**2 + 0.5 * c + 7 + a * 2 * c**2 + (b - 1) * a**2
    np.testing.assert_allclose(respond(member, X), expected, atol=20 / N_KNOTS**2)


@pytest.fixture
def learn(rng):
    def learn(n, log_variance, gaps=False):
        """Return log s² as it is learned and as it is, of new rows."""
        X = rng.uniform(size=(n + 1_000, 3))
        truth = log_variance(*X.T)
        errors = np.exp(truth / 2) * rng.standard_normal(len(X))
        if gaps:
            X[rng.uniform(size=X.shape) < 0.1] = np.nan
        # The response, familiarity and spread of these rows tell nothing.
        extended = np.hstack([X, rng.standard_normal((len(X), 3))])
        inputs = Inputs(("a", "b", "c"), (0, 0, 0))
        member, predicted = learn_scale(
            extended[:n], errors[:n], np.ones(n), np.arange(n), inputs, [True] * 3
        )
        assert len(predicted) == n
        return member, respond(member, extended[n:]), truth[n:]

    return learn


def is_sum(member, n_columns):
    """Whether a function is a sum of functions of one column each, at random pairs of rows."""
    rows, others = np.random.RandomState(0).uniform(size=(2, 100, n_columns))
    both = respond(member, rows) + respond(member, others)
    moved = []
    for d in range(n_columns):
        swapped = rows.copy(), others.copy()
        swapped[0][:, d], swapped[1][:, d] = others[:, d], rows[:, d]
        moved.append(np.abs(respond(member, swapped[0]) + respond(member, swapped[1]) - both).max())
    return max(moved) < 1e-9


def test_inputs_that_act_together(learn):
    member, found, truth = learn(4_000, lambda a, b, c: 2 * np.log(0.05 + a * b))
    assert not is_sum(member, 6)
    assert np.std(found - truth) < 0.25  # a sum alone leaves 0.36


def test_gaps_have_no_part_in_pairs(learn):
    member, found, truth = learn(4_000, lambda a, b, c: 2 * np.log(0.05 + a * b), gaps=True)
    assert not is_sum(member, 6)
    assert np.isfinite(found).all()
    assert np.corrcoef(found, truth)[0, 1] > 0.8


@pytest.mark.parametrize(
    "log_variance",
    [
        lambda a, b, c: 3 * a - 2 * (b - 0.5) ** 2,
        lambda a, b, c: 0 * a,
    ],
)
def test_sums_stay_sums(learn, log_variance):
    member, found, truth = learn(4_000, log_variance)
    assert is_sum(member, 6)
    assert np.std(found - truth) < 0.35


def test_nothing_moves(rng):
    """Columns that are all constant: a scale like any other, and no warning."""
    extended, errors = np.ones((2_000, 4)), rng.standard_normal(2_000)
    member, _ = learn_scale(
        extended, errors, np.ones(2_000), np.arange(2_000), Inputs(("a",), (0,)), [True]
    )
    found = respond(member, extended[:3])
    assert np.isfinite(found).all()
    assert np.ptp(found) == 0


@pytest.mark.slow
def test_wherever_a_scale_of_pairs_is_asked_for(rng, tmp_path):
    X = rng.uniform(size=(3_000, 2))
    y = X[:, 0] + (0.05 + X[:, 0] * X[:, 1]) * rng.standard_normal(3_000)
    model = FeatureLearningRegressor(n_estimators=1, effort=0.1, random_state=0, verbose=0)
    model.fit(X, y)
    assert not is_sum(model.uncertainty_.scale.models[0], 2 + 3)
    std = model.predict(X[:100], return_std=True)[1]
    path = tmp_path / "model.polyadic"
    polyadic.save(model, path)
    np.testing.assert_array_equal(polyadic.load(path).predict(X[:100], return_std=True)[1], std)
    pytest.importorskip("onnxruntime")
    from tests.export.graphs import assert_predicts_alike

    assert_predicts_alike(model, X[:100])
