"""Fits to Dask collections on two worker processes agree with fits in memory."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("distributed", reason="needs polyadic[dask]")
da = pytest.importorskip("dask.array", reason="needs polyadic[dask]")

import pandas as pd  # noqa: E402
from dask.distributed import Client, LocalCluster, get_task_stream  # noqa: E402
from dask.utils import key_split  # noqa: E402
from distributed.protocol.pickle import dumps  # noqa: E402

from polyadic import (  # noqa: E402
    FeatureLearningClassifier,
    FeatureLearningRegressor,
    KernelMachineRegressor,
)
from polyadic.compute import SearchLimits  # noqa: E402
from polyadic.features import PurePowerFeatures  # noqa: E402
from polyadic.rows.inputs import Inputs  # noqa: E402
from polyadic.sources.dask import DaskSource  # noqa: E402
from polyadic.sources.dask.cluster import Cluster  # noqa: E402
from polyadic.sources.schema import TableWarning  # noqa: E402
from tests.contract.clusters import client as in_process_client  # noqa: E402
from tests.small import MAPS  # noqa: E402
from tests.sources.partitions import (  # noqa: E402
    SETTINGS,
    assert_nothing_is_left,
    collections,
    model,
    problem,
)

dd = pytest.importorskip("dask.dataframe", reason="needs polyadic[dask]")
pytestmark = [pytest.mark.cluster, pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def opened():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture
def client(opened):
    with opened.as_current():
        yield opened


def assert_same_fit(fitted, expected):
    X = problem()[0]
    assert_allclose(fitted.predict(X), expected.predict(X), rtol=0, atol=1e-8)
    assert_allclose(fitted.feature_weights_, expected.feature_weights_, rtol=0, atol=1e-8)
    assert_allclose(fitted.loss_curve_, expected.loss_curve_, rtol=1e-8)
    assert fitted.n_samples_fit_ == expected.n_samples_fit_


@pytest.mark.parametrize(
    ("targets", "options"),
    [
        (slice(0, 1), {}),
        (slice(None), {}),
        (slice(None), {"early_stopping": True, "max_iter": 6}),
        (0, {"early_stopping": True, "n_estimators": 2}),
        (0, {"subsample": 0.3, "max_iter": 6}),
        (0, {"memory_limit": "200kB"}),
        (0, {"engine": "reference", "scale_inputs": False}),
        (0, {"objective": "complex", "mixing": "l1", "dtype": "float64", "chunk_size": 50}),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_arrays_agree_with_memory(client, targets, options):
    X, Y, weight = problem()
    y = Y[:, targets]
    fitted = model(**options).fit(*collections(X, y, weight))
    assert_same_fit(fitted, model(**options).fit(X, y, weight))


@pytest.fixture
def no_device_here(monkeypatch):
    """Have this process refuse every device; workers do not."""

    def refuse(device):
        raise ValueError("not on this machine")

    monkeypatch.setattr("polyadic.compute.check_device", refuse)


def test_a_spec_is_opened_on_the_workers(client, no_device_here):
    """A driver without the device sends its name; PyTorch computes where the rows are."""
    pytest.importorskip("torch", reason="needs polyadic[gpu]")
    X, Y, weight = problem()
    expected = model().fit(X, Y[:, 0], weight)
    fitted = model(engine="torch").fit(*collections(X, Y[:, 0], weight))
    assert_same_fit(fitted.set_params(engine="auto"), expected)
    assert "torch" in client.submit(_loaded_libraries, pure=False).result()


def test_few_rows_under_a_loss_need_no_device_here(client, no_device_here):
    """Few rows are brought to the driver, which computes what it can, losses too."""
    pytest.importorskip("torch", reason="needs polyadic[gpu]")
    X, Y, _ = problem()
    labels, options = (Y[:, 0] > 0).astype(int), {"effort": 0.05, "random_state": 0}
    expected = FeatureLearningClassifier(**options).fit(X, labels)
    fitted = FeatureLearningClassifier(engine="torch", **options).fit(*collections(X, labels))
    probabilities = fitted.set_params(engine="auto").predict_proba(X)
    assert_array_equal(probabilities, expected.predict_proba(X))


def _loaded_libraries():
    import sys

    return {name.split(".")[0] for name in sys.modules}


def test_arrays_without_weights_agree_with_memory(client):
    X, Y, _ = problem()
    assert_same_fit(model().fit(*collections(X, Y[:, 0])), model().fit(X, Y[:, 0]))


def frame():
    X, Y, weight = problem()
    table = pd.DataFrame(X, columns=list("abc")).assign(weight=weight, y=Y[:, 0], z=Y[:, 1])
    return table, dd.from_pandas(table, npartitions=3)


@pytest.mark.parametrize("target", ["y", ["y", "z"]])
def test_data_frames_agree_with_memory(client, target):
    table, lazy = frame()
    parts = [list("abc"), target, "weight"]
    fitted = model().fit(*(lazy[part] for part in parts))
    expected = model().fit(*(table[part] for part in parts))
    assert list(fitted.feature_names_in_) == list("abc")
    assert_allclose(fitted.predict(table[parts[0]]), expected.predict(table[parts[0]]), atol=1e-8)
    predicted = fitted.predict(lazy[parts[0]])
    assert isinstance(predicted, da.Array)
    assert predicted.ndim == np.ndim(table[target])
    assert_allclose(predicted.compute(), expected.predict(table[parts[0]]), atol=1e-8)
    score = fitted.score(*(lazy[part] for part in parts))
    assert_allclose(score, expected.score(*(table[part] for part in parts)), rtol=1e-8)
    with pytest.raises(ValueError, match="in the order of the fit"):
        fitted.predict(lazy[["c", "b", "a"]])


def test_one_map_and_a_warm_start(client):
    X, Y, _ = problem()
    arrays = collections(X, Y[:, 0])
    one = {**SETTINGS, "max_iter": 3}
    fitted = KernelMachineRegressor(MAPS[0], **one).fit(*arrays)
    expected = KernelMachineRegressor(MAPS[0], **one).fit(X, Y[:, 0])
    assert_allclose(fitted.predict(X), expected.predict(X), atol=1e-8)
    warm = model(warm_start=True, max_iter=2).fit(*arrays).fit(*arrays)
    expected = model(warm_start=True, max_iter=2).fit(X, Y[:, 0]).fit(X, Y[:, 0])
    assert_allclose(warm.predict(X), expected.predict(X), atol=1e-8)


def test_an_automatic_fit_on_few_rows_is_the_one_in_memory(client):
    X, Y, weight = problem()
    options = {"effort": 0.05, "n_estimators": 2, "random_state": 0}
    fitted = FeatureLearningRegressor(**options).fit(*collections(X, Y[:, 0], weight))
    expected = FeatureLearningRegressor(**options).fit(X, Y[:, 0], weight)
    assert_array_equal(fitted.predict(X), expected.predict(X))
    assert fitted.n_samples_fit_ == expected.n_samples_fit_
    assert_nothing_is_left(client)


def test_a_search_goes_on_where_the_rows_are(client, monkeypatch):
    X, Y, weight = problem()
    monkeypatch.setattr("polyadic.sources.arrays.EXACT_ROWS", 10)
    monkeypatch.setattr("polyadic.compute.LIMITS_OF_A_CPU", SearchLimits(few_rows=100))
    options = {"effort": 0.5, "n_estimators": 2, "random_state": 0}
    with get_task_stream(client) as stream:
        fitted = FeatureLearningRegressor(**options, n_jobs=2).fit(*collections(X, Y[:, 0], weight))
    assert "polyadic-core-step" in {key_split(task["key"]) for task in stream.data}
    assert fitted.n_samples_fit_ == np.count_nonzero(weight)
    few, *_, all_of_them = fitted.selection_["n_rows"]
    assert few < 0.5 * np.count_nonzero(weight) < 0.75 * np.count_nonzero(weight) < all_of_them
    assert fitted.score(X, Y[:, 0]) > 0.9
    assert_nothing_is_left(client)


def test_gathered_rows_are_about_as_many_as_asked_for_and_in_order(client):
    X, Y, _ = problem()
    data = DaskSource(*collections(X, Y, None), Inputs.of_numbers("abc")).data()
    rows = data.gather_about(150, seed=3)
    assert 100 < len(rows) < 200
    where = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in rows.X]
    assert where == sorted(where)
    assert_array_equal(rows.y, Y[where])
    everything = data.gather_about(len(X), seed=3)
    assert_array_equal(everything.X, X)
    data.close()


def test_predictions_are_lazy_and_need_no_client():
    X, Y, weight = problem()
    for y in (Y, Y[:, 0]):
        fitted = model(max_iter=2).fit(X, y)
        lazy, targets, weights = collections(X, y, weight)
        predicted = fitted.predict(lazy.map_blocks(_fails, meta=X[:0]))
        assert predicted.shape == y.shape
        assert predicted.chunks[0] == lazy.chunks[0]
        with pytest.raises(ZeroDivisionError):
            predicted.compute(scheduler="synchronous")
        predicted = fitted.predict(lazy.rechunk({1: 1}))
        assert_allclose(predicted.compute(), fitted.predict(X), rtol=1e-12)
        assert_allclose(
            fitted.score(lazy, targets, weights), fitted.score(X, y, weight), rtol=1e-10
        )
    X[160, 1] = np.nan
    holes = collections(X)[0]
    with pytest.raises(ValueError, match="row 10 of partition 1 has nan in 'x1'"):
        fitted.predict(holes).compute(scheduler="synchronous")
    empty = fitted.predict(lazy[:0])
    assert empty.compute().shape == (0,)


def _fails(block):
    raise ZeroDivisionError


def test_tasks_have_readable_names_and_nothing_is_left(client):
    X, Y, weight = problem()
    with get_task_stream(client) as stream:
        model().fit(*collections(X, Y, weight))
    names = {key_split(task["key"]) for task in stream.data}
    steps = {"load", "statistics", "start", "core-step"}
    assert names >= {f"polyadic-{step}" for step in steps}
    assert_nothing_is_left(client)


def test_where_chunks_are_does_not_change_the_last_digit(client):
    X, Y, weight = problem()
    arrays = collections(X, Y, weight)
    first, again = model().fit(*arrays), model().fit(*arrays)
    with in_process_client().as_current():
        elsewhere = model().fit(*arrays)
    for other in (again, elsewhere):
        for mine, theirs in zip(first.cores_, other.cores_, strict=True):
            assert_array_equal(mine, theirs)


def test_what_a_step_sends_does_not_depend_on_the_number_of_rows(client, monkeypatch):
    sent, received = [], []
    ask, answers = client.compute, Cluster._answers

    def asked(parts, **options):
        sent.append(len(dumps(parts)))
        return ask(parts, **options)

    def answered(*arguments):
        received.append(len(dumps(found := answers(*arguments))))
        return found

    def sizes(n_rows):
        sent.clear()
        received.clear()
        X, Y, _ = problem(n_rows)
        model(max_iter=2, tol=0).fit(*collections(X, Y[:, 0]))
        return sent[1:], list(received)  # the first loads the rows

    monkeypatch.setattr(client, "compute", asked)
    monkeypatch.setattr(Cluster, "_answers", answered)
    # Numbers of steps and versions have more or fewer digits, and nothing else differs.
    for few, many in zip(sizes(300), sizes(3000), strict=True):
        assert len(few) == len(many) > 10
        assert_allclose(few, many, rtol=0, atol=50)


def _fitted_inside(seed):
    X, Y, weight = problem()
    return model(random_state=seed, n_jobs=2).fit(X, Y, weight).predict(X)


def test_fits_inside_tasks_are_those_outside(client):
    inside = client.gather(client.map(_fitted_inside, range(4)))
    assert_array_equal(inside, [_fitted_inside(seed) for seed in range(4)])


def test_members_in_several_threads_of_the_driver(client):
    X, Y, _ = problem()
    arrays, results = collections(X, Y[:, 0]), {}

    def fit(seed):
        with client.as_current():
            results[seed] = model(random_state=seed).fit(*arrays).predict(X)

    threads = [threading.Thread(target=fit, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(3):
        expected = model(random_state=seed).fit(X, Y[:, 0]).predict(X)
        assert_allclose(results[seed], expected, atol=1e-8)


def test_partitions_that_are_empty_or_without_weight_do_no_harm(client):
    X, Y, weight = problem()
    y, weight = Y[:, 0], np.where(np.arange(len(X)) < 100, 0.0, weight)
    lazy = [da.from_array(a, chunks=((100, 0, 150, len(X) - 250), *a.shape[1:])) for a in (X, y)]
    weights = da.from_array(weight, chunks=((100, 0, 150, len(X) - 250),))
    expected = model(early_stopping=True).fit(X, y, weight)
    assert_same_fit(model(early_stopping=True).fit(*lazy, weights), expected)


def test_targets_are_cut_like_inputs_and_may_be_in_memory(client):
    X, Y, weight = problem()
    lazy = collections(X, Y[:, 0])[0]
    expected = model(max_iter=2).fit(X, Y[:, 0], weight)
    others = da.from_array(Y[:, 0], chunks=77), da.from_array(weight, chunks=200)
    assert_same_fit(model(max_iter=2).fit(lazy, *others), expected)
    assert_same_fit(model(max_iter=2).fit(lazy.rechunk((90, 2)), Y[:, 0], weight), expected)


def test_mistakes_are_named_without_a_client():
    lazy, y = collections(*problem()[:2])
    with pytest.raises(ValueError, match=r"needs a client, and there is none.*Client\(\)"):
        model().fit(lazy, y)
    with pytest.raises(ValueError, match="`y` must hold the targets"):
        model().fit(lazy)
    with pytest.raises(ValueError, match="for each of the 400 rows of `X`, got 300"):
        model().fit(lazy, y[:300])
    with pytest.raises(ValueError, match="`sample_weight` must be one number"):
        model().fit(lazy, y, lazy)
    table, frames = frame()
    with pytest.raises(ValueError, match="partitions of `X`, which has 3, got 1"):
        model().fit(frames[["a"]], dd.from_pandas(table["y"], npartitions=1))
    with pytest.raises(TypeError, match="`y` must be a Dask collection"):
        model().fit(frames[["a"]], table["y"])
    for kind in ("string", "category", "datetime64[ns]"):
        text = frames.assign(b=frames["b"].astype("int64").astype(kind))
        with pytest.raises(ValueError, match="`X` must be numeric, but column 'b' is"):
            model().fit(text[["a", "b"]], text["y"])


def test_bad_values_are_named_with_their_partition(client):
    X, y, weight = problem()
    cases = [
        (0, np.nan, "`X` must be finite, but row 22 of partition 1 has nan in 'x2'"),
        (1, np.inf, "`y` must be finite, but row 22 of partition 1 has inf"),
        (2, np.nan, "`sample_weight` must be finite, but row 22 of partition 1"),
        (2, -1.0, "must not be negative, but row 22 of partition 1 has -1"),
    ]
    for index, value, message in cases:
        arrays = [X.copy(), y[:, 0].copy(), weight.copy()]
        arrays[index][(172, 2) if index == 0 else 172] = value
        with pytest.raises(ValueError, match=message):
            model().fit(*collections(*arrays))
    with pytest.raises(ValueError, match="at least one positive entry"):
        model().fit(*collections(X, y[:, 0], np.zeros(len(X))))
    text = collections(X, y)[0].astype(object).map_blocks(_with_text, dtype=object)
    with pytest.raises(ValueError, match="`X` must be numeric, but partition 0 is not"):
        model().fit(text, collections(X, y)[1])
    _, frames = frame()
    with pytest.raises(ValueError, match="partition 1 has"):
        model().fit(frames[["a"]], frames["y"].map_partitions(_shorter, meta=frames["y"]._meta))
    with pytest.raises(ValueError, match="at least one row"):
        model().fit(frames[frames["a"] > 2][["a"]], frames[frames["a"] > 2]["y"])
    assert_nothing_is_left(client)


def _with_text(block):
    block = block.copy()
    block[0, 0] = "text"
    return block


def _shorter(part):
    return part if part.index[0] == 0 else part[1:]


def test_an_overflow_is_the_error_it_is_in_memory(client):
    X, Y, _ = problem()
    powers = KernelMachineRegressor(
        PurePowerFeatures(), n_basis=64, rank=4, max_iter=2, scale_inputs=False, random_state=0
    )
    with pytest.raises(FloatingPointError, match="normal equations overflowed"):
        powers.fit(*collections(1e50 * X, Y[:, 0]))
    assert_nothing_is_left(client)


def test_many_partitions_are_added_up_on_the_workers(client):
    X, Y, weight = problem()
    arrays = [da.from_array(a, chunks=(20, *a.shape[1:])) for a in (X, Y[:, 0], weight)]
    with get_task_stream(client) as stream:
        fitted = model(max_iter=1).fit(*arrays)
    assert "polyadic-sum" in {key_split(task["key"]) for task in stream.data}
    assert_same_fit(fitted, model(max_iter=1).fit(X, Y[:, 0], weight))
    with in_process_client().as_current():
        elsewhere = model(max_iter=1).fit(*arrays)
    assert_array_equal(fitted.predict(X), elsewhere.predict(X))


# ------------------------------------------------------------------- any table


def messy(n_rows=240):
    """Return a table with a category, gaps and dates, and a target that depends on them."""
    rng = np.random.RandomState(0)
    table = pd.DataFrame(
        {
            "size": rng.uniform(size=n_rows),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "sold": pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.randint(0, 800, n_rows), "D"),
        }
    )
    y = 2 * table["size"] + table["colour"].map({"red": 0.0, "green": 2.0, "blue": -1.0})
    table.loc[rng.uniform(size=n_rows) < 0.1, ["size", "colour"]] = None
    return table.assign(y=y + 0.05 * rng.standard_normal(n_rows))


def automatic(**options):
    return FeatureLearningRegressor(n_estimators=1, effort=0.02, random_state=0, **options)


@pytest.mark.parametrize("kind", ["text", "category"])
def test_a_table_of_any_kind_agrees_with_memory(client, kind):
    table = messy().astype({"colour": "str" if kind == "text" else "category"})
    columns = ["size", "colour", "sold"]
    expected = automatic().fit(table[columns], table["y"])
    lazy = dd.from_pandas(table, npartitions=3)
    fitted = automatic().fit(lazy[columns], lazy["y"])
    assert fitted.schema_ == expected.schema_
    assert_array_equal(fitted.predict(table[columns]), expected.predict(table[columns]))
    assert_array_equal(fitted.predict(lazy[columns]).compute(), expected.predict(table[columns]))
    score = expected.score(table[columns], table["y"])
    assert fitted.score(lazy[columns], lazy["y"]) == pytest.approx(score)
    assert_nothing_is_left(client)


def test_gaps_in_arrays_agree_with_memory(client):
    X, Y, weight = problem(200)
    X[::7, 1] = np.nan
    expected = automatic().fit(X, Y[:, 0], weight)
    fitted = automatic().fit(*collections(X, Y[:, 0], weight))
    assert_array_equal(fitted.predict(X), expected.predict(X))
    used = X[weight > 0]
    assert [c.n_gaps > 0 for c in fitted.schema_.columns] == np.isnan(used).any(axis=0).tolist()
    lazy = collections(X.astype(object))[0]
    assert_array_equal(fitted.predict(lazy).compute(), expected.predict(X))


def test_numbers_named_as_categories_and_rows_that_do_not_count(client):
    X, Y, weight = problem(200)
    X[:, 0] = np.where(weight > 0, np.round(X[:, 0] * 2), 9.0)
    expected = automatic(categorical_features=[0]).fit(X, Y[:, 0], weight)
    fitted = automatic(categorical_features=[0]).fit(*collections(X, Y[:, 0], weight))
    assert 9 not in fitted.schema_.columns[0].levels
    assert fitted.schema_ == expected.schema_
    assert_array_equal(fitted.predict(X[weight > 0]), expected.predict(X[weight > 0]))


def test_what_the_fit_did_not_see_is_told_when_it_is_computed():
    table, columns = messy(), ["size", "colour", "sold"]
    model = automatic().fit(table[columns], table["y"])
    table.loc[[0, 1, 200], "colour"] = "purple"  # in the first and the last partition
    table.loc[7, "sold"] = None
    lazy = dd.from_pandas(table, npartitions=3)
    words = r"did not see \({} in 'colour'\).*gaps where it had none \(1 in 'sold'\)"
    with pytest.warns(TableWarning, match=words.format(3)) as told:
        model.score(lazy[columns], lazy["y"])
    assert len(told) == 1
    assert told[0].filename == __file__
    found = model.predict(lazy[columns])
    with pytest.warns(TableWarning, match=words.format(2)) as told:
        found = found.compute(scheduler="synchronous")
    assert any("(1 in 'colour')" in str(each.message) for each in told)
    with pytest.warns(TableWarning, match=words.format(3)):
        assert_array_equal(found, model.predict(table[columns]))


def test_gaps_that_the_fit_did_not_see_are_told_of_numbers_too():
    X, Y, _ = problem(200)
    model = automatic().fit(X, Y[:, 0])
    X[[3, 190], 1] = np.nan
    rows, y = collections(X, Y[:, 0])
    with pytest.warns(TableWarning, match=r"gaps where it had none \(2 in 'x1'\)"):
        model.score(rows, y)
    with pytest.warns(TableWarning, match=r"gaps where it had none \(1 in 'x1'\)"):
        model.predict(rows).compute(scheduler="synchronous")


def test_rows_that_do_not_count_in_a_fit_are_no_surprise(client):
    table = messy()
    weight = pd.Series(np.ones(len(table)))
    table.loc[5, "colour"], weight[5] = "purple", 0.0
    lazy = dd.from_pandas(table.assign(w=weight), npartitions=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TableWarning)
        model = automatic().fit(lazy[["size", "colour"]], lazy["y"], lazy["w"])
    assert model.schema_.columns[1].n_levels == 3
