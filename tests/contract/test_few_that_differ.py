"""Many rows of which few differ, or in few groups, in every kind of store.

Many rows are cut by a range of hashes, which may hold none of a few; no part of a fit is empty.
"""

from __future__ import annotations

import numpy as np
import pytest

from polyadic import FeatureLearningRegressor
from polyadic.rows.holdout import row_hash
from polyadic.rows.rows import Rows
from polyadic.sources.files.opening import open_rows
from tests.contract.clusters import client
from tests.contract.stores import as_tensors, in_memory, on_a_cluster, on_disk
from tests.small import regressor, slow_but, smooth_rows

N_ROWS = 12_000
PLACES = {"memory": in_memory, "tensors": as_tensors, "disk": on_disk, "dask": on_a_cluster}
IN_MEMORY = pytest.mark.parametrize("place", slow_but({"memory"}, ["memory", "tensors"]))
EVERYWHERE = pytest.mark.parametrize(
    "place",
    slow_but({"memory"}, PLACES, cluster={"dask"}),
)
AUTOMATIC = {"effort": 0.02, "n_estimators": 1, "random_state": 0, "n_jobs": 1}


def copies_of(n_distinct):
    """Return rows in turn, as inputs and targets."""
    X, y = smooth_rows(n_distinct)
    index = np.arange(N_ROWS) % n_distinct
    return X[index], y[index]


def in_groups(n_groups, n_rows=N_ROWS):
    X, y = smooth_rows(n_rows, noise=0.1)
    return X, y, np.arange(n_rows) % n_groups


def stored(request, place, rows):
    if place == "tensors":
        pytest.importorskip("torch")
    return PLACES[place](request, rows)


def held_by_hash(arrays, fraction, seed):
    """Return which rows are held out: by chance, or exactly where that leaves a part empty."""
    hashes = row_hash(arrays, seed).view(np.uint64)
    distinct = np.unique(hashes)
    by_chance = distinct <= np.uint64(fraction * 2.0**64)
    n_held = by_chance.sum()
    if n_held in (0, len(distinct)):
        n_held = min(int(np.ceil(fraction * len(distinct))), len(distinct) - 1)
    return np.isin(hashes, distinct[:n_held])


@EVERYWHERE
@pytest.mark.parametrize("n_distinct", [1, 2, 3])
def test_some_of_the_rows_that_differ_are_held_out(request, place, n_distinct):
    X, y = copies_of(n_distinct)
    data = stored(request, place, Rows(X, y[:, None]))
    assert_split(data, [X, y], range(4))
    data.close()


@IN_MEMORY
@pytest.mark.parametrize("n_groups", [1, 2, 3, 50])
def test_whole_groups_are_held_out(request, place, n_groups):
    X, y, groups = in_groups(n_groups)
    data = stored(request, place, Rows(X, y[:, None], None, groups))
    assert_split(data, [groups], range(8))


def assert_split(data, hashed, seeds):
    """Assert that rows are in one of two parts each, neither of them empty unless none differ."""
    for seed in seeds:
        expected = held_by_hash(hashed, 0.2, seed)
        train, held = data.split(0.2, seed)
        assert len(data.gather_rows(train)) == N_ROWS - expected.sum() > 0
        if held is None:
            assert not expected.any()
            continue
        rows = data.gather_rows(held).map(np.asarray)
        assert len(rows) == expected.sum() > 0
        arrays = [rows.X, rows.y] if rows.groups is None else [rows.groups]
        here, there = (row_hash(each, seed) for each in (arrays, hashed))
        assert set(here) == set(there[expected])


@EVERYWHERE
def test_some_rows_are_gathered_where_few_differ(request, place):
    X, y = copies_of(40)
    data = stored(request, place, Rows(X, y[:, None]))
    known = {tuple(row) for row in X}
    for seed in range(4):
        rows = data.gather_about(100, seed)
        # Copies stay together, so that there are more; of forty, few ranges have more than four.
        assert 0 < len(rows) <= 4 * N_ROWS // 40
        assert {tuple(row) for row in np.asarray(rows.X)} < known
    data.close()


@IN_MEMORY
def test_about_as_many_rows_as_asked_for_are_gathered_of_few_groups(request, place):
    X, y, groups = in_groups(3)
    data = stored(request, place, Rows(X, y[:, None], None, groups))
    for seed in range(1, 6):  # none of which has one of the groups by chance
        rows = data.gather_about(300, seed)
        assert 250 < len(rows) < 350
        assert set(np.asarray(rows.groups)) == {0, 1, 2}
    train, _ = data.split(0.2, seed=0)
    assert 150 < data.gather(train, 300).n_rows < 350


@pytest.mark.parametrize(
    "n_rows",
    [pytest.param(2_000, id="few", marks=pytest.mark.slow), pytest.param(N_ROWS, id="many")],
)
@pytest.mark.parametrize("n_groups", slow_but({"2"}, [2, 3]))
def test_rows_in_few_groups_are_fitted(n_groups, n_rows):
    X, y, groups = in_groups(n_groups, n_rows)
    fitted = FeatureLearningRegressor(**AUTOMATIC).fit(X, y, groups=groups)
    assert fitted.score(X, y) > 0.95
    assert np.isfinite(fitted.predict(X[:5], return_std=True)).all()
    stopped = regressor(early_stopping=True, max_iter=2).fit(X, y, groups=groups)
    assert None not in stopped.validation_curve_


@pytest.mark.parametrize(
    "place", slow_but({"memory"}, ["memory", "disk", "dask"], cluster={"dask"})
)
def test_copies_of_few_rows_are_fitted(place, tmp_path):
    X, y = copies_of(40)
    model = FeatureLearningRegressor(**AUTOMATIC)
    found = expected = model.fit(X, y).predict(X)[:40]
    assert np.corrcoef(expected, y[:40])[0, 1] > 0.5  # of eight rows that are held out
    if place == "disk":
        np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
        source = open_rows(tmp_path / "rows.npy", "x3")
        found = model.fit(source).predict(source)[:40]
    if place == "dask":
        with client().as_current():
            import dask.array as da

            parts = (da.from_array(each, chunks=(4_000, *each.shape[1:])) for each in (X, y))
            found = model.fit(*parts).predict(X)[:40]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_files_of_copies_have_a_part_to_measure_on(tmp_path):
    for n_distinct in (1, 2, 3):
        X, y = copies_of(n_distinct)
        np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
        for seed in range(4):
            parts = open_rows(tmp_path / "rows.npy", "x3").split(0.2, seed)
            rows = [{tuple(row) for batch in part.batches() for row in batch.X} for part in parts]
            assert len(rows[0]) + len(rows[1]) == n_distinct
            assert rows[0]
            assert rows[1] or n_distinct == 1
            assert not rows[0] & rows[1]
