"""The search under a loss: what features are learned from, what judges, and what is shared out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.preprocessing import StandardScaler

from polyadic import FeatureLearningClassifier, FeatureLearningRegressor
from polyadic.compute import ComputeSpec
from polyadic.features import PurePowerFeatures
from polyadic.model.losses import Gamma, Huber, Logistic, Multinomial, Poisson, Quantile
from polyadic.rows.rows import Rows
from polyadic.rows.view import Fade, standard_prediction
from polyadic.search.first_look import look_at, rows_for_features
from polyadic.search.groups import Group
from polyadic.search.learned import learn_features
from polyadic.search.loss_trend import loss_trend
from polyadic.search.search import Search
from polyadic.search.settings import Settings
from polyadic.search.shares import likely_shares
from polyadic.search.trend import linear_trend
from tests.small import data_of, respond_reference


def two_classes(n=160, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, 3))
    odds = 6 * np.sin(6 * X[:, 0]) + 2 * X[:, 1]
    return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-odds))).astype(float)


def searched(X, y, loss, **settings):
    """Return the data, the search at its end, and its members."""
    data = data_of(X, y[:, None], merge=True).under(loss)
    chosen = Settings(effort=0.3, **settings)
    with ComputeSpec(n_jobs=1).open() as compute:
        features = learn_features(rows_for_features(data), chosen, compute.workers)[:2]
        search = Search(data, features, chosen, (3, 4), compute)
        members = search.run()
    return data, search, members


@pytest.fixture(scope="module")
def classes():
    return searched(*two_classes(), Logistic())


def judge(data, search, trial):
    """Return labels and mean responses of the rows that each group holds out."""
    judged = []
    for index, (seed, _) in enumerate(zip(search._seeds, search._groups, strict=True)):
        _, held = data.split(search._settings.validation_fraction, seed)
        rows = data.gather_rows(held)
        members = [
            seat.member(model, 1.0)
            for seat, model in zip(search.seats, trial.models, strict=True)
            if seat.group == index and seat.way in trial.ways
        ]
        each = [standard_prediction([m], rows.X, respond_reference)[:, 0] for m in members]
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        judged.append((rows.y[:, 0], np.mean(each, axis=0), weight))
    return judged


def log_loss(f, y, weight, start):
    """Return the mean log-loss, and that of one row more whose label is drawn at random."""
    p = 1 / (1 + np.exp(-f))
    share = 1 / (1 + np.exp(-start))
    losses = -(y * np.log(p) + (1 - y) * np.log(1 - p))
    doubt = -(share * np.log(p) + (1 - share) * np.log(1 - p))
    return np.average(losses + doubt / len(y), weights=weight)


def test_trials_are_judged_by_the_loss_of_held_out_rows_after_the_best_stretch(classes):
    data, search, _ = classes
    start = data.view.targets.mean[0]
    trial = search._start()
    judged = judge(data, search, trial)
    stretches = np.linspace(0, 3, 3001)
    expected = np.mean(
        [min(log_loss(start + t * f, y, w, start) for t in stretches) for y, f, w in judged]
    )
    np.testing.assert_allclose(trial.error, expected, rtol=1e-4)
    assert search.log[0]["held_out_loss"] > 0
    assert "held_out_mse" not in search.log[0]


def test_the_share_is_the_mean_of_those_that_held_out_rows_find_likely(classes, monkeypatch):
    data, search, _ = classes
    monkeypatch.setattr(Group, "line", lambda self, compute: np.zeros((len(self), 1)))
    start = data.view.targets.mean[0]
    trial = search._start()
    judged = judge(data, search, trial)

    def error(share):
        return np.mean([log_loss(start + share * f, y, w, start) for y, f, w in judged])

    share, trend = search._shares(trial)
    shares = np.linspace(0, 3, 3001)
    n_rows = sum(len(y) for y, _, _ in judged)
    costs = n_rows * np.array([error(each) for each in shares])
    expected = np.average(shares, weights=np.exp(costs.min() - costs))
    np.testing.assert_allclose(share, expected, atol=0.01)
    assert trend == 0.0


@pytest.mark.parametrize("n_rows", [3, 60, 10**6])
def test_shares_are_the_mean_of_the_likely_ones(n_rows):
    """By summing over a fine grid; the more rows tell, the nearer to the best."""

    def error(shares):
        return 0.3 * (shares[0] + shares[1] - 1.2) ** 2 + 0.2 * (shares[1] - 0.3) ** 2 + 0.5

    found = likely_shares(error, (0.9, 0.3), n_rows, 3.0, True)
    stretch, part = np.meshgrid(np.linspace(0, 3, 1201), np.linspace(0, 1, 1201), indexing="ij")
    both = (1 - part) * stretch, part * stretch
    weight = np.exp(-n_rows * (error(both) - 0.5))
    expected = [np.average(each, weights=weight) for each in both]
    np.testing.assert_allclose(found, (0.9, 0.3) if n_rows > 1000 else expected, atol=0.02)


def test_shares_without_a_line_are_all_of_the_model():
    model, line = likely_shares(lambda shares: (shares[0] - 1) ** 2, (1.0, 0.0), 10**4, 3.0, False)
    assert line == 0.0
    assert model == pytest.approx(1.0, abs=1e-3)


def test_growing_leaves_responses_as_they_are_under_a_loss(classes):
    _, search, _ = classes
    trial = search._start()
    cores = trial.models[0].cores[0]
    larger = search._grown(cores, 2 * trial.rank, np.random.RandomState(0))
    assert larger[0].shape[1] == 2 * trial.rank
    grams = [np.prod([core.T @ core for core in each], axis=0) for each in (cores, larger)]
    # The squared norm of a tensor is the sum of the product of its cores' Grams.
    assert grams[1].sum() == pytest.approx(grams[0].sum(), rel=1e-12)
    assert np.abs(larger[1][:, trial.rank :]).min() > 0


def test_a_trend_takes_part_where_it_says_more_than_the_mean(classes, monkeypatch):
    """Where the trend knows the labels, it has nearly all of the shares."""
    _, search, _ = classes
    trial = search._start()
    monkeypatch.setattr(Group, "line", lambda self, compute: 2.0 * (2 * self._y - 1))
    mean, trend = search._shares(trial)
    assert trend > 1.0
    assert mean < 0.5


def test_members_share_what_the_held_out_rows_want(classes):
    _, _, members = classes
    shares = [member.share for member in members if member.layout.maps[0] != PurePowerFeatures()]
    assert len(set(shares)) == 1
    assert 0 < sum(shares) <= 3


def test_of_noise_nothing_is_left():
    rng = np.random.RandomState(1)
    X, y = rng.uniform(size=(200, 3)), rng.choice([0.0, 1.0], 200)
    _, _, members = searched(X, y, Logistic())
    assert sum(member.share for member in members) < 0.5


def test_quantiles_are_moved_to_where_held_out_rows_want_them():
    rng = np.random.RandomState(2)
    X = rng.uniform(size=(300, 2))
    y = np.sin(5 * X[:, 0]) + (0.2 + X[:, 1]) * rng.standard_normal(300)
    data, search, members = searched(X, y, Quantile(0.9))
    assert search.targets.mean != data.view.targets.mean
    np.testing.assert_array_equal(search.targets.scale, data.view.targets.scale)
    fresh = rng.uniform(size=(3000, 2))
    truth = np.sin(5 * fresh[:, 0]) + (0.2 + fresh[:, 1]) * rng.standard_normal(3000)
    f = search.targets.undo(standard_prediction(members, fresh, respond_reference))[:, 0]
    assert 0.84 < (truth < f).mean() < 0.95


def test_features_are_learned_from_targets_that_squares_can_take():
    X = np.random.RandomState(0).uniform(size=(60, 2))
    labels = np.repeat([0.0, 1.0, 2.0], 20)
    three = rows_for_features(data_of(X, labels[:, None]).under(Multinomial((0.0, 1.0, 2.0))))
    assert three.n_targets == 3
    assert three.view.loss is None
    np.testing.assert_array_equal(three.gather_rows(None).y, np.eye(3)[labels.astype(int)])
    counts = labels[:, None] + 1
    assert (
        rows_for_features(data_of(X, counts).under(Poisson())).gather_rows(None).y ** 2
    ).max() == (pytest.approx(3.0))
    logs = rows_for_features(data_of(X, counts).under(Gamma())).gather_rows(None).y
    np.testing.assert_allclose(logs, np.log(counts))
    gross = np.random.RandomState(0).standard_normal((60, 1))
    gross[0] = 1e6
    drawn_in = rows_for_features(data_of(X, gross).under(Huber())).gather_rows(None).y
    assert drawn_in.max() < 10
    np.testing.assert_array_equal(drawn_in[1:], gross[1:])
    plain = data_of(X, gross)
    assert rows_for_features(plain) is plain


def test_many_classes_teach_features_by_the_most_frequent():
    labels = np.repeat(np.arange(30.0), np.arange(1, 31))
    columns = Multinomial(tuple(range(30))).feature_targets(labels[:, None])
    assert columns.shape == (465, 12)
    assert columns.sum() == sum(range(19, 31))


@pytest.mark.slow
def test_a_first_look_narrows_a_robust_loss_and_far_rows_count_for_little():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(300, 2))
    y = np.sin(6 * X[:, 0]) + 0.02 * rng.standard_normal(300)
    y[::30] += 50
    data = data_of(X, y[:, None]).under(Huber())
    chosen = Settings(effort=0.3)
    with ComputeSpec(n_jobs=1).open() as compute:
        plain = learn_features(rows_for_features(data), chosen, compute.workers)
        seen, features = look_at(data, chosen, compute, compute.workers, (0, 1))
        untouched, _ = look_at(data.under(Quantile(0.9)), chosen, compute, compute.workers, (0, 1))
        weight = seen.view.count(Rows(X, y[:, None]), compute.predict).weight
    assert 0.01 <= seen.view.loss.delta < 0.1
    far = np.arange(300) % 30 == 0
    assert weight[far].max() < 1e-4
    np.testing.assert_array_equal(weight[~far], 1.0)
    assert features[0].alpha < 0.1 * plain[0].alpha  # outliers are no noise
    assert untouched.view.loss == Quantile(0.9)
    assert untouched.view.fade is None


@pytest.mark.parametrize("weight", [None, np.array([1.0, 2.0, 3.0])])
def test_the_influence_of_a_row_fades_with_the_fourth_power_of_how_far_out_it_is(weight):
    X = np.array([[0.1], [0.5], [0.9]])
    data = data_of(X, np.array([[1.0], [2.0], [3.0]]))
    line = linear_trend(data)
    said = data.view.targets.undo(standard_prediction([line], X, respond_reference))
    fade = Fade((line,), data.view.targets, np.array([0.5]), np.array([2.0]))
    y = said + 0.5 + np.array([[1.9], [-4.0], [20.0]])
    counted = fade.count(Rows(X, y, weight), respond_reference).weight
    np.testing.assert_allclose(
        counted, np.array([1.0, 0.5**4, 0.1**4]) * (1 if weight is None else weight)
    )


def test_what_far_rows_cost_does_not_drown_what_others_tell():
    rng = np.random.RandomState(0)
    X, y = rng.uniform(size=(200, 2)), rng.standard_normal((200, 1))
    y[:10] += 1e4
    data = data_of(X, y).under(Huber())
    with ComputeSpec(n_jobs=1).open() as compute:
        group = Group(data, *data.split(0.5, 0), compute)
    errors = [group.mean_loss(np.full((len(group), 1), f)) for f in (0.0, 3.0)]
    assert errors[0] < 0.75 * errors[1]


@pytest.mark.slow
def test_outliers_do_not_move_a_robust_fit():
    rng = np.random.RandomState(3)
    X = rng.uniform(size=(400, 3))
    truth = np.sin(6 * X[:, 0]) + X[:, 1]
    y = truth + 0.1 * rng.standard_normal(400)
    bad = y.copy()
    bad[::20] += rng.choice([-40, 40], 20)
    small = {"n_estimators": 2, "effort": 0.5, "random_state": 0}
    clean = FeatureLearningRegressor(**small).fit(X, y).predict(X)
    for loss in ("huber", "absolute_error"):
        robust = FeatureLearningRegressor(loss=loss, **small).fit(X, bad).predict(X)
        error = np.sqrt(((robust - truth) ** 2).mean())
        assert error < 0.06 + 1.2 * np.sqrt(((clean - truth) ** 2).mean())


def test_a_search_of_classes_goes_on_to_the_same_digit(tmp_path, monkeypatch):
    X, y = two_classes()
    options = {"n_estimators": 2, "effort": 0.3, "random_state": 0}
    whole = FeatureLearningClassifier(**options).fit(X, y)
    path = tmp_path / "fit.checkpoint"
    usual, left = Search._best_epoch, iter(range(3))

    def tire(self, *arguments):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return usual(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Search, "_best_epoch", tire)
        with pytest.raises(KeyboardInterrupt):
            FeatureLearningClassifier(**options, checkpoint=path).fit(X, y)
    assert path.exists()
    again = FeatureLearningClassifier(**options, checkpoint=path).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_trend_of_classes_is_logistic_regression(n_classes):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((300, 4)) * [1.0, 10.0, 0.1, 3.0] + 5
    score = X @ [1.0, 0.1, -5.0, 0.0] + rng.standard_normal(300)
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    loss = Logistic() if n_classes == 2 else Multinomial((0.0, 1.0, 2.0))
    data = data_of(X, y[:, None].astype(float)).under(loss)
    member = loss_trend(data)
    f = standard_prediction([member], X, respond_reference) + data.view.targets.mean
    # All classes move at once, so that many steps are needed for the last digits of three.
    other = LogisticRegression(tol=1e-8, max_iter=1000).fit(StandardScaler().fit_transform(X), y)
    expected = other.decision_function(StandardScaler().fit_transform(X))
    if n_classes == 3:
        f, expected = (each - each.mean(axis=1, keepdims=True) for each in (f, expected))
    np.testing.assert_allclose(f.squeeze(), expected, atol=1e-3 if n_classes == 2 else 0.05)


def test_the_trend_of_counts_is_poisson_regression():
    rng = np.random.RandomState(1)
    X = rng.uniform(size=(400, 3))
    y = rng.poisson(np.exp(X @ [1.0, -2.0, 0.5]))
    data = data_of(X, y[:, None].astype(float)).under(Poisson())
    member = loss_trend(data)
    f = standard_prediction([member], X, respond_reference)[:, 0] + data.view.targets.mean
    Z = StandardScaler().fit_transform(X)
    other = PoissonRegressor(alpha=1 / 400, tol=1e-8).fit(Z, y)
    np.testing.assert_allclose(np.exp(f), other.predict(Z), rtol=1e-3)


def test_the_trend_of_separable_classes_is_finite():
    X = np.linspace(0, 1, 50)[:, None]
    data = data_of(X, (X > 0.5).astype(float)).under(Logistic())
    f = standard_prediction([loss_trend(data)], X, respond_reference)
    assert np.isfinite(f).all()
    assert ((f[:, 0] > 0) == (X[:, 0] > 0.5)).all()
