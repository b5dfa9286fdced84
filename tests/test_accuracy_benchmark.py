"""The accuracy benchmark: its tables, its yardstick, how results meet, and what is counted."""

from __future__ import annotations

import gzip
import json
import math
import sys
import time

import numpy as np
import pandas as pd
import pytest
from benchmarks import accuracy, cells, compare, models, process, tables
from benchmarks.cells import Cell
from benchmarks.collection import COLLECTION
from benchmarks.real import Source
from scipy.optimize import approx_fprime
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.linear_model import LinearRegression

MACHINE = {"machine": {"cpu": "any", "cpus": 1, "python": "3", "numpy": "2", "scikit-learn": "1"}}


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


def test_a_file_gives_its_numeric_columns_and_its_whole_rows():
    lines = [["a", "text", "gaps", "same", "b", "target"]]
    for i in range(10):
        lines.append([str(i), "red", "" if i < 3 else "1", "7", "" if i == 4 else str(-i), str(i)])
    X, y = tables.numbers(lines)
    whole = [0, 1, 2, 3, 5, 6, 7, 8, 9]
    np.testing.assert_array_equal(X, [[i, -i] for i in whole])
    np.testing.assert_array_equal(y, whole)


def test_rows_beyond_the_cap_are_left_out_at_random_and_the_same_each_time():
    X = np.arange(50.0)[:, None]
    few, y = tables.capped(X, X[:, 0], 20)
    assert len(np.unique(few)) == 20
    assert few.max() > 30
    np.testing.assert_array_equal(few[:, 0], y)
    np.testing.assert_array_equal(tables.capped(X, X[:, 0], 20)[0], few)
    np.testing.assert_array_equal(tables.capped(X, X[:, 0], 50)[0], X)


def test_errors_are_in_units_of_the_training_targets_variance():
    X, y = COLLECTION["linear"]()
    parts = cells.split(X, 50 * y + 7, seed=1)
    assert len(parts[0]) == 400
    np.testing.assert_allclose([parts[2].mean(), parts[2].std(ddof=1)], [0, 1], atol=1e-12)
    outcome = cells.score(LinearRegression(), *parts)
    # The noise has variance ¼, the target Σd²/(9·12) more.
    assert abs(outcome["mse"] - 0.25 / (0.25 + 285 / 108)) < 0.03
    assert outcome["r2"] == pytest.approx(LinearRegression().fit(*parts[::2]).score(*parts[1::2]))


def problem(n_rows=60):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n_rows, 3)) * [1.0, 5.0, 0.2] + 4
    return X, np.sin(X[:, 0]) + 0.1 * X[:, 1] + 0.1 * rng.standard_normal(n_rows)


@pytest.mark.parametrize("name", process.KERNELS)
def test_the_likelihood_has_the_slopes_of_its_differences(name):
    X, y = problem(25)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    p = np.array([0.3, -0.2, 0.9, 0.4, -2.0])
    kernel = process.KERNELS[name]
    _, slopes = process.log_likelihood(kernel, X, y, p)
    differences = approx_fprime(p, lambda q: process.log_likelihood(kernel, X, y, q)[0], 1e-6)
    np.testing.assert_allclose(slopes, differences, rtol=1e-4, atol=1e-4)


def test_the_process_is_that_of_scikit_learn():
    X, y = problem()
    rows, p = X[:40], np.log([0.8, 2.0, 1.5, 1.3, 0.05])
    ours = process.ExactProcess(["isotropic-matern32"], parameters=p).fit(rows, y[:40])
    kernel = ConstantKernel(1.3) * Matern(np.exp(p[:3]), nu=1.5) + WhiteKernel(0.05)
    Z = (X - rows.mean(axis=0)) / rows.std(axis=0)
    theirs = GaussianProcessRegressor(kernel, optimizer=None, alpha=1.3 * process.JITTER)
    theirs.fit(Z[:40], y[:40] - y[:40].mean())
    np.testing.assert_allclose(ours.predict(X[40:]), theirs.predict(Z[40:]) + y[:40].mean())
    value = theirs.log_marginal_likelihood_value_
    assert ours.likelihoods_["isotropic-matern32"] == pytest.approx(value)


@pytest.mark.parametrize(("name", "nu"), [("product-matern12", 0.5), ("product-matern32", 1.5)])
def test_product_kernels_are_products_of_scikit_learns(name, nu, monkeypatch):
    X, y = problem(40)
    monkeypatch.setattr(process, "BLOCK", 7)  # blocks that do not divide the rows
    p = np.log([0.8, 2.0, 1.5, 1.3, 0.05])
    ours = process.ExactProcess([name], parameters=p).fit(X, y)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    K = 1.3 * np.prod([Matern(np.exp(p[d]), nu=nu)(Z[:, [d]]) for d in range(3)], axis=0)
    jitter = (0.05 + 1.3 * process.JITTER) * np.eye(40)
    expected = y.mean() + K @ np.linalg.solve(K + jitter, y - y.mean())
    np.testing.assert_allclose(ours.predict(X), expected)


def test_learning_finds_a_likelihood_no_worse_than_scikit_learns():
    X, y = problem()
    Z, u = (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean()
    ours = process.ExactProcess(["isotropic-matern32"]).fit(X, y)
    wide = (1e-2, 1e4)
    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * Matern(np.ones(3), wide, nu=1.5)
    theirs = GaussianProcessRegressor(kernel + WhiteKernel(0.1, (1e-6, 10.0))).fit(Z, u)
    value = theirs.log_marginal_likelihood_value_
    assert ours.likelihoods_["isotropic-matern32"] > value - 0.05


def of_set(**errors):
    """Return a record with the errors of each model on its splits; None is a failure."""
    found = {}
    for model, values in errors.items():
        found[model] = {
            str(i): {"failed": "it did"} if value is None else {"mse": value, "seconds": 1.0}
            for i, value in enumerate(values, 1)
        }
    return {"rows": 100, "inputs": 2, "threads": 1, "models": found}


def test_ratios_are_of_the_splits_that_both_finished():
    assert compare.ratio(of_set(polyadic=[1, 2, 9], ridge=[2, 4]), "ridge") == 0.5
    assert compare.ratio(of_set(polyadic=[1, 2], ridge=[2, None]), "ridge") == 0.5
    assert compare.ratio(of_set(polyadic=[1, 2], ridge=[None, None]), "ridge") is None
    assert compare.ratio(of_set(polyadic=[1]), "ridge") is None
    # A failure of ours is a loss.
    assert compare.ratio(of_set(polyadic=[None, 2], ridge=[2, 4]), "ridge") == math.inf


def test_sets_are_counted_against_what_was_asked():
    sets = {
        "a": of_set(polyadic=[1.09], process=[1.0], ridge=[2.0]),
        "b": of_set(polyadic=[1.12], process=[1.0], ridge=[1.12]),
        "c": of_set(polyadic=[0.5], process=[1.0]),
        "d": of_set(polyadic=[0.5], process=[1.0]),
        "e": of_set(polyadic=[0.5], process=[1.0]),
    }
    beside = {count.asked.other: count for count in compare.counts(sets)}
    assert set(beside) == {"process", "ridge"}
    exact, ridge = beside["process"], beside["ridge"]
    assert (exact.kept, exact.share, exact.met, exact.worst) == (4, 0.8, "yes", "b")
    assert exact.mean == pytest.approx((1.09 * 1.12 * 0.5**3) ** 0.2)
    assert (ridge.kept, len(ridge.ratios), ridge.met) == (2, 2, "yes")
    sets["e"]["models"]["polyadic"]["1"] = {"mse": 1.2, "seconds": 1.0}
    assert compare.counts(sets)[0].met == "no"


def test_results_of_several_calls_meet_in_one_page(tmp_path):
    for title, mse in (("ridge", 0.5), ("polyadic", 0.25)):
        results = accuracy.stored(tmp_path) | MACHINE
        sets = results["sets"]
        sets["noise"] = accuracy.record(sets.get("noise"), 500, 8, threads=1)
        accuracy.keep(sets, Cell("noise", 1, title, title), {"mse": mse, "r2": 0, "seconds": 3.0})
        accuracy.keep(sets, Cell("noise", 2, title, title), {"failed": "no memory"})
        accuracy.write(results, tmp_path)
    stored = json.loads((tmp_path / "accuracy.json").read_text())["sets"]["noise"]
    assert set(stored["models"]) == {"ridge", "polyadic"}
    text = (tmp_path / "accuracy.md").read_text()
    assert "| noise | 500 | 8 | 2 | 0.25 | 0.5 |" in text
    assert "| noise | 2 | ridge | no memory |" in text
    # Of another table nothing is kept.
    assert accuracy.record(stored, 501, 8, threads=1)["models"] == {}


def test_a_page_without_results_says_so():
    assert accuracy.page(accuracy.stored(None)).startswith("Not measured yet")


def test_only_cells_that_a_model_can_do_are_planned():
    sets = {"few": (np.zeros((100, 2)), np.zeros(100)), "many": (np.zeros((15_000, 2)),) * 2}
    plan = accuracy.plan(sets, ["process", "ridge"], n_splits=None, title=None)
    assert {(cell.set_name, cell.model) for cell in plan} == {
        ("few", "process"), ("few", "ridge"), ("many", "ridge")
    }  # fmt: skip
    assert plan[0].set_name == "many"
    assert [cell.split for cell in plan if cell.set_name == "many"] == [1, 2]
    titled = accuracy.plan(sets, ["polyadic"], n_splits=1, title="first-edition")
    assert {(cell.model, cell.title) for cell in titled} == {("polyadic", "first-edition")}


def test_the_effort_figure_shows_each_set(tmp_path):
    from benchmarks import curves

    at = {models.at_effort(effort): [1 / effort] for effort in models.EFFORTS}
    sets = {"wine": of_set(**at, boosting=[0.3]), "airfoil": of_set(**at)}
    assert curves.draw(accuracy.with_effort(sets), tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text().lstrip().startswith("<?xml")
    assert accuracy.with_effort({"wine": of_set(polyadic=[1.0])}) == {}


def test_sets_that_were_packed_are_read_back(tmp_path, monkeypatch):
    (tmp_path / "yacht.csv").write_text("a,b,target\n1,2,3\n4,5,6\n7,9,8\n")
    (tmp_path / "tables").mkdir()
    with gzip.open(tmp_path / "tables" / "pbc.csv.gz", "wt") as file:
        file.write("a,b,target\nx,,1\n,NA,2\n")
    known = ("yacht", "energy", "noise", "raw/pbc", "holes/concrete")
    monkeypatch.setattr(accuracy, "KNOWN", known)
    path = tmp_path / "sets.npz"
    accuracy.pack(str(path), str(tmp_path))
    X, y = accuracy.load("yacht", str(path))
    np.testing.assert_array_equal(X, [[1, 2], [4, 5], [7, 9]])
    np.testing.assert_array_equal(y, [3, 6, 8])
    X, y = accuracy.load("raw/pbc", str(path))
    assert X["a"].isna().tolist() == [False, True]
    assert X["b"].astype(object).tolist()[1] == "NA"  # a level like any other
    np.testing.assert_array_equal(y, [1, 2])
    with pytest.raises(FileNotFoundError, match=r"not in sets\.npz"):
        accuracy.load("energy", str(path))


def test_what_a_model_raises_is_its_result():
    X, y = problem(20)
    X[0, 0] = np.inf
    outcome = cells.measure(Cell("any", 1, "ridge", "ridge"), X, y, threads=1)
    assert outcome["failed"].startswith("ValueError: Input X contains infinity")


class Stubborn:
    """A model that never ends, or ends its process."""

    def __init__(self, threads):
        pass

    def fit(self, X, y):
        if len(X) == 16:
            sys.exit(3)
        if len(X) < 200:
            time.sleep(60)
        return self

    def predict(self, X):
        return np.zeros(len(X))


def _work_with_stubborn(pipe, threads):
    models.MODELS["stubborn"] = Stubborn
    _plain_work(pipe, threads)


_plain_work = cells._work


@pytest.mark.process
@pytest.mark.slow
def test_a_cell_that_takes_too_long_or_ends_its_process_is_told_and_others_go_on(monkeypatch):
    monkeypatch.setattr(cells, "_work", _work_with_stubborn)
    sets = {"long": problem(50), "short": problem(20), "fine": COLLECTION["noise"]()}
    plan = [Cell(name, 1, "stubborn", "stubborn") for name in ("long", "short", "fine")]
    plan += [Cell("fine", 1, "ridge", "ridge")]
    found = {
        (cell.set_name, cell.model): outcome
        for cell, outcome in cells.run(plan, sets, jobs=1, threads=1, limit=4.0)
    }
    assert found["long", "stubborn"] == {"failed": "more than 4 s"}
    assert found["short", "stubborn"] == {"failed": "the process ended with 3"}
    assert found["fine", "stubborn"]["mse"] == pytest.approx(1.0, abs=0.3)
    assert "mse" in found["fine", "ridge"]
