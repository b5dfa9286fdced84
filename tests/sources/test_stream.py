"""Fits on rows on disk are the fits on the same rows in memory."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from polyadic import FeatureLearningRegressor, KernelMachineRegressor, compute, open_rows
from polyadic.compute import SearchLimits
from polyadic.features import FourierFeatures, PurePowerFeatures
from polyadic.sources import arrays as arrays_module
from polyadic.sources.files.row_source import RowSource
from polyadic.sources.files.streamed import FileSource
from polyadic.sources.schema import TableWarning
from tests.small import data_of, regressor, slow_but
from tests.sources.rows import PLACES, kept_in, small_batches, table, write

pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")

KINDS = {
    "one target": ({}, "u", None),
    "weights": ({}, "u", "w"),
    "several targets": ({}, ["u", "v"], "w"),
    "early stopping": ({"early_stopping": True, "max_iter": 6}, "u", "w"),
    "members": ({"n_estimators": 2}, "u", None),
    "subsample": ({"subsample": 0.25, "max_iter": 6}, ["u", "v"], "w"),
    "not quantized": ({"quantized": False}, "u", "w"),
    "single precision": ({"dtype": "float32"}, "u", "w"),
    "own units": ({"scale_inputs": False}, "u", None),
    "reference": ({"engine": "reference"}, "u", "w"),
}


def model(**parameters):
    return regressor(**{"n_jobs": 2, **parameters})


@pytest.fixture(scope="module")
def rows():
    return table()


@pytest.fixture
def folder(rows, tmp_path, monkeypatch):
    small_batches(monkeypatch)
    return write(tmp_path, *rows)


def arrays(rows, target, weight):
    X, y, w = rows
    return X, y[:, 0] if target == "u" else y, w if weight else None


def source_of(folder, target="u", weight=None, **options):
    return open_rows(folder, target, ["a", "b", "c"], weight, **options)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", slow_but({"weights", "several targets", "subsample"}, KINDS))
def test_the_fit_is_the_one_in_memory(rows, folder, monkeypatch, kind, place):
    parameters, target, weight = KINDS[kind]
    if (kind, place) == ("reference", "state"):
        pytest.skip("nobody knows how much memory the reference engine's state takes")
    X, y, w = arrays(rows, target, weight)
    expected = model(**parameters).fit(X, y, w)
    source = source_of(folder, target, weight)
    settled = kept_in(monkeypatch, place)
    found = model(**parameters).fit(source)
    assert set(settled) == {place}
    tolerance = 2e-4 if kind == "single precision" else 1e-8
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=0, atol=tolerance)
    np.testing.assert_allclose(found.loss_curve_, expected.loss_curve_, rtol=tolerance)
    assert (found.n_iter_, found.n_samples_fit_) == (expected.n_iter_, expected.n_samples_fit_)
    assert list(found.feature_names_in_) == ["a", "b", "c"]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_threads_do_not_change_the_last_digit(folder, monkeypatch, place):
    kept_in(monkeypatch, place)
    source = source_of(folder, ["u", "v"], "w")
    fits = [model(n_jobs=n_jobs, early_stopping=True).fit(source) for n_jobs in (1, 2, 3)]
    for other in fits[1:]:
        for mine, first in zip(other.cores_, fits[0].cores_, strict=True):
            np.testing.assert_array_equal(mine, first)


@pytest.mark.slow
def test_files_do_not_change_the_last_digit(rows, folder, tmp_path_factory, monkeypatch):
    """Many small files, one huge row group, or rows in memory between passes: the same sums."""
    many, one = tmp_path_factory.mktemp("many"), tmp_path_factory.mktemp("one")
    write(many, *rows, cuts=range(50, 2500, 50), row_group_size=20)
    write(one, *rows, cuts=(), row_group_size=10**6)
    fits = []
    for place, where in (("rows", folder), ("disk", folder), ("disk", many), ("disk", one)):
        kept_in(monkeypatch, place)
        fits.append(model().fit(source_of(where, "u", "w")))
    for other in fits[1:]:
        np.testing.assert_array_equal(other.cores_, fits[0].cores_)


def test_predictions_and_scores(rows, folder):
    X, y, w = rows
    fitted = model().fit(X, y, w)
    source = source_of(folder, ["u", "v"], "w")
    np.testing.assert_allclose(fitted.predict(source), fitted.predict(X), rtol=0, atol=1e-12)
    assert fitted.score(source) == pytest.approx(fitted.score(X, y, w), abs=1e-12)
    without = source_of(folder, None)
    np.testing.assert_array_equal(fitted.predict(without), fitted.predict(source))
    with pytest.raises(ValueError, match="names no target"):
        fitted.score(without)
    with pytest.raises(ValueError, match="names no target"):
        model().fit(without)


def test_a_row_beyond_all_bounds_is_counted_from_one_in_files(rows, tmp_path, monkeypatch):
    small_batches(monkeypatch)
    X, y, w = (array.copy() for array in rows)
    machine = KernelMachineRegressor(PurePowerFeatures(), n_basis=64, rank=2, max_iter=1)
    machine.fit(X, y[:, 0])
    X[917, 1] = 1e200
    with pytest.raises(ValueError, match="row 917 and 0 others overflow"):
        machine.predict(X)  # an index
    source = source_of(write(tmp_path, X, y, w))
    with pytest.raises(ValueError, match="row 918 and 0 others overflow"):
        machine.predict(source)


def test_rows_of_no_weight_may_fill_a_batch(rows, folder, tmp_path_factory):
    X, y, w = rows
    w = np.where(np.arange(len(w)) < 900, 0.0, 1.0)
    source = source_of(write(tmp_path_factory.mktemp("zero"), X, y, w), "u", "w")
    found, expected = model().fit(source), model().fit(X, y[:, 0], w)
    assert found.n_samples_fit_ == 1600
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=0, atol=1e-8)
    assert found.score(source) == pytest.approx(expected.score(X, y[:, 0], w), abs=1e-10)


def test_an_automatic_fit_on_few_rows_is_the_one_in_memory(rows, tmp_path):
    X, y, w = (array[:300] for array in rows)
    source = source_of(write(tmp_path, X, y, w, cuts=(100,)), "u", "w")
    settings = {"random_state": 0, "effort": 0.1, "n_estimators": 1}
    expected = FeatureLearningRegressor(**settings).fit(X, y[:, 0], w)
    found = FeatureLearningRegressor(**settings).fit(source)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    assert found.n_samples_fit_ == expected.n_samples_fit_ == np.count_nonzero(w)


@pytest.mark.slow
def test_a_search_on_disk_is_as_good_as_the_one_in_memory(rows, folder, monkeypatch):
    """Rows that are many stay on disk: some are trained on in memory, then all where they are."""
    monkeypatch.setattr(arrays_module, "EXACT_ROWS", 100)
    monkeypatch.setattr(compute, "LIMITS_OF_A_CPU", SearchLimits(few_rows=500))
    X, y, _ = rows
    settings = {"random_state": 0, "n_estimators": 1, "n_jobs": 2}
    expected = FeatureLearningRegressor(**settings).fit(X, y[:, 0])
    found = FeatureLearningRegressor(**settings).fit(source_of(folder, "u"))
    for model in (expected, found):
        few, *_, all_of_them = model.selection_["n_rows"]
        assert abs(few - 500) < 5 * 500**0.5  # which the hash leaves to chance
        assert all_of_them == len(X) * 4 // 5
    # Both draw the rows that features are learned from in the order that they have.
    errors = [min(model.selection_["held_out_mse"]) for model in (expected, found)]
    assert errors[1] == pytest.approx(errors[0], rel=0.05)


@pytest.mark.slow
def test_a_device_computes_rows_on_disk(rows, folder, monkeypatch):
    pytest.importorskip("torch")
    X, y, w = rows
    machine = KernelMachineRegressor(
        FourierFeatures(4.0), n_basis=4, rank=3, max_iter=3, random_state=0, engine="torch"
    )
    expected = machine.fit(X, y[:, 0], w).predict(X)
    for place in ("state", "disk"):
        settled = kept_in(monkeypatch, place)
        found = machine.fit(source_of(folder, "u", "w")).predict(X)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
        assert settled == [place, place]  # the fit, and the posterior after it


def test_formats_hold_the_same_rows(rows, folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("formats")
    X, y, w = rows
    matrix = np.column_stack([X, y, w])
    np.save(other / "c.npy", matrix)
    np.save(other / "f.npy", np.asfortranarray(matrix))
    frame = pa.table(dict(zip(["x0", "x1", "x2", "x3", "x4", "x5"], matrix.T, strict=True)))
    pa.csv.write_csv(frame, other / "t.csv")
    with pa.CompressedOutputStream(other / "t.csv.gz", "gzip") as file:
        pa.csv.write_csv(frame, file)
    expected = list(source_of(folder, ["u", "v"], "w").batches())
    for name in ("c.npy", "f.npy", "t.csv", "t.csv.gz"):
        source = open_rows(other / name, target=["x3", "x4"], weight="x5")
        assert source.names == ["x0", "x1", "x2"]
        for batch, truth in zip(source.batches(), expected, strict=True):
            assert batch.first_row == truth.first_row
            for part in ("X", "y", "weight"):
                np.testing.assert_array_equal(getattr(batch, part), getattr(truth, part))


def test_a_source_knows_its_rows_as_memory_does(rows, folder):
    """Statistics, content and hashes, by which checkpoints and held-out rows are told."""
    X, y, w = rows
    streamed = FileSource(source_of(folder, ["u", "v"], "w")).data()
    whole = streamed.gather_about(10**6, seed=0)
    used = w > 0
    np.testing.assert_array_equal(whole.X, X[used])
    np.testing.assert_array_equal(whole.y, y[used])
    np.testing.assert_array_equal(whole.weight, w[used])
    memory = data_of(X[used], y[used], w[used])
    assert (streamed.n_rows, streamed.n_targets) == (used.sum(), 2)
    assert streamed.n_distinct == memory.n_distinct
    assert streamed.total_weight == pytest.approx(w.sum(), rel=1e-12)
    assert streamed.fingerprint() == memory.fingerprint()
    np.testing.assert_array_equal(streamed.hashes(3), memory.hashes(3))
    part = streamed.gather_about(500, seed=1)
    assert 400 < len(part) < 600
    assert {tuple(row) for row in part.X} < {tuple(row) for row in X[used]}
    train, held = streamed.split(0.2, seed=5)
    restricted = streamed.restrict(train)
    assert restricted.n_rows + streamed.gather(held).n_rows == streamed.n_rows
    assert restricted.total_weight == pytest.approx(memory.restrict(train).total_weight)


def test_a_split_leaves_no_row_out(rows, folder):
    source = source_of(folder, "u")
    kept, held = source.split(0.3, seed=1)
    parts = [np.concatenate([b.X for b in part.batches()]) for part in (kept, held)]
    assert 0.25 < len(parts[1]) / len(rows[0]) < 0.35
    both = np.concatenate(parts)
    np.testing.assert_array_equal(np.sort(both, axis=0), np.sort(rows[0], axis=0))
    assert "a part of the rows" in repr(kept)


def test_a_checkpoint_of_other_rows_is_refused(rows, folder, tmp_path_factory, monkeypatch):
    X, y, w = rows
    path = tmp_path_factory.mktemp("checkpoint") / "fit"
    seen = []

    def stop(*_):
        seen.append(1)
        if len(seen) == 30:
            raise KeyboardInterrupt

    source = source_of(folder, "u", "w")
    kept_in(monkeypatch, "disk")
    complete = model().fit(source)
    from polyadic.samples.disk import StreamSamples

    commit = StreamSamples.commit
    with monkeypatch.context() as patch:
        patch.setattr(StreamSamples, "commit", lambda *args: (commit(*args), stop()))
        with pytest.raises(KeyboardInterrupt):
            model(checkpoint=path).fit(source)
    assert path.exists()
    changed = write(tmp_path_factory.mktemp("other"), X, y[:, ::-1], w)
    with pytest.raises(ValueError, match="its data differs"):
        model(checkpoint=path).fit(source_of(changed, "u", "w"))
    resumed = model(checkpoint=path).fit(source)
    np.testing.assert_array_equal(resumed.cores_, complete.cores_)
    assert not path.exists()


def readers():
    return [thread for thread in threading.enumerate() if thread.name == "polyadic-reader"]


def test_an_abandoned_pass_leaves_no_thread_and_no_open_file(folder, count_open_files):
    before = count_open_files()
    batches = source_of(folder).batches()
    next(batches)
    assert len(readers()) == 1
    batches.close()
    assert (readers(), count_open_files()) == ([], before)
    for _ in source_of(folder).batches():
        break
    assert (readers(), count_open_files()) == ([], before)


@pytest.fixture
def count_open_files():
    psutil = pytest.importorskip("psutil")
    return lambda: len(psutil.Process().open_files())


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_in_a_step_ends_reader_and_fit(folder, monkeypatch, n_jobs):
    kept_in(monkeypatch, "disk")
    from polyadic.engines.compiled.polar import PolarChunk

    calls = []

    def fail(*_):
        calls.append(1)
        if len(calls) > 9:
            raise KeyboardInterrupt
        return original(*_)

    original = PolarChunk.normal_equations
    monkeypatch.setattr(PolarChunk, "normal_equations", fail)
    with pytest.raises(KeyboardInterrupt):
        model(n_jobs=n_jobs).fit(source_of(folder))
    assert readers() == []


def test_a_source_can_be_seen(folder):
    source = source_of(folder, ["u", "v"], "w")
    assert isinstance(source, RowSource)
    assert repr(source) == "RowSource(3 files, 3 inputs, target='u', 'v', weight='w')"
    assert source.n_bytes == sum(path.stat().st_size for path in folder.iterdir())


@pytest.fixture(scope="module")
def frame():
    """A table with text, a flag, dates and gaps."""
    rng = np.random.RandomState(0)
    n_rows = 240
    town = rng.choice(["Oslo", "Rome", "Ulm"], n_rows, p=[0.5, 0.3, 0.2]).astype(object)
    town[::11] = None
    size = np.where(rng.rand(n_rows) < 0.1, np.nan, rng.rand(n_rows).round(3))
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.randint(0, 700, n_rows), unit="D")
    y = np.nan_to_num(size) + (town == "Rome") + rng.randn(n_rows) / 50
    return pd.DataFrame(
        {"size": size, "town": town, "flag": rng.rand(n_rows) < 0.5, "day": day, "y": y}
    )


@pytest.fixture(params=["t.csv", "t.parquet", "parts"])
def table_on_disk(request, frame, tmp_path):
    path = tmp_path / request.param
    if request.param == "t.csv":
        frame.to_csv(path, index=False)
    elif request.param == "t.parquet":
        frame.astype({"town": "category"}).to_parquet(path, row_group_size=50)
    else:
        path.mkdir()
        for place in range(3):  # a folder of two formats
            part = frame[80 * place : 80 * (place + 1)]
            part.to_csv(path / f"{place}.csv", index=False)
    return path


@pytest.mark.slow
def test_a_fit_to_any_table_is_the_one_in_memory(frame, table_on_disk):
    X, y = frame.drop(columns="y"), frame["y"]
    settings = {"random_state": 0, "effort": 0.05, "n_estimators": 1}
    expected = FeatureLearningRegressor(**settings).fit(X, y)
    source = open_rows(table_on_disk, "y")
    found = FeatureLearningRegressor(**settings).fit(source)
    assert found.schema_ == expected.schema_
    assert found.feature_names_in_.tolist() == ["size", "town", "flag", "day"]
    np.testing.assert_array_equal(found.predict(source), expected.predict(X))
    np.testing.assert_array_equal(found.predict(X), expected.predict(source))
    assert found.score(source) == pytest.approx(expected.score(X, y), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_fit_to_a_table_that_stays_on_disk(frame, tmp_path, monkeypatch, place):
    """Rows that are not brought into memory give the predictions of those that are."""
    monkeypatch.setattr(arrays_module, "EXACT_ROWS", 100)
    small_batches(monkeypatch)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=50)
    X, y = frame.drop(columns="y"), frame["y"]
    settings = {"random_state": 0, "effort": 0.05, "n_estimators": 1}
    expected = FeatureLearningRegressor(**settings).fit(X, y)
    kept_in(monkeypatch, place)
    found = FeatureLearningRegressor(**settings).fit(open_rows(tmp_path / "t.parquet", "y"))
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=0, atol=0.05 * y.std())


def test_what_a_fit_has_not_seen_is_counted_once_in_a_pass(frame, tmp_path, monkeypatch):
    small_batches(monkeypatch)
    monkeypatch.setattr("polyadic.sources.files.row_source._MOST_ROWS", 64)
    X, y = frame.drop(columns="y"), frame["y"]
    fitted = FeatureLearningRegressor(effort=0.05, n_estimators=1, random_state=0).fit(X, y)
    new = X.copy()
    new.loc[[3, 100, 230], "town"] = "Lima"
    new.loc[[5, 200], "day"] = pd.NaT
    new.to_csv(tmp_path / "new.csv", index=False)
    told = r"levels that the fit did not see \(3 in 'town'\).* and gaps .* \(2 in 'day'\)"
    for act in (fitted.predict, lambda rows: [*fitted.predict_batches(rows)]):
        with pytest.warns(TableWarning, match=told) as warned:
            act(open_rows(tmp_path / "new.csv"))
        assert len(warned) == 1


def test_named_maps_take_numbers_without_gaps_only(frame, tmp_path):
    frame.to_parquet(tmp_path / "t.parquet")
    path = tmp_path / "t.parquet"
    with pytest.raises(ValueError, match="Named feature maps need numbers, but column 'town'"):
        model().fit(open_rows(path, "y"))
    row = int(np.argmax(np.isnan(frame["size"]))) + 1
    with pytest.raises(ValueError, match=rf"Row {row} of .* 'size'.*missing='complete'"):
        model().fit(open_rows(path, "y", ["size"]))
    fitted = model().fit(open_rows(path, "y", ["size"], missing="complete"))
    assert fitted.n_samples_dropped_ == np.isnan(frame["size"]).sum()
