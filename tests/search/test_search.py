"""The automatic choice: its moves against the dense model, and what it promises as a whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

from polyadic import FeatureLearningRegressor, compute
from polyadic.compute import ComputeSpec, SearchLimits
from polyadic.features import DampedFourierFeatures, PurePowerFeatures
from polyadic.model import als, cpd
from polyadic.search import moves
from polyadic.search.candidates import Candidate, Space, default_maps
from polyadic.search.search import Search
from polyadic.search.trials import Trial
from tests.oracle import dense_features, dense_weight
from tests.small import data_of

MAP = DampedFourierFeatures(2.0, 0.7)


def curved(n=200, n_inputs=4, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, n_inputs))
    y = np.sin(6 * X[:, 0]) * (1 + X[:, 1]) + 0.1 * rng.standard_normal(n)
    return X, y


def regressor(**parameters):
    return FeatureLearningRegressor(**{"n_estimators": 2, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def fitted():
    return regressor().fit(*curved())


def search(space, n=200, seed=0):
    """Return the search of one member on rows that are in the unit cube already."""
    X, y = curved(n)
    data = data_of(X, y[:, None], scale_inputs=False)
    with ComputeSpec(engine="reference", n_jobs=1).open() as opened:
        return Search(data, {0.0: data.view.inputs}, space, opened, 0.2, seed)


SPACE = Space(((4,) * 4, (2,) * 4), (2, 4), (1e-3, 1e-2), (0.0,), (False,), n_candidates=4)


# The moves, against the model written out.


def test_growth_keeps_the_terms_and_adds_small_ones(rng):
    cores = cpd.initial_cores((2,) * 6, 4, True, rng)
    grown = cpd.grown(cores, 8, (0, 0, 0, 1, 1, 1), rng)
    assert [core.shape for core in grown] == [(2, 8)] * 6
    for core, more in zip(cores, grown, strict=True):
        np.testing.assert_array_equal(more[:, :4], core)
    old, added = dense_weight(cores), dense_weight([core[:, 4:] for core in grown])
    np.testing.assert_allclose(dense_weight(grown), old + added, atol=1e-12)
    # A new term has a tenth of the norm of an old one, which is 1 here, but for the noise.
    norms = np.prod([np.linalg.norm(core, axis=0) for core in grown], axis=0)
    np.testing.assert_allclose(norms[:4], 1.0)
    noise = 0.2 / np.sqrt(6)  # of each core
    assert (norms[4:] >= 0.1 * (1 - noise) ** 6).all()
    assert (norms[4:] <= 0.1 * (1 + noise) ** 6).all()


def test_a_new_term_combines_what_inputs_have_learned(rng):
    owners = (0, 0, 0, 1, 1, 1)
    cores = cpd.initial_cores((2,) * 6, 4, True, rng)
    grown = cpd.grown(cores, 40, owners, rng)
    sources = []
    for owner in (0, 1):
        mine = [index for index, other in enumerate(owners) if other == owner]
        old = dense_weight_terms([cores[index] for index in mine])
        new = dense_weight_terms([grown[index][:, 4:] for index in mine])
        alike = np.abs(old.conj().T @ new) / np.linalg.norm(new, axis=0)
        assert (alike.max(axis=0) > 0.9).all()  # one old function of this input, with noise
        sources.append(alike.argmax(axis=0))
    assert len(set(zip(*sources, strict=True))) > 8  # of 16 pairs
    assert (sources[0] != sources[1]).any()


def dense_weight_terms(cores):
    """Return the weight tensor of each rank-one term, as columns."""
    rank = cores[0].shape[1]
    return np.stack([dense_weight([c[:, r : r + 1] for c in cores]) for r in range(rank)], axis=1)


@pytest.mark.parametrize("rank", [1, 4])
def test_a_zero_tensor_can_grow(rank, rng):
    zero = [np.zeros((2, rank)), np.zeros((2, rank))]
    assert np.linalg.norm(dense_weight(cpd.grown(zero, rank + 2, (0, 1), rng))) > 0


@pytest.mark.parametrize("n_basis", [(2, 2), (4, 1), (16, 2)])
def test_a_sharper_map_starts_from_the_same_function(n_basis, rng):
    candidate = Candidate(MAP, n_basis, 3, 1e-3, 0.0, False)
    cores = cpd.initial_cores(candidate.layout.core_sizes, 3, True, rng)
    finer = moves.sharpened(Trial(candidate, als.Model((cores,), np.ones(1)), 0.5, (1.0,)))
    assert finer.candidate.n_basis == tuple(2 * size if size > 1 else 1 for size in n_basis)
    assert finer.candidate.feature_map == DampedFourierFeatures(2.0, 0.837)  # the root of 0.7
    assert (finer.error, finer.losses) == (np.inf, (1.0,))  # not trained yet
    X = rng.uniform(size=(20, 2))
    expected = dense_features(X, MAP, n_basis) @ dense_weight(cores)
    features = dense_features(X, finer.candidate.feature_map, finer.candidate.n_basis)
    np.testing.assert_allclose(features @ dense_weight(finer.model.cores[0]), expected, rtol=1e-9)


@pytest.mark.slow
def test_a_target_too_fine_for_the_candidates_is_sharpened():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(600, 2))
    y = np.sign(np.sin(40 * X[:, 0])) + 0.1 * rng.standard_normal(600)
    model = regressor().fit(X, y)
    assert max(model.selection_["n_basis"]) > 16
    fixed = regressor(n_basis=16).fit(X, y)
    assert set(fixed.selection_["n_basis"]) == {16}
    X = rng.uniform(size=(600, 2))
    y = np.sign(np.sin(40 * X[:, 0]))
    assert model.score(X, y) > max(0.8, fixed.score(X, y))


@pytest.mark.slow
def test_an_input_left_out_is_one_averaged_over(rng):
    member = search(replace(SPACE, n_basis=((2,) * 4,)))
    candidate = Candidate(MAP, (2,) * 4, 3, 1e-3, 0.0, False)
    cores = cpd.initial_cores(candidate.layout.core_sizes, 3, True, rng)
    trial = Trial(candidate, als.Model((cores,), np.ones(1)))
    reduced = moves.without(trial, [1, 2], member._mean_factors(candidate))
    assert reduced.candidate.n_basis == (2, 1, 1, 2)
    X = rng.uniform(size=(7, 4))
    w, others = dense_weight(cores), member._held.store.rows.X
    expected = []
    for row in X:
        # The two inputs are averaged independently of each other: all pairs of their values.
        first, second = np.meshgrid(others[:, 1], others[:, 2])
        mixed = np.tile(row, (first.size, 1))
        mixed[:, 1], mixed[:, 2] = first.ravel(), second.ravel()
        expected.append((dense_features(mixed, MAP, (2,) * 4) @ w).mean().real)
    small = dense_weight(reduced.model.cores[0])
    response = (dense_features(X, MAP, reduced.candidate.n_basis) @ small).real
    np.testing.assert_allclose(response, expected, rtol=1e-9)


def test_contraction_meets_several_cores_with_a_vector_each(rng):
    cores = cpd.initial_cores((2, 2, 2, 2), 3, True, rng)
    means = {0: rng.standard_normal(2), 2: rng.standard_normal(2) + 1j}
    full = dense_weight(cores).reshape(2, 2, 2, 2)  # the first core is the last axis
    expected = np.einsum("dcba,a,c->db", full, means[0], means[2]).ravel()
    np.testing.assert_allclose(dense_weight(cpd.contract(cores, means)), expected, atol=1e-12)


# The bounds of a search.


def stages(member):
    choice = member.run(lambda stage, trial: None)
    return [row["stage"] for row in choice.log], choice


def test_without_work_there_are_no_moves():
    names, choice = stages(search(replace(SPACE, work=0.0)))
    assert set(names) == {"screen", "halve"}
    assert choice.candidate.rank in SPACE.ranks
    names, _ = stages(search(SPACE))
    assert {"climb", "polish"} <= set(names)


def test_work_is_bounded_in_between():
    spent = []
    for work in (0.0, np.inf):
        member = search(replace(SPACE, work=work))
        stages(member)
        spent.append(member._spent)
    bound = sum(spent) / 2  # of which screening takes the first part, whatever the bound
    member = search(replace(SPACE, work=bound))
    stages(member)
    assert spent[0] < member._spent <= bound < spent[1]


def test_a_rank_grows_no_further_than_its_bound():
    space = replace(SPACE, ranks=(3, 4), max_rank=4)  # twice either is more
    _, choice = stages(search(space))
    assert max(row["rank"] for row in choice.log) <= 4
    _, choice = stages(search(replace(space, max_rank=8)))
    assert 4 < max(row["rank"] for row in choice.log) <= 8


def test_candidates_are_drawn_without_replacement():
    space = replace(SPACE, n_candidates=10**6)
    drawn = space.draw(np.random.RandomState(0))
    assert len(set(drawn)) == len(drawn) == len(default_maps()) * 2**3


# What the estimator promises.


def test_fixed_sizes_are_honoured():
    model = regressor(rank=3, alpha=0.5, n_basis=4).fit(*curved())
    np.testing.assert_array_equal(model.rank_, [3, 3])
    np.testing.assert_allclose(model.alpha_, [0.5, 0.5], rtol=1e-12)
    assert set(model.selection_["rank"]) == {3}
    assert set(model.selection_["n_basis"]) == {4}
    for member in model.members_[:2]:
        assert member.layout.n_basis == (4,) * 4
        assert member.model.cores[0][0].shape == (2, 3)


def test_the_table_tells_what_was_chosen(fitted):
    table = fitted.selection_
    columns = {name: np.array(values) for name, values in table.items()}
    assert len({len(values) for values in columns.values()}) == 1
    assert (columns["held_out_mse"] > 0).all()
    for index, member in enumerate(fitted.members_[:2]):
        mine = columns["member"] == index
        assert set(columns["stage"][mine]) >= {"screen", "halve", "climb"}
        chosen = (
            mine
            & (columns["feature_map"] == str(member.layout.maps[0]))
            & (columns["rank"] == fitted.rank_[index])
            & (columns["n_inputs"] == sum(size > 1 for size in member.layout.n_basis))
            & np.isclose(columns["alpha"] / columns["n_rows"], fitted.alpha_[index] / 200)
        )
        # From the last halving on there is one candidate; a move must gain 0.3 % to count.
        last = np.flatnonzero(mine & (columns["stage"] == "halve"))[-1]
        later = mine & (np.arange(len(mine)) >= last)
        errors = columns["held_out_mse"]
        assert errors[chosen & later].min() <= errors[later].min() / (1 - 0.0031)


def test_feature_weights_are_shares_of_the_prediction(fitted):
    assert len(fitted.feature_weights_) == len(fitted.feature_maps_)
    assert fitted.feature_weights_.sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("n_jobs", [2, 3])
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_on_a_line_it_is_as_good_as_a_ridge(seed):
    rng = np.random.RandomState(seed)
    X, beta = rng.uniform(size=(2300, 6)), np.array([1.0, -2.0, 0.5, 0.0, 3.0, 0.0])
    y = X @ beta + 0.5 * rng.standard_normal(len(X))
    ridge = RidgeCV(np.logspace(-3, 4, 20)).fit(X[:300], y[:300])
    ours = regressor(n_estimators="auto").fit(X[:300], y[:300])
    expected = np.mean((ridge.predict(X[300:]) - y[300:]) ** 2)
    assert np.mean((ours.predict(X[300:]) - y[300:]) ** 2) <= 1.05 * expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_of_noise_it_learns_next_to_nothing(seed):
    rng = np.random.RandomState(seed)
    X, y = rng.uniform(size=(2300, 6)), rng.standard_normal(2300)
    predicted = regressor(n_estimators="auto").fit(X[:300], y[:300]).predict(X[300:])
    mean = np.mean((y[:300].mean() - y[300:]) ** 2)
    assert np.mean((predicted - y[300:]) ** 2) <= 1.05 * mean


def test_inputs_that_do_not_matter_are_left_out():
    X, y = curved(300, n_inputs=12)
    model = regressor().fit(X, y)
    for member in model.members_[:2]:
        used = {index for index, size in enumerate(member.layout.n_basis) if size > 1}
        assert 0 in used
        assert len(used) <= 6
    assert model.score(*curved(1000, n_inputs=12, seed=1)) > 0.9


def test_several_targets_share_a_search():
    X, y = curved()
    both = np.column_stack([y, 1000 * (X[:, 2] - X[:, 0] ** 2)])
    model = regressor().fit(X, both)
    fresh, truth = curved(500, seed=1)
    expected = np.column_stack([truth, 1000 * (fresh[:, 2] - fresh[:, 0] ** 2)])
    error = np.mean((model.predict(fresh) - expected) ** 2, axis=0)
    assert (error < 0.1 * expected.var(axis=0)).all()
    assert all(len(member.model.cores) == 2 for member in model.members_)


def test_an_integer_weight_is_a_repeated_row():
    X, y = curved(150)
    count = np.random.RandomState(2).randint(0, 4, size=len(X))
    weighted = regressor().fit(X, y, sample_weight=count)
    repeated = regressor().fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    np.testing.assert_array_equal(weighted.rank_, repeated.rank_)
    np.testing.assert_allclose(weighted.alpha_, repeated.alpha_, rtol=1e-12)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5, atol=1e-5)


def test_a_trend_is_one_member_for_all():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(200, 3))
    model = regressor().fit(X, X @ [5.0, 1.0, -3.0] + 0.1 * rng.standard_normal(200))
    assert isinstance(model.members_[-1].layout.maps[0], PurePowerFeatures)
    assert model.feature_maps_.count(PurePowerFeatures()) == 1


def test_a_warm_start_needs_named_maps():
    with pytest.raises(ValueError, match="warm_start"):
        regressor(warm_start=True).fit(*curved(50))


def test_another_mixing_learns_the_default_maps_together():
    model = regressor(mixing="l1", beta=1e-4, rank=3, n_basis=4, n_estimators=1)
    assert len(model.fit(*curved()).feature_weights_) == 7
    assert not hasattr(model, "selection_")


def test_verbose_says_where_the_time_went(capsys):
    regressor(verbose=1, rank=2, n_basis=2).fit(*curved(60))
    lines = capsys.readouterr().err.splitlines()
    (times,) = [line for line in lines if line.startswith("time by stage")]
    assert all(name in times for name in ("screen", "halve", "climb", "polish", "finish"))
    assert sum("member 2/2" in line for line in lines) >= 3


def test_rows_of_screening_and_of_judging_are_bounded(monkeypatch):
    monkeypatch.setattr(compute, "LIMITS_OF_A_CPU", SearchLimits(few_rows=4_000, held_rows=30))
    few = search(SPACE, n=50_000)
    more = SearchLimits(few_rows=8_000, held_rows=10_000)
    monkeypatch.setattr(compute, "LIMITS_OF_A_CPU", more)
    many = search(SPACE, n=50_000)
    # The hash leaves their number to chance: five standard deviations of it.
    for found, expected in ((few._few, 4_000), (few._held, 30), (many._few, 5_000)):
        assert abs(found.n_rows - expected) < 5 * expected**0.5
    assert abs(many._held.n_rows - 10_000) < 5 * 90
