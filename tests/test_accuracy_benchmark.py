"""The accuracy benchmark: its splits, its numbers, and how results of several calls meet."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from benchmarks import accuracy
from benchmarks.collection import COLLECTION
from benchmarks.real import Source
from sklearn.linear_model import LinearRegression


def test_problems_are_whole_and_always_the_same():
    for problem in COLLECTION.values():
        X, y = problem()
        assert np.isfinite(X).all()
        assert y.shape == (len(X),)
        np.testing.assert_array_equal(problem()[1], y)


def test_a_table_becomes_numbers_without_gaps_and_copies_of_the_target():
    frame = pd.DataFrame(
        {
            "rownames": [1, 2, 3, 4],
            "price": [1.0, np.e, 7.0, np.e**2],
            "lprice": [0.0, 1.0, 2.0, 2.0],
            "size": [3.0, 4.0, np.nan, 5.0],
            "kind": ["a", "b", "a", "a"],
            "grade": ["good", "bad", "bad", "best"],
            "street": list("stuv"),
            "same": [1, 1, 1, 1],
        }
    )
    frame = pd.concat([frame] * 2, ignore_index=True)
    frame["street"] = [f"street {index}" for index in range(8)]
    grades = {"grade": ("bad", "good", "best")}
    source = Source("package", "item", "price", ("lprice",), log=True, grades=grades)
    X, y = source.numbers(frame)
    np.testing.assert_allclose(y, [0.0, 1.0, 2.0] * 2)
    np.testing.assert_array_equal(X, [[3, 1, 0], [4, 0, 1], [5, 2, 0]] * 2)


def test_errors_are_in_units_of_the_training_targets_variance():
    X, y = COLLECTION["linear"]()
    parts = accuracy.split("linear", X, 50 * y + 7, seed=1)
    assert len(parts[0]) == 400
    np.testing.assert_allclose([parts[2].mean(), parts[2].std(ddof=1)], [0, 1], atol=1e-12)
    error, _ = accuracy.score(LinearRegression(), *parts)
    # The noise has variance ¼, the target Σd²/(9·12) more.
    assert abs(error - 0.25 / (0.25 + 285 / 108)) < 0.03


@pytest.mark.slow
def test_results_of_several_calls_meet_in_one_table(tmp_path):
    X, y = COLLECTION["noise"]()
    results = {"machine": {"cpu": "any", "cpus": 1, "load": 0.0}, "sets": {}}
    for models in (["ridge"], ["boosting"]):
        record = accuracy.measure("noise", X, y, models, n_splits=1)
        results["sets"]["noise"] = accuracy.merged(results["sets"].get("noise"), record)
    accuracy.write(results, tmp_path)
    stored = json.loads((tmp_path / "accuracy.json").read_text())["sets"]["noise"]
    assert set(stored["models"]) == {"ridge", "boosting"}
    (row,) = [r for r in (tmp_path / "accuracy.md").read_text().splitlines() if "| 500 |" in r]
    assert row.count("–") == 3  # models that were not run
    other = accuracy.measure("noise", X, y, ["ridge"], n_splits=2)
    assert set(accuracy.merged(stored, other)["models"]) == {"ridge"}


def test_grids_are_left_out_where_rows_are_many():
    X, y = np.random.RandomState(0).standard_normal((2600, 1)), np.arange(2600.0)
    record = accuracy.measure("noise", X, y, ["kernel-ridge-grid", "ridge"], n_splits=1)
    assert set(record["models"]) == {"ridge"}
    assert record["time_ratio"] is None
