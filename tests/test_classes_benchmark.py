"""The benchmark of classifiers counts and scores as others do."""

from __future__ import annotations

import gzip
import json
import sys

import numpy as np
import pytest
from benchmarks import calibration, classes
from sklearn.metrics import log_loss, roc_auc_score


def probabilities(n=200, seed=0):
    rng = np.random.RandomState(seed)
    P = rng.dirichlet([1, 2, 3], n)
    labels = np.array(["a", "b", "c"])
    return P, labels, labels[[rng.choice(3, p=p) for p in P]]


def test_scores_are_those_of_scikit_learn():
    P, labels, y = probabilities()
    found = classes.scores(P, labels, y)
    assert found["log_loss"] == pytest.approx(log_loss(y, P, labels=labels))
    assert found["accuracy"] == np.mean(labels[P.argmax(axis=1)] == y)


def test_calibration_is_the_gap_between_confidence_and_accuracy():
    P = np.tile([0.7, 0.3], (10, 1))
    y = np.array(["a"] * 5 + ["b"] * 5)
    found = classes.scores(P, np.array(["a", "b"]), y)
    assert found["calibration"] == pytest.approx(0.2)


def test_a_label_that_was_not_there_costs_most():
    found = classes.scores(np.array([[1.0, 0.0]]), np.array(["a", "b"]), np.array(["z"]))
    assert found["log_loss"] > 30
    assert found["accuracy"] == 0


def test_area_under_the_curve_is_that_of_scikit_learn():
    rng = np.random.RandomState(0)
    p = rng.uniform(size=100)
    y = np.where(rng.uniform(size=100) < p, "b", "a")
    found = classes.scores(np.column_stack([1 - p, p]), np.array(["a", "b"]), y)
    assert found["auc"] == roc_auc_score(y == "b", p)


def test_gaps_of_splits_that_err_in_turn_are_none_together():
    P = np.tile([0.7, 0.3], (10, 1))
    more, fewer = (np.array(["a"] * n + ["b"] * (10 - n)) for n in (9, 5))
    splits = {
        str(i): classes.scores(P, np.array(["a", "b"]), y) for i, y in enumerate((more, fewer))
    }
    assert [each["calibration"] for each in splits.values()] == pytest.approx([0.2, 0.2])
    assert classes.pooled_gap(splits) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
def test_rows_that_several_splits_test_do_not_make_chance_smaller():
    P, labels, y = probabilities()
    once = calibration.Tested(P, np.searchsorted(labels, y), np.arange(len(P)))
    n_rows, n_different, *errors = calibration.compare([once, once])
    assert (n_rows, n_different) == (400, 200)
    assert errors == pytest.approx(calibration.compare([once])[2:])
    # Of four hundred different rows chance makes less, by the root of two.
    apart = calibration.compare([once, once._replace(place=200 + once.place)])
    assert apart[3] == pytest.approx(errors[1] / np.sqrt(2), rel=0.05)


@pytest.mark.slow
def test_right_probabilities_err_by_chance_and_others_by_more():
    P, labels, y = probabilities(1_500)
    tested = calibration.Tested(P, np.searchsorted(labels, y), np.arange(len(P)))
    _, _, error, _, most = calibration.compare([tested])
    assert error < 1.3 * most
    sure = P**3 / (P**3).sum(axis=1, keepdims=True)
    _, _, error, _, most = calibration.compare([tested._replace(P=sure)])
    assert error > 3 * most


@pytest.mark.slow
def test_the_command_measures_and_writes_the_page(tmp_path, monkeypatch):
    rng = np.random.RandomState(0)
    lines = [
        f"{x:.3f},{'u' if x > 0 else ''},{'yes' if x > 0.2 else 'no'}" for x in rng.normal(size=80)
    ]
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "MANIFEST.csv").write_text("name,task\ntiny,class\nother,reg\n")
    with gzip.open(tmp_path / "tables" / "tiny.csv.gz", "wt") as file:
        file.write("\n".join(["x,level,target", *lines]))
    command = ["classes", "--data", str(tmp_path), "--out", str(tmp_path), "--splits", "1"]
    models = ["--tables", "tiny", "--models", "boosting,logistic,polyadic,regression"]
    monkeypatch.setattr(sys, "argv", [*command, *models])
    classes.main()
    found = json.loads((tmp_path / "classes.json").read_text())["tables"]["tiny"]
    assert all("log_loss" in found[model]["1"] for model in ("boosting", "logistic", "polyadic"))
    assert set(found["regression"]["1"]) == {"seconds"}
    assert "| tiny |" in (tmp_path / "classes.md").read_text()
