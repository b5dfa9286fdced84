"""The paper's experiments: settings, resuming, and the results that are written."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.model_selection import RepeatedKFold, train_test_split

from polyadic import datasets
from polyadic.cli import main
from polyadic.experiments import paper_baseline, paper_regressor, runs
from polyadic.experiments.reproduce import reproduce
from polyadic.experiments.runs import Run, plan, read_lines


def test_the_settings_are_those_of_the_paper():
    sizes = {
        "airfoil": (4, 51),
        "energy": (4, 15),
        "yacht": (2, 6),
        "concrete": (8, 10),
        "wine": (16, 25),
        "airline": (64, 20),
    }
    for name, size in sizes.items():
        model = paper_regressor(name)
        assert (model.n_basis, model.rank) == size
        periods = [feature_map.period for feature_map in model.feature_maps]
        expected = [10, 2, 128, 25, 64, 600, 2000, 1024]
        assert periods == ([10, 2, 128, 25, 64, 1024] if name == "airline" else expected)
        assert (model.alpha, model.beta, model.max_iter, model.tol) == (0.01, 0.1, 10, 0)
        assert (model.n_estimators, model.early_stopping, model.quantized) == (1, False, True)
        assert (model.objective, model.mixing, model.nonnegative) == ("complex", "l1", False)
    folds = paper_baseline("yacht").cv
    assert isinstance(folds, RepeatedKFold)
    assert folds.get_n_splits() == 6
    with pytest.raises(ValueError, match="`dataset` must be one of airfoil"):
        paper_regressor("boston")


def test_the_plans_have_the_papers_numbers_of_fits():
    five = runs.SMALL_SETS
    assert len(plan("table1", five)) == 5 * 6 * 10
    assert len(plan("table2", five)) == 5 * 2 * 10
    assert len(plan("figure2", ["yacht"], restarts=3)) == 3 * 8 * 2
    assert len(plan("airline", ["nycflights"])) == 2 * 5
    assert {run.n_maps for run in plan("airline", ["nycflights"])} == {6}


def test_a_run_measures_what_a_reader_of_the_paper_would(data_folder):
    data = datasets.load_yacht(data_folder)
    outcome = runs.perform(Run("table2", "yacht", "FL", "L1", 8, 3), data)
    X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=0.2, random_state=3)
    model = paper_regressor("yacht", random_state=3).fit(X, y)
    # The model standardises its target itself, so units make no difference.
    expected = np.mean((model.predict(X_test) - y_test) ** 2) / np.var(y, ddof=1)
    assert outcome.test_mse == pytest.approx(expected, rel=1e-6)
    assert outcome.fits == 1
    assert list(json.loads(outcome.weights)) == [
        "10",
        "2",
        "128",
        "25",
        "64",
        "600",
        "2000",
        "1024",
    ]


@pytest.fixture
def command(data_folder, tmp_path):
    def run(*words):
        words = ("reproduce", *words, "--data", str(data_folder), "--out", str(tmp_path / "out"))
        return CliRunner().invoke(main, words)

    return run


@pytest.mark.slow
def test_reproduce_writes_fits_tables_and_pictures(command, tmp_path):
    result = command("table2", "--datasets", "yacht", "--restarts", "2")
    assert result.exit_code == 0, result.output
    out = tmp_path / "out"
    with (out / "table2-fits.csv").open() as file:
        fits = list(csv.DictReader(file))
    assert [(row["model"], row["restart"]) for row in fits] == [
        ("FL", "1"),
        ("CV", "1"),
        ("FL", "2"),
        ("CV", "2"),
    ]
    assert [row["fits"] for row in fits] == ["1", "49", "1", "49"]
    errors = [float(row["test_mse"]) for row in fits if row["model"] == "FL"]
    # Table 2 has 0.112 ± 0.02 and 0.358 ± 0.06.
    assert np.mean(errors) < 0.132
    page = (out / "table2.md").read_text()
    assert f"| yacht | feature learning | 8 | 2 | {np.mean(errors):.3f} ±" in page
    assert "| 0.112 ± 0.02 |" in page
    assert page.count("| yacht |") == 2
    assert (out / "table2.svg").read_text().count("<svg") == 1
    assert (out / "table2.png").read_bytes().startswith(b"\x89PNG")
    sessions = json.loads((out / "table2-environment.json").read_text())
    assert sessions[0]["fits"] == 4
    assert {"polyadic", "numpy", "scikit-learn", "python", "seeds"} <= set(sessions[0])


def test_finished_fits_are_not_repeated(command, tmp_path, monkeypatch):
    assert command("table1", "--datasets", "yacht", "--restarts", "1").exit_code == 0
    path = tmp_path / "out" / "table1-fits.csv"
    before = path.read_bytes()
    page = (tmp_path / "out" / "table1.md").read_bytes()
    asked = []
    monkeypatch.setattr("polyadic.experiments.reproduce.perform", lambda *args: asked.append(args))
    result = command("table1", "--datasets", "yacht", "--restarts", "1")
    assert result.exit_code == 0, result.output
    assert "6 of 6 fits are there already" in result.output
    assert asked == []
    assert path.read_bytes() == before
    assert (tmp_path / "out" / "table1.md").read_bytes() == page


@pytest.mark.slow
def test_an_interrupted_experiment_goes_on(data_folder, tmp_path, monkeypatch):
    """Stop after two fits, as Ctrl-C does; the rest equals a run in one go."""
    real, count = runs.perform, []

    def stopping(run, data):
        if len(count) == 2:
            raise KeyboardInterrupt
        count.append(run)
        return real(run, data)

    arguments = {"names": ["yacht"], "restarts": 1, "models": ["FL"], "data_folder": data_folder}
    monkeypatch.setattr("polyadic.experiments.reproduce.perform", stopping)
    with pytest.raises(KeyboardInterrupt):
        reproduce("figure2", tmp_path / "a", **arguments)
    assert len(read_lines(tmp_path / "a" / "figure2-fits.csv")) == 2
    monkeypatch.setattr("polyadic.experiments.reproduce.perform", real)
    told = []
    reproduce("figure2", tmp_path / "a", on_fit=lambda *fit: told.append(fit), **arguments)
    assert told == read_lines(tmp_path / "a" / "figure2-fits.csv")[2:]
    reproduce("figure2", tmp_path / "b", **arguments)
    resumed, whole = (read_lines(tmp_path / name / "figure2-fits.csv") for name in "ab")
    timeless = [
        [(run, replace(outcome, seconds=0.0)) for run, outcome in lines]
        for lines in (resumed, whole)
    ]
    assert timeless[0] == timeless[1]
    sessions = json.loads((tmp_path / "a" / "figure2-environment.json").read_text())
    assert [session["fits"] for session in sessions] == [2, 6]


def test_the_large_run_takes_the_stand_in_and_says_so(tmp_path, monkeypatch):
    """On a few hundred flights of its layout, so that the test is fast."""
    rng = np.random.RandomState(0)
    folder = tmp_path / "data"
    folder.mkdir()
    X, y = rng.rand(300, 8).astype(np.float32), rng.rand(300).astype(np.float32)
    np.savez(folder / "nycflights.npz", X=X, y=y)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("POLYADIC_DATA", raising=False)
    words = ["reproduce", "airline", "--models", "FL", "--restarts", "1"]
    words += ["--data", str(folder), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "stand in for it" in (tmp_path / "out" / "airline.md").read_text()
    assert "| nycflights | feature learning | 6 | 1 |" in result.output


def test_a_file_of_fits_that_is_none_is_left_alone(command, tmp_path):
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "table1-fits.csv"
    path.write_text("experiment,dataset\ntable1,yacht\n")
    result = command("table1", "--datasets", "yacht", "--restarts", "1")
    assert result.exit_code == 2
    assert "is not a CSV of fits" in result.output
    assert path.read_text() == "experiment,dataset\ntable1,yacht\n"


@pytest.mark.slow
@pytest.mark.process
def test_mistakes_are_told_in_a_sentence(tmp_path):
    for words in (
        ["reproduce", "table3"],
        ["reproduce", "table1", "--datasets", "boston"],
        ["reproduce", "table1", "--restarts", "0"],
    ):
        run = subprocess.run(
            [sys.executable, "-m", "polyadic.cli", *words], capture_output=True, text=True
        )
        assert run.returncode == 2
        assert "Error: " in run.stderr
        assert "Traceback" not in run.stderr
