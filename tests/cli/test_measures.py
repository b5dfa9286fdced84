"""What is measured as predictions come, against scikit-learn on all of them at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score

from polyadic.cli.measures import ClassComparison, NumberComparison, Thinned, warn_of_few


def probabilities(count, n_classes, seed=0):
    rng = np.random.RandomState(seed)
    scores = rng.randn(count, n_classes) * 3
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    actual = np.array([rng.choice(n_classes, p=each) for each in p])
    return actual, p


def in_pieces(comparison, actual, predicted):
    cuts = [0, 0, 1, 17, len(actual) // 2, len(actual)]
    for first, last in pairwise(cuts):
        comparison.add(actual[first:last].astype(float), predicted[first:last])
    return comparison.metrics


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_probabilities_are_measured_as_scikit_learn_does(n_classes):
    actual, p = probabilities(400, n_classes)
    metrics = in_pieces(ClassComparison(n_classes), actual, p)
    constant = DummyClassifier(strategy="prior").fit(p, actual)
    for found, expected in ((metrics, p), (metrics["constant"], constant.predict_proba(p))):
        assert found["log_loss"] == pytest.approx(log_loss(actual, expected), rel=1e-12)
        assert found["accuracy"] == accuracy_score(actual, expected.argmax(axis=1))
    assert metrics["rows"] == 400
    if n_classes == 2:
        assert metrics["auc"] == pytest.approx(roc_auc_score(actual, p[:, 1]), abs=1e-4)
    else:
        assert metrics["auc"] is None


def test_an_area_is_that_of_scores_in_bins():
    """Where scores are bins already, ties included, nothing is lost."""
    rng = np.random.RandomState(0)
    width = 80 / (2**20 - 1)
    odds = -40 + width * rng.randint(5e5, 5.4e5, 300).astype(float)
    odds[::3] = odds[0]
    p = 1 / (1 + np.exp(-odds))
    actual = (rng.rand(300) < p).astype(int)
    metrics = in_pieces(ClassComparison(2), actual, np.column_stack([1 - p, p]))
    assert metrics["auc"] == pytest.approx(roc_auc_score(actual, odds), rel=1e-12)


def test_probabilities_of_zero_and_one_are_finite():
    p = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    comparison = ClassComparison(2)
    comparison.add(np.array([0.0, 1.0, 1.0]), p)
    metrics = comparison.metrics
    assert metrics["log_loss"] == pytest.approx(log_loss([0, 1, 1], p), rel=1e-12)
    assert metrics["auc"] == 0.75


def test_classes_that_the_fit_did_not_see_count_as_wrong():
    actual, p = probabilities(100, 3)
    known = in_pieces(ClassComparison(3), actual, p)
    comparison = ClassComparison(3)
    metrics = in_pieces(comparison, np.r_[actual, [-1] * 25], np.r_[p, p[:25]])
    assert metrics["log_loss"] == pytest.approx(known["log_loss"], rel=1e-12)
    assert metrics["accuracy"] == pytest.approx(0.8 * known["accuracy"], rel=1e-12)
    assert "25 rows have classes that the fit did not see" in comparison.warning
    strange = ClassComparison(3)
    strange.add(np.array([-1.0, -1.0]), p[:2])
    assert (strange.metrics["log_loss"], strange.metrics["accuracy"]) == (None, 0.0)


def test_one_class_alone_has_no_area():
    comparison = ClassComparison(2)
    comparison.add(np.zeros(3), np.full((3, 2), 0.5))
    assert comparison.metrics["auc"] is None
    assert comparison.metrics["constant"] == {"log_loss": 0.0, "accuracy": 1.0}


def test_numbers_are_measured_as_scikit_learn_does():
    rng = np.random.RandomState(0)
    y, predicted = rng.randn(2, 90)
    metrics = in_pieces(NumberComparison(), y, predicted[:, None])
    assert metrics["r2"] == pytest.approx(r2_score(y, predicted), rel=1e-9)


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_the_rows_that_are_kept_are_spread_evenly(size):
    """Which of a thousand are kept does not depend on how they come."""
    rows, kept = np.arange(2000.0).reshape(1000, 2), Thinned(100)
    for first in range(0, 1000, size):
        kept.add(rows[first : first + size])
    np.testing.assert_array_equal(kept.rows, rows[::16])


def test_one_row_is_no_rows():
    assert "measured on 1 row, which" in warn_of_few({"rows": 1})
    assert "measured on 1 held-out row, which" in warn_of_few({"rows": 1}, "held-out rows")
    assert "measured on 2 held-out rows, which" in warn_of_few({"rows": 2}, "held-out rows")
    assert warn_of_few({"rows": 30}) is None
