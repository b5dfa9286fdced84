"""What rows nearby say, against kernel ridge regressions written out over the rows."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from polyadic import FeatureLearningClassifier, FeatureLearningRegressor, load, save
from polyadic.compute import ComputeSpec
from polyadic.members import name_beside
from polyadic.model.losses import Logistic, Multinomial
from polyadic.rows.inputs import Inputs
from polyadic.rows.scaling import InputScaling, TargetScaling
from polyadic.rows.view import View
from polyadic.search.learned import short_tables
from polyadic.search.near import Known, NearPart, RowSum, choose_near_rows
from tests.search.ways import kernel, learn


def clumps(n, seed):
    """Return rows in clumps, and the clump of each."""
    rng = np.random.RandomState(seed)
    middles = np.random.RandomState(9).uniform(size=(150, 3))
    clump = rng.randint(150, size=n)
    return np.clip(middles[clump] + 0.004 * rng.standard_normal((n, 3)), 0, 1), clump


def rough(n=400, seed=0, noise=0.02):
    """Each clump has a level of its own, which smooth terms of low rank miss."""
    X, clump = clumps(n, seed)
    levels = np.random.RandomState(10).standard_normal(150)
    return X, np.sin(5 * X[:, 0]) + 0.5 * levels[clump] + noise * np.random.RandomState(
        seed
    ).standard_normal(n)


def rough_classes(n=400, seed=0):
    """Each clump has a class of its own, of three; one row of thirty has another."""
    X, clump = clumps(n, seed)
    rng = np.random.RandomState(seed)
    labels = np.random.RandomState(10).randint(3, size=150)[clump]
    return X, np.where(rng.uniform(size=n) < 1 / 30, rng.randint(3, size=n), labels)


INPUTS = Inputs.of_numbers("abc")
QUICK = {"n_estimators": 2, "effort": 0.2, "random_state": 0, "n_jobs": 1, "verbose": 0}


def quick(**options):
    return FeatureLearningRegressor(**{**QUICK, **options})


@pytest.fixture(scope="module")
def features():
    return learn(*rough())[0]


def respond(member, X):
    with ComputeSpec(n_jobs=1).open() as compute:
        return member.respond(X, 0, compute.predict)


def near_members(model):
    names = [name_beside(each) for each in model.members_[len(model.alpha_) :]]
    return names.count("sum over rows nearby")


def test_kernel_of_a_usual_pair_has_the_reach(features):
    X, _ = rough()
    K = kernel(features, X, X, short_tables(features, INPUTS, X, 0.3))
    assert np.median(K) == pytest.approx(np.exp(-1 / 0.3), abs=0.01)
    assert np.median(K.diagonal()) > 0.8


def test_member_is_the_ridge_regression_of_that_kernel(features):
    X, _ = rough(80)
    known = Known(X, np.random.RandomState(0).standard_normal((80, 1)), np.ones(80))
    layout = short_tables(features, INPUTS, X, 0.1)
    member = RowSum(features, layout, 0.3).member(known)
    K, beside = (kernel(features, Z, X, layout) for Z in (X, X[:7] + 0.01))
    expected = beside @ np.linalg.solve(K + 0.3 * np.eye(80), known.y)
    np.testing.assert_allclose(respond(member, X[:7] + 0.01), expected[:, 0], atol=1e-9)


def test_a_row_of_weight_two_counts_as_two(features):
    X, _ = rough(60)
    rest = np.random.RandomState(0).standard_normal((60, 1))
    weight = np.repeat([2.0, 1.0], [20, 40])
    near = RowSum(features, short_tables(features, INPUTS, X, 0.1), 0.3)
    twice = Known(np.vstack([X, X[:20]]), np.vstack([rest, rest[:20]]), np.ones(80))
    np.testing.assert_allclose(
        respond(near.member(Known(X, rest, weight)), X),
        respond(near.member(twice), X),
        atol=1e-9,
    )


@pytest.mark.parametrize("engine", ["reference", "compiled", "torch"])
def test_targets_together_are_those_one_by_one(features, engine):
    if engine == "torch":
        pytest.importorskip("torch")
    X, _ = rough(70)
    known = Known(X, np.random.RandomState(0).standard_normal((70, 3)), np.ones(70))
    near = RowSum(features, short_tables(features, INPUTS, X, 0.1), 0.3, 1.7)
    new, member = rough(200, seed=3)[0], near.member(known)
    K, beside = (kernel(features, Z, X, near.layout) for Z in (X, new))
    expected = 1.7 * beside @ np.linalg.solve(K + 0.3 * np.eye(70), known.y)
    with ComputeSpec(engine=engine, n_jobs=1).open() as compute:
        together = member.respond_all(new, compute.predict)
        each = [member.respond(new, target, compute.predict) for target in range(3)]
        assert member.respond_all(new[:0], compute.predict).shape == (0, 3)
    np.testing.assert_allclose(together, expected, atol=1e-9)
    np.testing.assert_allclose(np.column_stack(each), expected, atol=1e-9)


@pytest.mark.parametrize("loss", [Logistic(), Multinomial((0.0, 1.0, 2.0))])
def test_labels_are_contrasted_with_the_shares_of_their_classes(loss):
    labels = np.array([0, 1, 1, 0, 1, 1.0] if type(loss) is Logistic else [0, 1, 2, 2, 2, 0.0])
    start, spread = loss.start(labels[:, None], None)
    view = View(InputScaling.identity(1), TargetScaling(start, spread), loss=loss)
    of_class = labels[:, None] == ([1.0] if type(loss) is Logistic else [0.0, 1.0, 2.0])
    expected = of_class - of_class.mean(axis=0)
    np.testing.assert_allclose(view.label_contrasts(labels[:, None]), expected, atol=1e-12)


def part_of_numbers(X, n, seed, share):
    """Return rows of which nothing is said, so that all is left over: a rough function, noise."""
    rng = np.random.RandomState(seed)
    y = (share * np.sign(np.sin(40 * X[:, 0])) + 0.3 * rng.standard_normal(len(X)))[:, None]
    known = Known(X[:n], y[:n], np.ones(n))
    said = np.zeros((len(X) - n, 1))
    return NearPart(known, X[n:], np.ones(len(said)), said, lambda f: y[n:] - f)


def choose(parts, features, of_classes=False):
    return choose_near_rows(parts, features, INPUTS, of_classes)


def test_held_out_rows_choose(features):
    X, _ = rough(300)
    with ComputeSpec(n_jobs=1).open():  # one thread, as in a fit
        assert (
            choose_near_rows([part_of_numbers(X, 200, 0, 1.0)], features, INPUTS, False) is not None
        )
        noise = [part_of_numbers(X, 200, seed, 0.0) for seed in range(4)]
        found = [choose([each], features) for each in noise]
    # Of noise alone nothing is remembered, but by chance.
    assert sum(each is not None for each in found) <= 1


def part_of_classes(X, labels, n, said):
    """Return rows of two classes, judged by the log-loss of what members and rows nearby say."""
    y = (labels == 1).astype(float)[:, None]

    def judge(f):
        return np.logaddexp(0, -(2 * y[n:, 0] - 1) * f[:, 0])

    known = Known(X[:n], y[:n] - y[:n].mean(), np.ones(n))
    return NearPart(known, X[n:], np.ones(len(X) - n), said[n:], judge)


def test_held_out_rows_choose_the_shares_of_classes(features):
    X, labels = rough_classes(500)
    useless = 3 * np.random.RandomState(0).standard_normal((500, 1))
    with ComputeSpec(n_jobs=1).open():
        of_rows = choose_near_rows(
            [part_of_classes(X, labels, 350, useless)], features, INPUTS, True
        )
        chance = np.random.RandomState(1).permutation(labels)
        of_chance = choose_near_rows(
            [part_of_classes(X, chance, 350, 0 * useless)], features, INPUTS, True
        )
    # What says nothing about the classes keeps as little as it may.
    assert of_rows.others == pytest.approx(0.05, abs=0.05)
    assert of_rows.sums[0].share > 1
    assert of_chance is None


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(*rough())


@pytest.mark.slow
def test_fit_remembers_rows_unless_the_model_is_named(fitted):
    X, y = rough(seed=1)
    assert near_members(fitted) == 1
    assert near_members(quick(rank=8).fit(*rough())) == 0
    without = copy(fitted)
    without.members_ = fitted.members_[:-1]
    assert np.mean((fitted.predict(X) - y) ** 2) < 0.95 * np.mean((without.predict(X) - y) ** 2)


def test_errors_are_those_with_rows_nearby(fitted):
    X, y = rough(3_000, seed=5)
    low, high = fitted.predict_interval(X, 0.8).T
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.8, abs=0.12)  # 160 rows calibrate


@pytest.mark.slow
def test_classes_of_rows_nearby(tmp_path):
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 4], y[y < 4]
    settings = {**QUICK, "effort": 0.3}
    fitted = FeatureLearningClassifier(**settings).fit(X[:400], y[:400])
    assert near_members(fitted) == 1
    named = FeatureLearningClassifier(**settings, rank=8).fit(X[:400], y[:400])
    assert near_members(named) == 0
    better, worse = (log_loss(y[400:], each.predict_proba(X[400:])) for each in (fitted, named))
    assert better < 0.5 * worse
    save(fitted, tmp_path / "model.polyadic")
    again = load(tmp_path / "model.polyadic")
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    # What the targets have in common is in the file once.
    assert again.members_[-1].model.first_cores is not None
