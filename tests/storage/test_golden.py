"""Models and checkpoints that version 1 wrote: they load, predict and go on as they did."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import polyadic
from polyadic.estimators.saving import load_with_notes
from polyadic.features import PurePowerFeatures
from polyadic.model import als
from polyadic.storage.checkpoint import CheckpointError
from tests.golden.recipe import CHECKPOINTS, Hats, problem

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
MODELS = sorted(path.stem for path in GOLDEN.glob("*.polyadic") if path.stem != "table")


def test_the_golden_files_are_all_there():
    assert len(MODELS) == 11
    assert len(list(GOLDEN.glob("*.checkpoint"))) == len(CHECKPOINTS)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_version_1_predicts_as_it_did(name):
    model, notes = load_with_notes(GOLDEN / f"{name}.polyadic", feature_maps=[Hats])
    expected = notes["predictions"]
    predicted = model.predict(notes["rows"])
    assert predicted.shape == expected.shape
    np.testing.assert_allclose(predicted, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_version_1_can_be_saved_again(name, tmp_path):
    model, notes = load_with_notes(GOLDEN / f"{name}.polyadic", feature_maps=[Hats])
    polyadic.save(model, tmp_path / "m", notes=notes)
    again = polyadic.load(tmp_path / "m", feature_maps=[Hats])
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(notes["rows"]), model.predict(notes["rows"]))


def test_a_linear_trend_is_a_member_of_its_own():
    model = polyadic.load(GOLDEN / "automatic-trend.polyadic")
    assert isinstance(model.members_[-1].layout.maps[0], PurePowerFeatures)


def test_a_table_that_the_command_encoded_must_be_fitted_again(tmp_path):
    from polyadic.cli import main

    out = tmp_path / "out.csv"
    arguments = ["predict", GOLDEN / "table.polyadic", GOLDEN / "table.csv", "--out", out]
    done = CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 2
    assert "fitted by an earlier version" in done.stderr
    assert not out.exists()
    model = polyadic.load(GOLDEN / "table.polyadic")  # which takes what it took, in Python
    assert np.isfinite(model.predict(np.zeros((1, model.n_features_in_)))).all()


def resume(name, folder, monkeypatch):
    """Go on from a copy of a checkpoint; return the core steps and the predictions."""
    steps = []

    def counted(*arguments, solve=als.solve_core):
        steps.append(1)
        return solve(*arguments)

    monkeypatch.setattr(als, "solve_core", counted)
    make, _ = CHECKPOINTS[name]
    path = folder / "fit.checkpoint"
    shutil.copy(GOLDEN / f"{name}.checkpoint", path)
    X, y = problem()
    predictions = make(checkpoint=path).fit(X, y).predict(X)
    assert not path.exists()
    return len(steps), predictions


# Of the core steps that version 1 had left: 6 of 48, 72 of 180 (3 maps, 3 folds), 6 of 180.
@pytest.mark.parametrize(("name", "most"), [("joint", 12), ("folds", 90), ("folds-refit", 12)])
def test_an_interrupted_fit_of_version_1_goes_on(name, most, tmp_path, monkeypatch):
    steps, predictions = resume(name, tmp_path, monkeypatch)
    assert 0 < steps <= most
    expected = np.load(GOLDEN / f"{name}.npy")
    np.testing.assert_allclose(predictions, expected, rtol=0, atol=1e-12)


def test_an_automatic_fit_that_another_search_began_is_refused(tmp_path, monkeypatch):
    says = "its version of the search differs .it has 1, this fit has 4.*delete it"
    with pytest.raises(CheckpointError, match=says):
        resume("automatic", tmp_path, monkeypatch)
    kept, golden = tmp_path / "fit.checkpoint", GOLDEN / "automatic.checkpoint"
    assert kept.read_bytes() == golden.read_bytes()
