"""What the report says of intervals is what the model predicts and the rows show."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

import polyadic
from polyadic.features import MercerFeatures
from polyadic.report import Subject
from polyadic.report._coverage import LEVELS, find_coverage, find_spread, wilson
from polyadic.report._findings import find
from polyadic.report._page import _render
from tests.report.tables import visits

pytestmark = pytest.mark.slow  # many pages of many models; test_report.py has the quick ones

FRAME, Y = visits(260)
NEW, NEW_Y = FRAME[160:].reset_index(drop=True), Y[160:]


@pytest.fixture(scope="module")
def model():
    fitted = polyadic.FeatureLearningRegressor(effort=0.1, n_estimators=2, random_state=0)
    return fitted.fit(FRAME[:160], Y[:160])


@pytest.fixture(scope="module")
def report(model):
    subject = Subject.of(model, NEW, NEW_Y)
    findings = find(subject)
    return findings, _render(subject, findings)


def test_intervals_are_those_that_are_predicted(model):
    spread = find_spread(model, model.schema_.encode(NEW).X)
    expected = model.predict_interval(NEW, coverage=0.9)
    np.testing.assert_allclose(np.column_stack([spread.low, spread.high]), expected, rtol=1e-9)
    np.testing.assert_allclose(spread.predicted, model.predict(NEW), rtol=1e-12)


def test_coverage_is_counted(model):
    found = find_coverage(Subject.of(model, NEW, NEW_Y))
    low, high = np.moveaxis(model.predict_interval(NEW, coverage=list(LEVELS)), 1, 0)
    inside = (low <= NEW_Y[:, None]) & (NEW_Y[:, None] <= high)
    assert [level.observed for level in found.levels] == pytest.approx(inside.mean(axis=0))
    assert [level.width for level in found.levels] == pytest.approx((high - low).mean(axis=0))
    assert found.log_score == pytest.approx(model.log_score(NEW, NEW_Y))
    assert found.usual.nominal == 0.9


def test_bands_are_mean_intervals(model, report):
    """Over the rows that the report takes first, around the curve over all rows."""
    findings, _ = report
    some = np.random.RandomState(0).permutation(len(NEW))[:200]
    for curve in findings.inputs.curves:
        if curve.name not in ("size", "cost $ of $x"):
            continue
        for place, value in enumerate((curve.labels or curve.points)[:3]):
            frame = NEW.iloc[some].assign(**{curve.name: None if value == "gap" else value})
            ends = model.predict_interval(frame) - model.predict(frame)[:, None]
            low, high = curve.values[place] + ends.mean(axis=0)
            assert curve.low[place] == pytest.approx(low, rel=1e-9)
            assert curve.high[place] == pytest.approx(high, rel=1e-9)


def test_widths_along_a_category_are_means_of_its_rows(model, report):
    findings, page = report
    (grade,) = [curve.residuals for curve in findings.inputs.curves if curve.name == "grade"]
    low, high = model.predict_interval(NEW).T
    inside = (low <= NEW_Y) & (high >= NEW_Y)
    for label, width, covered in zip(grade.labels, grade.widths, grade.covered, strict=True):
        own = (NEW["grade"] == label).to_numpy()
        assert width == pytest.approx((high - low)[own].mean())
        assert covered == pytest.approx(inside[own].mean())
    assert "figure-coverage" in page
    assert "figure-widths1" in page
    assert "inside 90 % intervals" in page


def test_a_model_that_does_not_say_how_sure_it_is(model):
    old = copy(model)
    del old.uncertainty_
    subject = Subject.of(old, NEW, NEW_Y)
    findings = find(subject)
    page = _render(subject, findings)
    assert findings.coverage is None
    assert "How sure it is" not in page
    assert "members say one by one" in page
    (size,) = [curve for curve in findings.inputs.curves if curve.name == "size"]
    alone, n_members = [], len(old.alpha_)
    near = [m for m in old.members_[n_members:] if type(m.layout.maps[0]) is MercerFeatures]
    whole = sum(m.share for m in old.members_) - sum(m.share for m in near)
    for member in old.members_[:n_members]:
        one = copy(old)
        one.members_ = [replace(member, share=whole), *near]
        alone.append(one.predict(NEW.assign(size=size.points[5])).mean())
    assert size.low[5] == pytest.approx(min(alone))
    assert size.high[5] == pytest.approx(max(alone))


def test_shares_have_intervals_that_hold():
    """Of 20 rows with a share of 0.9, 95 % of intervals hold it, and none leaves 0 to 1."""
    rng = np.random.RandomState(0)
    shares = rng.binomial(20, 0.9, 2000) / 20
    ends = np.array([wilson(share, 20) for share in shares])
    assert ((ends[:, 0] <= 0.9) & (ends[:, 1] >= 0.9)).mean() == pytest.approx(0.95, abs=0.03)
    assert wilson(1.0, 3)[1] == 1.0
    assert wilson(0.0, 3)[0] == 0.0
