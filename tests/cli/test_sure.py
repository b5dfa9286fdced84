"""How sure predictions are, in the command: the same numbers as in Python, and refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import polyadic
from tests.cli.command import run

SMALL = ["--effort", "0.05", "--n-estimators", "1"]
GOLDEN = Path(__file__).parents[1] / "golden"


def table(count, seed):
    """Numbers whose noise grows with `a`, and are positive."""
    rng = np.random.RandomState(seed)
    a, b = rng.rand(2, count)
    kind = rng.choice(["u", "v"], count)
    y = np.exp(a + (kind == "u") + 0.3 * a * rng.randn(count))
    return pa.table({"a": a, "b": b, "kind": kind, "target": y})


@pytest.fixture(scope="module", params=[[], ["--loss", "gamma"]], ids=["squares", "gamma"])
def fitted(request, tmp_path_factory):
    """A model, what the command said of it, and other rows."""
    folder = tmp_path_factory.mktemp("fitted")
    pa.csv.write_csv(table(250, 0), folder / "t.csv")
    pa.csv.write_csv(table(120, 1), folder / "new.csv")
    path = folder / "m.polyadic"
    return path, run("fit", folder / "t.csv", *SMALL, *request.param, "--out", path), folder


def test_what_is_written_is_what_python_says(fitted):
    path, _, folder = fitted
    words = ["--std", "--interval", "0.5,0.995", "--quantiles", "0.1,0.5"]
    out = folder / "p.csv"
    run("predict", path, folder / "new.csv", *words, "--out", out, "--force")
    found = pa.csv.read_csv(out)
    assert found.column_names == [
        *("prediction", "std", "lower_50", "upper_50", "lower_99.5", "upper_99.5"),
        *("quantile_0.1", "quantile_0.5"),
    ]
    model, rows = polyadic.load(path), table(120, 1).to_pandas().drop(columns="target")
    mean, std = model.predict(rows, return_std=True)
    ends = model.predict_interval(rows, coverage=[0.5, 0.995])
    quantiles = model.predict_quantiles(rows, alpha=[0.1, 0.5])
    expected = [mean, std, *ends[:, :, 0].T, *ends[:, :, 1].T, *quantiles.T]
    for column, values in zip(found.columns, expected, strict=True):
        np.testing.assert_allclose(column.to_numpy(), values, rtol=1e-12)
    plain = run("predict", path, folder / "new.csv").stdout.split()
    assert plain[0] == "prediction"
    np.testing.assert_array_equal(np.array(plain[1:], float), mean)


def test_what_is_measured_is_what_python_says(fitted):
    path, _, folder = fitted
    metrics = json.loads(run("evaluate", path, folder / "new.csv", "--json").stdout)
    rows = table(120, 1).to_pandas()
    model, X, y = polyadic.load(path), rows.drop(columns="target"), rows["target"]
    low, high = model.predict_interval(X, coverage=0.9).T
    assert metrics["coverage_90"] == np.mean((low <= y) & (y <= high))
    assert metrics["log_score"] == pytest.approx(model.log_score(X, y), rel=1e-9)


def test_it_is_told_after_a_fit_and_later(fitted):
    path, result, folder = fitted
    said = r"90 % intervals hold \d+\.\d % of them, log score "
    assert re.search(said, result.stdout)
    assert re.search(said, run("show", path).stdout)
    assert re.search(said, run("evaluate", path, folder / "new.csv").stdout)
    held_out = json.loads(run("show", path, "--json").stdout)["held_out"]
    assert 0.5 < held_out["coverage_90"] <= 1


@pytest.mark.parametrize(
    ("words", "option"),
    [(["--std"], "--std"), (["--interval", "0.9"], "--interval"), (["--quantiles", "0.1"], "--q")],
)
def test_files_of_earlier_versions_have_no_uncertainty(tmp_path, words, option):
    path = tmp_path / "x.npy"
    np.save(path, np.random.RandomState(0).rand(5, 3))
    old = GOLDEN / "automatic-trend.polyadic"
    said = run("predict", old, path, *words, code=2).stderr
    assert f"{option}" in said
    assert "the model has no uncertainty" in said
    assert "Fit it again." in said
    assert len(run("predict", old, path).stdout.split()) == 6


@pytest.mark.parametrize("value", ["90", "0", "1", "wide", "0.5,2", "0.5,,0.9", "nan", ""])
@pytest.mark.parametrize("option", ["--interval", "--quantiles"])
def test_levels_are_between_zero_and_one(fitted, option, value):
    path, _, folder = fitted
    said = run("predict", path, folder / "new.csv", option, value, code=2).stderr
    assert f"Invalid value for '{option}'" in said
    assert f"must be numbers between 0 and 1, such as 0.9 or 0.5,0.9, got {value!r}." in said


def test_classes_have_probabilities_instead(tmp_path):
    X = np.random.RandomState(0).rand(40, 2)
    model = polyadic.KernelMachineClassifier(rank=1, n_basis=2, max_iter=1, random_state=0)
    polyadic.save(model.fit(X, (X[:, 0] > 0.5).astype(int)), tmp_path / "m.polyadic")
    np.save(tmp_path / "x.npy", X)
    words = ["predict", tmp_path / "m.polyadic", tmp_path / "x.npy"]
    said = run(*words, "--interval", "0.9", code=2).stderr
    assert "--interval is about numbers, and this model predicts classes. Pass --proba" in said
