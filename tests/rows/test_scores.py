"""Costs of probabilities, row by row, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from polyadic.rows.scores import count_below, log_losses


def test_log_losses_are_those_of_scikit_learn():
    """Classes that were held impossible cost the same, and rows may be in several samples."""
    rng = np.random.RandomState(0)
    p = rng.dirichlet(np.ones(3), (2, 50))
    actual = rng.randint(3, size=50)
    p[0, :2] = np.eye(3)[[actual[0], actual[1] - 1]]
    found = log_losses(actual, p).mean(axis=1)
    assert found == pytest.approx([log_loss(actual, each) for each in p], rel=1e-12)


def test_an_area_is_the_mean_count_of_others_below():
    rng = np.random.RandomState(0)
    score, actual = rng.randint(9, size=80), rng.randint(2, size=80)
    others, own = (np.bincount(score[actual == of], minlength=9) for of in (0, 1))
    area = own @ count_below(others) / (own.sum() * others.sum())
    assert area == pytest.approx(roc_auc_score(actual, score), rel=1e-12)
