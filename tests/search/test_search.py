"""The search for rank and penalty: what it tries, what it judges by, and where it ends."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyadic import FeatureLearningRegressor, compute
from polyadic.compute import ComputeSpec, SearchLimits
from polyadic.features import Tabled, Unused
from polyadic.members import name_beside
from polyadic.model import cpd
from polyadic.model.normal import NormalEquations
from polyadic.rows.view import Member, standard_prediction
from polyadic.search import search as module
from polyadic.search.groups import Group
from polyadic.search.learned import learn_features
from polyadic.search.search import Search
from polyadic.search.settings import Settings, epoch_seconds
from polyadic.search.shares import shrunk_shares
from polyadic.search.trend import linear_trend
from tests.small import data_of, respond_reference


def curved(n=80, n_inputs=4, seed=0, noise=0.1):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, n_inputs))
    return X, np.sin(6 * X[:, 0]) * (1 + X[:, 1]) + noise * rng.standard_normal(n)


def regressor(**parameters):
    return FeatureLearningRegressor(
        **{"n_estimators": 2, "effort": 0.3, "random_state": 0, **parameters}
    )


@pytest.fixture(scope="module")
def learned():
    """Return 80 rows, and two ways to see them."""
    return learn(*curved(), count=2)


def learn(X, y, count):
    """Return rows as data, and the best ways to see them."""
    data = data_of(X, y[:, None], merge=True)
    with ComputeSpec(n_jobs=1).open() as opened:
        return data, learn_features(data, Settings(), opened.workers)[:count]


class Run:
    """A search from its beginning to its end, and every trial of it."""

    def __init__(self, learned, settings=None, seeds=(3, 4, 5, 6), **options):
        self.data, features = data, _ = learned
        self.settings = settings or Settings()
        self.trials, self.results = [], []  # what is told, and what is computed
        with ComputeSpec(n_jobs=1).open() as opened:
            self.search = Search(
                data,
                features,
                self.settings,
                seeds,
                opened,
                journal=self,
                on_trial=lambda stage, trial, _: self.trials.append((stage, trial)),
                **options,
            )
            self.members = self.search.run()

    def result(self, compute):
        """Keep what was computed, as a journal does."""
        self.results.append(compute())
        return self.results[-1]

    @property
    def finished(self):
        """The trial whose models were fitted to all rows."""
        (finished,) = [trial for stage, trial in self.trials if stage == "finish"]
        return finished

    @property
    def chosen(self):
        """That trial as the held-out rows judged it."""
        told = self.finished.error, self.finished.rank, self.finished.factor
        # Of equals the first is kept.
        return next(t for t in self.tried if (t.error, t.rank, t.factor) == told)

    @property
    def tried(self):
        return [trial for stage, trial in self.trials if stage != "finish"]

    def held(self, group):
        """Return inputs and standardised targets of the rows that a group holds out."""
        seed = self.search._seeds[group]
        _, held = self.data.split(self.settings.validation_fraction, seed)
        rows = self.data.store.rows
        mask = held.mask(rows.X, rows.y)
        return rows.X[mask], self.data.view.targets.apply(rows.y[mask, 0], 0)

    def mean(self, trial, ways, group):
        """Return what the mean of some members of a group says of the rows that it holds out."""
        X, _ = self.held(group)
        responses = [
            standard_prediction([seat.member(model, 1.0)], X, respond_reference)[:, 0]
            for seat, model in zip(self.search.seats, trial.models, strict=True)
            if seat.group == group and seat.way in ways
        ]
        return np.mean(responses, axis=0)

    def error(self, trial, ways, groups=(0, 1)):
        """Return the mean over groups of the errors of these means."""
        pairs = [(self.mean(trial, ways, group), self.held(group)[1]) for group in groups]
        return np.mean([np.mean((mean - y) ** 2) for mean, y in pairs])


@pytest.fixture(scope="module")
def every_way():
    """Return the same rows, and all ways to see them."""
    return learn(*curved(), count=3)


@pytest.fixture(scope="module")
def useless():
    """Return a way to see the inputs that shows nothing of those that matter."""
    X, _ = curved()
    _, (way,) = learn(X, X[:, 3], count=1)
    assert [type(each) for each in way.layout.inputs] == [Unused, Unused, Unused, Tabled]
    return way


@pytest.fixture(scope="module")
def run(learned):
    return Run(learned)


# Judging.


def test_the_chosen_trial_has_the_least_error_but_for_gains_that_do_not_count(run):
    least = min(trial.error for trial in run.tried)
    assert run.chosen.error * (1 - module._GAIN) <= least <= run.chosen.error
    assert run.chosen.error in [trial.error for trial in run.tried]
    assert len({(trial.rank, trial.factor) for trial in run.tried}) > 2  # it had a choice


def test_what_gains_too_little_is_neither_chosen_nor_reported(learned, monkeypatch):
    monkeypatch.setattr(module, "_FIRST_FACTORS", (4.0**5,))  # so that less is better
    monkeypatch.setattr(module, "_GAIN", 0.999)
    run = Run(learned)
    assert min(trial.error for trial in run.tried) < run.chosen.error
    assert run.search.best is run.finished
    assert run.members[0].model.cores[0][0].shape[1] == run.chosen.rank


def test_a_trial_is_judged_by_the_means_of_groups_on_rows_they_hold_out(run):
    for trial in run.tried:
        assert trial.error == pytest.approx(run.error(trial, trial.ways), rel=1e-9)
    held = [run.held(group)[0] for group in (0, 1)]
    assert [len(X) for X in held] == [16, 16]
    assert len(np.unique(np.vstack(held), axis=0)) > 16


def test_ways_that_hold_the_mean_back_are_left_out(every_way):
    """Every set of ways is tried, and one way more must cost less than a twentieth."""
    run = Run(every_way, seeds=range(3, 9))
    sizes = set()
    for trial in run.tried:
        sets = [ways for n in (1, 2, 3) for ways in combinations(range(3), n)]
        judged = {ways: run.error(trial, ways) * 1.05 ** -len(ways) for ways in sets}
        assert judged[trial.ways] <= min(judged.values()) * (1 + 1e-9)
        sizes.add(len(trial.ways))
    assert sizes - {1}  # a mean over several ways was preferred at least once


def test_a_way_of_no_use_is_left_out(every_way, useless):
    data, (good, *_) = every_way
    run = Run((data, [useless, good]))
    assert {seat.way for seat in run.search.seats} == {0, 1}
    assert run.chosen.ways == run.finished.ways == (1,)
    members = run.members[: len(run.search.members(run.chosen))]
    assert [member.layout for member in members] == [good.layout] * 2
    assert run.search.alphas_of_members(run.chosen) == [good.alpha * run.chosen.factor] * 2
    # Their models are not fitted to all rows either, and go on as they are.
    pairs = zip(run.search.seats, run.chosen.models, run.finished.models, strict=True)
    assert all((before is after) == (seat.way == 0) for seat, before, after in pairs)
    # A way that is there twice holds nobody back.
    assert Run((data, [good, good])).chosen.ways == (0, 1)


def test_one_member_takes_the_way_of_least_error(every_way, useless):
    data, ways = every_way
    for features in (ways, ways[::-1], [useless, useless, ways[0]]):
        run = Run((data, features), seeds=(3,))
        (seat,) = run.search.seats
        X, y = run.held(0)
        errors = []
        for way, model in zip(features, run.results[0].models, strict=True):
            member = Member(way.scaling, way.layout, model, 1.0)
            mean = standard_prediction([member], X, respond_reference)[:, 0]
            errors.append(np.mean((mean - y) ** 2))
        assert seat.way == np.argmin(errors)
        assert seat.features is features[seat.way]
        assert len(run.search.log) == len(run.results) - 1  # it is no trial of rank and penalty
    assert seat.way == 2


def test_sets_of_ways_are_compared_on_the_same_rows(every_way):
    """The third of three members is in the first group alone, so its way cannot stand alone."""
    run = Run(every_way, seeds=(3, 4, 5))
    assert [seat.group for seat in run.search.seats] == [0, 1, 0]
    first, again, other = (seat.way for seat in run.search.seats)
    assert first == again != other
    for trial in run.tried:
        sets = [(first,), tuple(sorted((first, other)))]
        judged = {ways: run.error(trial, ways) * 1.05 ** -len(ways) for ways in sets}
        assert trial.ways == min(judged, key=judged.get)
        assert trial.error == pytest.approx(run.error(trial, trial.ways), rel=1e-9)
    search, trial = run.search, run.chosen
    # Not even a member that is always right.
    responses = [np.column_stack([run.mean(trial, (first,), group)]) for group in (0, 1)]
    responses.append(np.column_stack([run.held(0)[1]]))
    assert first in search._best_mean(responses)[1]


def test_as_many_members_as_ways_need_no_choice_before_the_start(every_way):
    run = Run(every_way, Settings(effort=1e-9), seeds=range(3, 9))
    assert [seat.way for seat in run.search.seats] == [0, 0, 1, 1, 2, 2]
    assert [seat.group for seat in run.search.seats] == [0, 1] * 3


def test_no_member_trains_on_rows_that_its_group_holds_out(learned, monkeypatch):
    data, _ = learned
    groups, trained = [], []

    class Noted(Group):
        def __init__(self, data, train, held, compute):
            super().__init__(data, train, held, compute)
            groups.append(held)

        def targets(self, level, compute, seat):
            trained.append((seat.group, self.levels[level].store.rows))
            return super().targets(level, compute, seat)

    monkeypatch.setattr(module, "Group", Noted)
    Run(learned, Settings(effort=1e-9))
    rows = data.store.rows
    assert {group for group, _ in trained} == {0, 1}
    for group, part in trained:
        held = groups[group].mask(rows.X, rows.y)
        assert not groups[group].mask(part.X, part.y).any()
        assert len(part) == len(rows) - held.sum()


def test_members_of_a_group_see_the_inputs_in_different_ways(run):
    ways = {}
    for seat in run.search.seats:
        ways.setdefault(seat.group, []).append(seat.features.layout)
    assert all(first != second for first, second in ways.values())


def test_many_rows_have_one_group_and_one_member_learns_alone(learned, monkeypatch):
    assert {seat.group for seat in Run(learned, seeds=(3,)).search.seats} == {0}
    monkeypatch.setattr(module, "FEW_ROWS", 70)
    assert {seat.group for seat in Run(learned, Settings(effort=1e-9)).search.seats} == {0}


def test_the_members_are_the_chosen_models_after_more_epochs_on_all_rows(run):
    kept = [index for index, seat in enumerate(run.search.seats) if seat.way in run.chosen.ways]
    members = run.members[: len(kept)]
    for member, index in zip(members, kept, strict=True):
        before, after = run.chosen.models[index], run.finished.models[index]
        assert member.model is after
        assert [each.shape for each in after.cores[0]] == [each.shape for each in before.cores[0]]
        assert not np.array_equal(after.cores[0][0], before.cores[0][0])
    assert len({member.share for member in members}) == 1
    assert 0 < sum(member.share for member in run.members) <= 1 + 1e-12
    # The losses of these epochs follow those of the search.
    losses = run.finished.losses
    assert losses[:-2] == run.chosen.losses
    assert losses[-1] <= losses[-2] * (1 + 1e-12)


def best_shares(run):
    """Return the best shares of mean and line, by trying many, and whether a line pays."""
    means = [run.mean(run.chosen, run.chosen.ways, group) for group in (0, 1)]
    lines = [
        standard_prediction([linear_trend(group.levels[0])], run.held(index)[0], respond_reference)[
            :, 0
        ]
        for index, group in enumerate(run.search._groups)
    ]
    mean, line = np.concatenate(means), np.concatenate(lines)
    y = np.concatenate([run.held(group)[1] for group in (0, 1)])
    grid = np.linspace(0, 1, 1001)
    a, b = (each.ravel() for each in np.meshgrid(grid, grid))
    a, b = a[a + b <= 1 + 1e-12], b[a + b <= 1 + 1e-12]
    products = np.array([mean @ mean, 2 * mean @ line, line @ line, -2 * mean @ y, -2 * line @ y])
    errors = y @ y + products @ [a * a, a * b, b * b, a, b]
    noise = max(0.005, 0.5 / np.sqrt(len(y)))
    alone = np.where(b == 0, errors, np.inf).argmin()
    together = errors.argmin()
    pays = errors[together] < (1 - noise) * errors[alone]
    best = together if pays else alone
    return (a[best], b[best]), pays


def test_mean_and_line_have_the_shares_that_fit_the_held_out_rows_best(run):
    # What the members see is one input, and a line is what is left.
    X = np.random.RandomState(0).uniform(size=(80, 4))
    wave = np.sin(6 * X[:, 3])
    _, ways = learn(X, wave, count=1)
    straight = Run((data_of(X, (wave + 2 * X[:, 0])[:, None], merge=True), ways))
    for each in (run, straight):
        (of_mean, of_line), pays = best_shares(each)
        n_members = len(each.search.members(each.chosen))
        beside = {name_beside(member): member for member in each.members[n_members:]}
        processes = [m for m in each.members[n_members:] if name_beside(m) == "exact process"]
        left = 1 - sum(member.share for member in processes)
        of_members = sum(member.share for member in each.members[:n_members])
        assert of_members == pytest.approx(left * of_mean, abs=2e-3)
        assert ("linear trend" in beside) == pays
        if pays:
            assert beside["linear trend"].share == pytest.approx(left * of_line, abs=2e-3)
    assert pays
    assert 0 < of_line < 1


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 1e-3, 1.0, 30.0]),
    st.sampled_from([0.0, 1e-3, 1.0, 30.0]),
    st.floats(-1.0, 1.0),
)
def test_shares_are_the_best_of_the_triangle(seed, first, second, alike):
    rng = np.random.RandomState(seed)
    block = rng.standard_normal((6, 2))
    block[:, 1] = alike * block[:, 0] + (1 - abs(alike)) * block[:, 1]
    block = block * [first, second]
    y = block @ rng.uniform(-0.5, 1.5, size=2) + 0.3 * rng.standard_normal(6)
    grid = np.linspace(0, 1, 101)
    corners = [(a, b) for a in grid for b in grid if a + b <= 1 + 1e-12]
    errors = np.sum((y[:, None] - block @ np.transpose(corners)) ** 2, axis=0)
    alone = errors[[index for index, (_, b) in enumerate(corners) if b == 0]]
    found = shrunk_shares(NormalEquations.of(block, y, None))
    assert found[0][1] == 0
    for (a, b), least in zip(found, (alone.min(), errors.min()), strict=True):
        assert a >= 0
        assert b >= 0
        assert a + b <= 1 + 1e-12
        error = np.sum((y - block @ [a, b]) ** 2)
        # The best of a grid is off by its width at most, and never better.
        assert error <= least + 1e-9 * (y @ y)
        assert least <= error + 0.01**2 * np.sum(block**2) + 0.02 * np.sqrt(
            error * np.sum(block**2)
        )


# Bounds.


def test_a_rank_is_no_higher_than_the_tensor_can_hold(run):
    sizes = [seat.features.layout.core_sizes for seat in run.search.seats]
    most = max(cpd.most_terms(each) for each in sizes)
    assert 1 < max(trial.rank for trial in run.tried) <= most
    for each in sizes:  # any matrix that the tensor can be laid out as has no higher rank
        assert cpd.most_terms(each) == np.prod(each) // max(each)


def test_one_input_has_rank_one():
    X, y = curved(60, n_inputs=2)
    assert regressor(n_basis=[8, 1]).fit(X, y).rank_.max() == 1


@pytest.mark.parametrize(
    ("fixed", "tells"),
    [
        ({"rank": 3}, lambda trial, alphas: trial.rank == 3),
        ({"alpha": 0.5}, lambda trial, alphas: set(alphas) == {0.5}),
    ],
)
def test_what_users_fix_is_tried_alone(every_way, fixed, tells):
    run = Run(every_way, Settings(**fixed), seeds=(3, 4))
    assert len(run.results) == len(run.tried) + 1  # the first chooses a way to see the inputs
    assert all(trial.rank == fixed.get("rank", trial.rank) for trial in run.results)
    assert all(tells(trial, run.search.alphas_of_members(trial)) for trial in run.tried)
    assert len(run.tried) > 1


def test_effort_bounds_the_work(learned):
    data, _ = learned
    spent = {}
    for effort in (1e-9, 0.15, 1.0):
        run = Run(learned, Settings(effort=effort))
        costs = []
        for row in run.search.log:
            layouts = [seat.features.layout for seat in run.search.seats]
            each = (epoch_seconds(layout, row["rank"], row["n_rows"]) for layout in layouts)
            costs.append(row["epochs"] * sum(each))
        starts = sum(row["stage"] == "start" for row in run.search.log)
        budget = run.settings.work(data.n_distinct, most=np.inf)
        # Whatever the bound, there is a start; a move is costed before its epochs are known.
        assert starts == len(costs) or sum(costs[:-1]) <= budget
        spent[effort] = sum(costs), len(costs)
    assert spent[1e-9][1] == 2
    assert spent[1e-9] <= spent[0.15] <= spent[1.0]
    assert spent[1e-9] < spent[1.0]


def test_a_search_that_is_late_returns_what_it_has(learned):
    data, _ = learned
    run = Run(learned, deadline=0.0)
    assert len(run.tried) == 1
    assert np.isfinite(run.chosen.error)
    seats = zip(run.search.seats, run.chosen.models, strict=True)
    chosen = [model for seat, model in seats if seat.way in run.chosen.ways]
    for member, model in zip(run.members, chosen, strict=True):
        assert member.model is model  # no epoch after the time is over
    response = standard_prediction(run.members, data.store.rows.X, respond_reference)
    y = data.view.targets.apply(data.store.rows.y[:, 0], 0)
    assert np.mean((response[:, 0] - y) ** 2) < 0.5  # of a variance of one


@pytest.mark.slow
def test_many_rows_are_trained_on_in_part_first(monkeypatch):
    monkeypatch.setattr(compute, "LIMITS_OF_A_CPU", SearchLimits(few_rows=500, held_rows=100))
    run = Run(learn(*curved(4000), count=1), seeds=(3,))
    rows = [row["n_rows"] for row in run.search.log]
    assert rows == sorted(rows)
    # The hash leaves their number to chance: five standard deviations of it.
    assert abs(rows[0] - 500) < 5 * 500**0.5
    assert rows[-1] == 3200
    (group,) = run.search._groups
    assert abs(len(group) - 100) < 5 * 10
    stages = [row["stage"] for row in run.search.log]
    assert stages[rows.index(3200)] == "all"
    assert run.chosen.error <= run.search.log[rows.index(3200)]["held_out_mse"]


# What the estimator promises.


@pytest.fixture(scope="module")
def fitted():
    return regressor().fit(*curved())


def test_what_users_fix_is_what_members_have():
    model = regressor(rank=3, alpha=0.5, n_basis=[4, 3, 1, 2], effort=0.05).fit(*curved())
    np.testing.assert_array_equal(model.rank_, [3, 3])
    np.testing.assert_array_equal(model.alpha_, [0.5, 0.5])
    assert set(model.selection_["rank"]) == {3}
    for member in model.members_:
        assert member.layout.n_basis == (4, 3, 1, 2)
        assert [core.shape for core in member.model.cores[0]] == [(4, 3), (3, 3), (2, 3)]


def test_the_table_tells_what_was_tried(fitted, every_way):
    table = fitted.selection_
    assert len({len(values) for values in table.values()}) == 1
    assert table["stage"][0] == "start"
    assert min(table["held_out_mse"]) > 0
    tried = set(zip(table["rank"], table["penalty"], strict=True))
    rank, alphas = fitted.rank_[0], fitted.alpha_
    assert rank in table["rank"]
    assert fitted.members_[0].model.cores[0][0].shape[1] == rank
    # The penalty of a member is what its evidence asks for, times the factor of the trial.
    (way,) = [each for each in every_way[1] if each.layout == fitted.members_[0].layout]
    assert any(r == rank and alphas[0] == pytest.approx(way.alpha * f) for r, f in tried)


@pytest.mark.parametrize(
    ("dtype", "n_rows", "expected"),
    [("auto", 30, "float64"), ("auto", 31, "float32"), ("float64", 31, "float64")],
)
def test_many_rows_are_computed_in_single_precision(dtype, n_rows, expected, monkeypatch):
    monkeypatch.setattr("polyadic.estimators._automatic._DOUBLE_ROWS", 30)
    used = []
    start = Search.__init__

    def spy(self, data, features, settings, seeds, compute, **options):
        used.append((compute.spec.dtype, str(compute.engine)))
        start(self, data, features, settings, seeds, compute, **options)

    monkeypatch.setattr(Search, "__init__", spy)
    regressor(dtype=dtype, n_estimators=1, effort=0.01, rank=2).fit(*curved(n_rows))
    ((named, engine),) = used
    assert named == expected
    assert expected in engine


def test_feature_weights_are_shares_of_the_prediction(fitted):
    assert len(fitted.feature_weights_) == len(fitted.feature_maps_)
    assert fitted.feature_weights_.sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_threads_change_no_bit(fitted, n_jobs):
    # Two threads share the members, three share the rows of one member after the other.
    X, y = curved()
    other = regressor(n_jobs=n_jobs).fit(X, y)
    np.testing.assert_array_equal(other.predict(X), fitted.predict(X))
    assert other.selection_ == fitted.selection_


def test_a_random_state_fixes_the_fit(fitted):
    X, y = curved()
    np.testing.assert_array_equal(regressor().fit(X, y).predict(X), fitted.predict(X))
    other = regressor(random_state=1).fit(X, y)
    assert not np.array_equal(other.predict(X), fitted.predict(X))


def test_weights_are_counts_and_relative(fitted):
    X, y = curved()
    count = np.random.RandomState(2).randint(0, 4, size=len(X))
    weighted = regressor().fit(X, y, sample_weight=count)
    repeated = regressor().fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    np.testing.assert_array_equal(weighted.alpha_, repeated.alpha_)
    # A power of two scales without rounding, which is all that another constant changes.
    scaled = regressor().fit(X, y, sample_weight=0.25 * count)
    np.testing.assert_array_equal(scaled.predict(X), weighted.predict(X))
    np.testing.assert_array_equal(scaled.alpha_, 0.25 * weighted.alpha_)
    scaled = regressor().fit(X, y, sample_weight=3e-3 * count)
    np.testing.assert_allclose(scaled.predict(X), weighted.predict(X), rtol=0, atol=1e-7)
    np.testing.assert_allclose(scaled.alpha_, 3e-3 * weighted.alpha_, rtol=1e-7)
    even = regressor().fit(X, y, sample_weight=np.full(len(X), 8.0))
    np.testing.assert_allclose(even.predict(X), fitted.predict(X), rtol=1e-6, atol=1e-6)


def test_several_targets_share_a_search():
    X, y = curved(150)
    both = np.column_stack([y, 1000 * (X[:, 2] - X[:, 0] ** 2)])
    model = regressor().fit(X, both)
    fresh, truth = curved(500, seed=1, noise=0.0)
    expected = np.column_stack([truth, 1000 * (fresh[:, 2] - fresh[:, 0] ** 2)])
    error = np.mean((model.predict(fresh) - expected) ** 2, axis=0)
    assert (error < 0.1 * expected.var(axis=0)).all()
    assert all(len(member.model.cores) == 2 for member in model.members_)


def test_inputs_in_their_own_units_are_learned_as_well():
    X, y = curved(150)
    X = X * [3.0, 10.0, 1.0, 0.1] - 5.0
    fresh, truth = curved(500, seed=1, noise=0.0)
    model = regressor(scale_inputs=False).fit(X, y)
    assert model.score(fresh * [3.0, 10.0, 1.0, 0.1] - 5.0, truth) > 0.95


def test_rows_of_a_group_are_judged_together():
    """Copies with noise of rows of pure noise tell the answer, unless they are held out too."""
    rng = np.random.RandomState(0)
    X, y = rng.uniform(size=(50, 3)), rng.standard_normal(50)
    X = np.repeat(X, 4, axis=0) + 1e-3 * rng.standard_normal((200, 3))
    y, groups = np.repeat(y, 4), np.repeat(np.arange(50), 4)
    aware = regressor().fit(X, y, groups=groups)
    assert min(aware.selection_["held_out_mse"]) > 0.5


# Odd tables.


def test_of_noise_it_learns_next_to_nothing():
    rng = np.random.RandomState(0)
    X, y = rng.uniform(size=(150, 3)), rng.standard_normal(150)
    predicted = regressor().fit(X, y).predict(rng.uniform(size=(500, 3)))
    assert np.mean((predicted - y.mean()) ** 2) < 0.05  # of a variance of one


@pytest.mark.parametrize("value", [0.0, -7.5, 1e12])
def test_a_constant_target_is_predicted(value):
    X, _ = curved(30)
    model = regressor().fit(X, np.full(30, value))
    np.testing.assert_allclose(model.predict(X + 0.5), value, rtol=1e-12, atol=1e-12)
    assert [each.relevance for each in model.inputs_] == [0.0] * 4


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_few_rows_give_a_usable_model(n):
    X, y = curved(n)
    model = regressor(n_estimators="auto").fit(X, y)
    predicted = model.predict(curved(100, seed=1)[0])
    assert np.isfinite(predicted).all()
    # Nothing so few rows can say is far from what they are.
    middle, span = y.mean(), np.ptp(y)
    assert (np.abs(predicted - middle) <= 2 * span + 1e-9).all()
    if n == 1:
        np.testing.assert_allclose(predicted, y[0])


def test_constant_columns_take_no_part():
    X, y = curved()
    with_constants = np.column_stack([np.full(80, 3.0), X, np.zeros(80)])
    model = regressor().fit(with_constants, y)
    for member in model.members_:
        assert member.layout.n_basis[0] == member.layout.n_basis[-1] == 1
    assert model.score(with_constants, y) > 0.9
    constant = regressor().fit(np.ones((20, 2)), y[:20])
    np.testing.assert_allclose(constant.predict(np.ones((3, 2))), y[:20].mean(), rtol=1e-9)


def test_more_inputs_than_rows():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(40, 60))
    y = 3 * X[:, 7] + 0.05 * rng.standard_normal(40)
    model = regressor(n_estimators=1).fit(X, y)
    fresh = rng.uniform(size=(300, 60))
    assert model.score(fresh, 3 * fresh[:, 7]) > 0.8


def test_of_a_wide_table_few_inputs_are_used():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(60, 120))
    y = 3 * X[:, 7] - 2 * X[:, 50] + 0.05 * rng.standard_normal(60)
    model = regressor(n_estimators=1).fit(X, y)
    for member in model.members_:
        if member.layout.tables:
            sizes = np.array(member.layout.n_basis)
            assert {7, 50} <= set(np.flatnonzero(sizes > 1))
            assert (sizes > 1).sum() <= 30
    fresh = rng.uniform(size=(300, 120))
    assert model.score(fresh, 3 * fresh[:, 7] - 2 * fresh[:, 50]) > 0.8


def test_a_column_twice_is_as_good_as_once():
    X, y = curved(150)
    fresh, truth = curved(500, seed=1, noise=0.0)
    model = regressor().fit(np.column_stack([X, X[:, :2]]), y)
    assert model.score(np.column_stack([fresh, fresh[:, :2]]), truth) > 0.9


def test_rows_that_differ_in_the_target_alone_are_averaged():
    X, noise = np.repeat([[0.0], [1.0]], 40, axis=0), np.random.RandomState(0).standard_normal(80)
    y = 6 * X[:, 0] + noise
    predicted = regressor(n_estimators=1).fit(X, y).predict([[0.0], [1.0]])
    means = [y[:40].mean(), y[40:].mean()]
    np.testing.assert_allclose(predicted, means, atol=0.5)


def test_a_warm_start_needs_named_maps():
    with pytest.raises(ValueError, match="warm_start"):
        regressor(warm_start=True).fit(*curved(50))


def test_another_mixing_learns_the_default_maps_together():
    model = regressor(mixing="l1", beta=1e-4, rank=3, n_basis=4, n_estimators=1)
    assert len(model.fit(*curved()).feature_weights_) == 7
    assert not hasattr(model, "selection_")


def test_verbose_tells_of_every_trial(capsys):
    model = regressor(verbose=1, rank=2).fit(*curved(40))
    lines = capsys.readouterr().err.splitlines()
    table = model.selection_
    assert len(lines) == len(table["stage"]) + 1
    for line, stage, error in zip(lines, table["stage"], table["held_out_mse"], strict=False):
        assert line.startswith(f"{stage} ")
        assert f"held-out MSE {error:.6f}" in line
        assert "rank 2" in line
    assert lines[-1].startswith("finish ")


# As good as what is known to be good.


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_on_a_line_it_is_as_good_as_a_ridge(seed):
    from sklearn.linear_model import RidgeCV

    rng = np.random.RandomState(seed)
    X, beta = rng.uniform(size=(2300, 6)), np.array([1.0, -2.0, 0.5, 0.0, 3.0, 0.0])
    y = X @ beta + 0.5 * rng.standard_normal(len(X))
    ridge = RidgeCV(np.logspace(-3, 4, 20)).fit(X[:300], y[:300])
    ours = FeatureLearningRegressor(random_state=0).fit(X[:300], y[:300])
    expected = np.mean((ridge.predict(X[300:]) - y[300:]) ** 2)
    assert np.mean((ours.predict(X[300:]) - y[300:]) ** 2) <= 1.05 * expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_of_noise_the_default_learns_next_to_nothing(seed):
    rng = np.random.RandomState(seed)
    X, y = rng.uniform(size=(2300, 6)), rng.standard_normal(2300)
    predicted = FeatureLearningRegressor(random_state=0).fit(X[:300], y[:300]).predict(X[300:])
    mean = np.mean((y[:300].mean() - y[300:]) ** 2)
    assert np.mean((predicted - y[300:]) ** 2) <= 1.05 * mean
