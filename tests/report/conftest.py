"""Boosted trees take most of the time of a report; few of them do for tests."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _few_trees():
    with pytest.MonkeyPatch.context() as patch:
        options = {"random_state": 0, "max_iter": 8}
        patch.setattr("polyadic.report._baselines.BOOSTING", options)
        yield
