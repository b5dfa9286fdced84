"""Labels of any kind, in memory, in files and on a cluster: the same answers everywhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import polyadic
from polyadic import FeatureLearningClassifier, FeatureLearningRegressor, KernelMachineClassifier
from polyadic.sources.labels import Classes, LabelColumn, Labels
from tests.small import FAR_APART as MAPS

SMALL = {"n_basis": 4, "rank": 2, "max_iter": 4, "random_state": 0}


def classifier(**parameters):
    return FeatureLearningClassifier(MAPS, **{**SMALL, **parameters})


def frame_of(labels, n_rows=240):
    """Return two inputs, a label that they tell, and weights of which some are zero."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(n_rows, 2))
    score = np.sin(5 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n_rows)
    edges = np.quantile(score, np.arange(1, len(labels)) / len(labels))
    y = pd.Series(labels)[np.searchsorted(edges, score)].reset_index(drop=True)
    weight = rng.randint(0, 4, n_rows).astype(float)
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "w": weight})


LABELS = {
    "two texts": ["no", "yes"],
    "three texts": ["rare", "medium", "well done"],
    "flags": [False, True],
    "whole numbers": [3, -1, 7],
    "categories": pd.Categorical(["b", "a", "c"]),
}


def in_csv(frame, folder):
    frame.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def in_parquet(frame, folder):
    frame.to_parquet(folder / "t.parquet", index=False)
    return folder / "t.parquet"


def in_excel(frame, folder):
    pytest.importorskip("openpyxl")
    frame.to_excel(folder / "t.xlsx", index=False)
    return folder / "t.xlsx"


FORMATS = {"csv": in_csv, "parquet": in_parquet, "excel": in_excel}
CASES = [
    ("two texts", "csv", "balanced"),
    ("two texts", "excel", "plain"),
    ("three texts", "csv", "by label"),
    ("three texts", "parquet", "balanced"),
    ("flags", "csv", "plain"),
    ("flags", "excel", "balanced"),
    ("flags", "parquet", "by label"),
    ("whole numbers", "csv", "balanced"),
    ("whole numbers", "parquet", "plain"),
    ("categories", "parquet", "by label"),
]


def weights_of(labels, way):
    if way == "by label":
        return {label: 1.0 + place for place, label in enumerate(LABELS[labels])}
    return None if way == "plain" else way


@pytest.mark.parametrize(("labels", "kind", "class_weight"), CASES)
def test_files_give_the_answers_of_memory(tmp_path, labels, kind, class_weight):
    frame = frame_of(LABELS[labels])
    chosen = weights_of(labels, class_weight)
    source = polyadic.open_rows(FORMATS[kind](frame, tmp_path), target="y", weight="w")
    X, y, weight = frame[["a", "b"]], frame["y"], frame["w"]
    expected = classifier(class_weight=chosen).fit(X, y, weight)
    model = classifier(class_weight=chosen).fit(source)
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert model.classes_.dtype.kind == np.unique(np.asarray(y)).dtype.kind
    np.testing.assert_allclose(model.predict_proba(source), expected.predict_proba(X), atol=1e-7)
    np.testing.assert_array_equal(model.predict(source), expected.predict(X))
    assert model.score(source) == pytest.approx(expected.score(X, y, weight), abs=1e-12)
    # What one learned from a file, it tells of frames, and the other way round.
    assert model.score(X, y, weight) == pytest.approx(model.score(source), abs=1e-12)
    assert expected.score(source) == pytest.approx(model.score(source), abs=1e-12)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("labels", "class_weight"),
    [
        ("two texts", "plain"),
        pytest.param("flags", "balanced", marks=pytest.mark.slow),
        pytest.param("categories", "by label", marks=pytest.mark.slow),
    ],
)
def test_a_cluster_gives_the_answers_of_memory(labels, class_weight):
    dd = pytest.importorskip("dask.dataframe")
    from tests.contract.clusters import client

    frame = frame_of(LABELS[labels])
    X, y, weight = frame[["a", "b"]], frame["y"], frame["w"]
    options = {"class_weight": weights_of(labels, class_weight)}
    expected = classifier(**options).fit(X, y, weight)
    with client().as_current():
        lazy = dd.from_pandas(frame, npartitions=3)
        rows, targets, weights = lazy[["a", "b"]], lazy["y"], lazy["w"]
        model = classifier(**options).fit(rows, targets, weights)
        found = model.predict(rows)
        assert model.classes_.tolist() == expected.classes_.tolist()
        assert hasattr(found, "dask")  # nothing is computed yet
        np.testing.assert_array_equal(found.compute(), expected.predict(X))
        np.testing.assert_allclose(
            model.predict_proba(rows).compute(), expected.predict_proba(X), atol=1e-7
        )
        score = model.score(rows, targets, weights)
        assert score == pytest.approx(expected.score(X, y, weight), abs=1e-12)


@pytest.mark.slow
@pytest.mark.cluster
def test_labels_beside_dask_arrays():
    da = pytest.importorskip("dask.array")
    from tests.contract.clusters import client

    frame = frame_of(["no", "yes"])
    X, y = frame[["a", "b"]].to_numpy(), frame["y"].to_numpy().astype("U3")
    expected = classifier().fit(X, y)
    with client().as_current():
        rows = da.from_array(X, chunks=(100, 2))
        for labels in (y, da.from_array(y, chunks=80)):
            model = classifier().fit(rows, labels)
            assert model.score(rows, labels) == pytest.approx(expected.score(X, y), abs=1e-12)
        missing = y.astype(object)
        missing[[3, 130]] = None
        words = r"missing in 2 of 240 rows: row 3 of partition 0, row 30 of partition 1\."
        with pytest.raises(ValueError, match=words):
            classifier().fit(rows, missing)


@pytest.mark.parametrize("model", [FeatureLearningClassifier, KernelMachineClassifier])
def test_automatic_fits_and_machines_take_text_from_files(tmp_path, model):
    frame = frame_of(["no", "yes"]).drop(columns="w")
    frame["kind"] = np.where(np.arange(len(frame)) % 3, "x", "z")
    small = {"n_basis": 4, "rank": 2, "max_iter": 3}
    if model is FeatureLearningClassifier:  # levels go by their weights
        small = {"effort": 0.1, "n_estimators": 1, "class_weight": {"no": 1.0, "yes": 9.0}}
        frame["kind"] = np.where(frame["y"] == "yes", frame["kind"], "z")
    else:
        frame = frame.drop(columns="kind")
    source = polyadic.open_rows(in_csv(frame, tmp_path), target="y")
    X = frame.drop(columns="y")
    read = model(random_state=0, **small).fit(source)
    plain = model(random_state=0, **small).fit(X, frame["y"])
    np.testing.assert_allclose(read.predict_proba(source), plain.predict_proba(X), atol=1e-7)
    assert read.score(source) > 0.8
    polyadic.save(read, tmp_path / "model.polyadic")
    again = polyadic.load(tmp_path / "model.polyadic")
    np.testing.assert_array_equal(again.predict(source), plain.predict(X))


def test_parts_of_a_file_with_text_labels(tmp_path):
    """A split is by the rows' values, whichever labels its parts have."""
    frame = frame_of(["a", "b", "c"])
    frame.loc[7, "y"] = "rare"
    path = in_csv(frame, tmp_path)
    kept, held = polyadic.open_rows(path, "y", ["a", "b"]).split(0.25, seed=3)
    numbers = [sum(len(batch) for batch in part.batches()) for part in (kept, held)]
    assert sum(numbers) == 240
    assert 40 < numbers[1] < 80
    model = classifier().fit(kept)
    assert model.n_samples_fit_ == numbers[0]
    counts = [sum(part.labels().sums.values()) for part in (kept, held)]
    assert counts == numbers
    assert 0.5 < model.score(held) <= 1.0


def test_text_that_may_be_numbers_stays_text(tmp_path):
    """A later file may have nothing but labels that look like numbers."""
    frame = frame_of(["1", "2", "x"])
    model = classifier().fit(polyadic.open_rows(in_csv(frame, tmp_path), "y", ["a", "b"]))
    assert model.classes_.tolist() == ["1", "2", "x"]
    few = frame[frame["y"] != "x"]
    source = polyadic.open_rows(in_csv(few, tmp_path), "y", ["a", "b"])
    expected = (model.predict(few[["a", "b"]]) == few["y"]).mean()
    assert model.score(source) == pytest.approx(expected, abs=1e-12)


def test_labels_that_the_fit_did_not_see_are_misses(tmp_path):
    frame = frame_of(["no", "yes"])
    model = classifier().fit(frame[["a", "b"]], frame["y"])
    frame.loc[:9, "y"] = "maybe"
    source = polyadic.open_rows(in_csv(frame, tmp_path), "y", ["a", "b"])
    expected = model.score(frame[["a", "b"]], frame["y"])
    assert model.score(source) == pytest.approx(expected, abs=1e-12)


def test_classes_of_no_weight_are_no_classes(tmp_path):
    frame = frame_of(["a", "b", "c"])
    options = {"class_weight": {"a": 0.0, "b": 1.0, "c": 1.0}}
    source = polyadic.open_rows(in_csv(frame, tmp_path), "y", ["a", "b"])
    model = classifier(**options).fit(source)
    expected = classifier(**options).fit(frame[["a", "b"]], frame["y"])
    assert model.classes_.tolist() == expected.classes_.tolist() == ["b", "c"]
    assert model.n_samples_fit_ == expected.n_samples_fit_ == (frame["y"] != "a").sum()


def test_missing_labels_of_files_name_their_rows(tmp_path):
    frame = frame_of(["no", "yes"])
    frame.loc[[4, 9, 11], "y"] = None
    for path in (in_csv(frame, tmp_path), in_parquet(frame, tmp_path)):
        words = r"Row 5 of .* has no label in column 'y', nor have rows 10, 12\. .*missing='drop'"
        with pytest.raises(ValueError, match=words):
            classifier().fit(polyadic.open_rows(path, "y", ["a", "b"]))
        model = classifier().fit(polyadic.open_rows(path, "y", ["a", "b"], missing="drop"))
        assert (model.n_samples_fit_, model.n_samples_dropped_) == (237, 3)


def test_regressors_refuse_text_targets(tmp_path):
    frame = frame_of(["no", "yes"])
    source = polyadic.open_rows(in_csv(frame, tmp_path), "y", ["a", "b"])
    words = r"'y' is text \(row 1 is '\w+'\).*must be numbers; a classifier"
    with pytest.raises(ValueError, match=words):
        FeatureLearningRegressor(MAPS, **SMALL).fit(source)
    numbers = polyadic.open_rows(in_csv(frame, tmp_path), "w", ["a", "b"])
    with pytest.raises(ValueError, match=words):
        FeatureLearningRegressor(MAPS, **SMALL).fit(numbers).score(source)


def test_labels_of_pieces_add_up():
    """Whatever the pieces, sums are those of NumPy."""
    rng = np.random.RandomState(0)
    y, weight = rng.choice(["a", "bb", "c"], 200), rng.randint(0, 3, 200).astype(float)
    pieces = zip(np.split(y, [30, 90]), np.split(weight, [30, 90]), strict=True)
    total = sum((Labels.of(LabelColumn.of(*each[:1]), each[1]) for each in pieces), Labels())
    values, sums = total.in_order()
    assert values.tolist() == ["a", "bb", "c"]
    assert sums.tolist() == [weight[y == each].sum() for each in values]
    assert total.n_rows == np.count_nonzero(weight)
    classes = Classes(values, np.array([1.0, 2.0, 4.0]))
    numbers = classes.number(LabelColumn.of(np.array(["c", "other", "a"])))
    assert numbers.tolist() == [2.0, -1.0, 0.0]
    assert classes.weigh(numbers, np.full(3, 3.0)).tolist() == [12.0, 0.0, 3.0]


@pytest.mark.parametrize(
    "values",
    [
        np.array(["b", "a", "b"]),
        np.array([2.0, np.nan, -1.0]),
        np.array([True, False, True]),
        np.array(["x", None, "y"], dtype=object),
        pd.Series([1, None, 3], dtype="Int64"),
        pd.Series(["u", None, "v"], dtype="str"),
        pd.Series(["u", None, "v"], dtype="category"),
    ],
    ids=str,
)
def test_columns_of_labels_say_what_each_row_has(values):
    array = np.asarray(values)
    expected = [None if pd.isna(item) else item for item in array.tolist()]
    columns = [LabelColumn.of(values), LabelColumn.of_arrow(pa.array(expected))]
    for column in columns:
        found = [None if place < 0 else column.values[place] for place in column.places]
        assert found == expected
        hashes = column.hashes()
        assert (np.isnan(hashes) == [item is None for item in expected]).all()


@pytest.mark.parametrize(
    ("y", "error", "words"),
    [
        ([0.5, 1.5], ValueError, "Unknown label type: continuous"),
        ([1.0, 1.0], ValueError, "got one class, 1.0. Pass"),
        (["a", "a"], ValueError, "got one class, 'a'. Pass"),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), TypeError, r"Make text .*astype\(str\)"),
        (pd.Series(["a", None]), ValueError, r"missing in 30 of 60 rows: row 1, row 3, row 5"),
        (pd.Series([1, None], dtype="Int64"), ValueError, r"missing in 30 of 60 rows: row 1,"),
        (pd.Series(["a", None], dtype="category"), ValueError, r"missing in 30 of 60 rows: row 1,"),
        ([1.0, np.nan], ValueError, r"row 9 and 25 more \(the first row is 0\)"),
    ],
    ids=str,
)
def test_what_is_no_label_is_refused(y, error, words):
    X = np.random.RandomState(0).uniform(size=(60, 2))
    many = pd.concat([y] * 30, ignore_index=True) if isinstance(y, pd.Series) else np.tile(y, 30)
    with pytest.raises(error, match=words):
        classifier().fit(X, many)


@pytest.mark.parametrize("labels", [[3, 5], [False, True], [3.0, 5.0]], ids=str)
def test_objects_that_are_numbers_are_labels(tmp_path, labels):
    frame = frame_of(labels)
    X, y = frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()
    model = classifier().fit(X, y.astype(object))
    expected = classifier().fit(X, y)
    assert model.classes_.dtype == expected.classes_.dtype
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    polyadic.save(model, tmp_path / "model.polyadic")
    again = polyadic.load(tmp_path / "model.polyadic")
    assert again.classes_.tolist() == labels
    assert again.classes_.dtype == model.classes_.dtype
