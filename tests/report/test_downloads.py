"""The numbers that a page carries as CSV are those that it shows."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pandas as pd
import pytest

import polyadic
from polyadic.report import Subject
from polyadic.report._findings import find
from polyadic.report._page import _render
from tests.report.tables import visits

pytestmark = pytest.mark.slow  # many pages of many models; test_report.py has the quick ones


def files_of(page):
    """Return the tables in the links of a page, by their names."""
    link = r'href="data:text/csv;charset=utf-8;base64,([^"]*)" download="([^"]*)"'
    links = re.findall(link, page)
    return {name: pd.read_csv(io.BytesIO(base64.b64decode(data))) for data, name in links}


@pytest.fixture(scope="module")
def report():
    frame, y = visits(200)
    model = polyadic.FeatureLearningRegressor(effort=0.1, n_estimators=2, random_state=0)
    model.fit(frame[:140], y[:140])
    subject = Subject.of(model, frame[140:], y[140:])
    findings = find(subject)
    return findings, files_of(_render(subject, findings))


def test_measures_have_all_models_and_their_errors(report):
    findings, files = report
    table = files["measures.csv"]
    entries = [findings.errors.model, *findings.errors.baselines]
    assert table["predicted by"].tolist() == [entry.name for entry in entries]
    for name in ("r2", "rmse", "mae"):
        np.testing.assert_allclose(table[name], [vars(e)[name] for e in entries], rtol=1e-9)
        errors = [e.standard_errors[name] for e in entries]
        np.testing.assert_allclose(table[f"standard error of {name}"], errors, rtol=1e-9)


def test_pairs_and_calibration_are_those_of_the_pictures(report):
    findings, files = report
    pairs = files["predictions.csv"]
    np.testing.assert_allclose(pairs["actual"], findings.errors.actual, rtol=1e-9)
    np.testing.assert_allclose(pairs["predicted"], findings.errors.predicted, rtol=1e-9)
    assert len(files["calibration.csv"]) == len(findings.errors.calibration)


def test_importance_and_what_was_learned(report):
    findings, files = report
    table = files["importance.csv"]
    assert table["input"].tolist() == [each.name for each in findings.inputs.importances]
    growths = [each.growth for each in findings.inputs.importances]
    np.testing.assert_allclose(table["growth of root mean squared error"], growths, rtol=1e-9)
    learned = files["learned-inputs.csv"]
    relevance = [each.relevance for each in findings.learned.inputs]
    np.testing.assert_allclose(learned["relevance"], relevance, rtol=1e-9)


def test_curves_have_levels_dates_and_gaps_as_people_write_them(report):
    findings, files = report
    table = files["partial-dependence.csv"]
    for curve in findings.inputs.curves:
        own = table[table["input"] == curve.name]
        gap = [] if curve.gap is None else [curve.gap]
        np.testing.assert_allclose(own["mean prediction"], [*curve.values, *gap], rtol=1e-9)
        if curve.name == "when":
            assert pd.to_datetime(own["value"][:-1]).is_monotonic_increasing
            assert own["value"].iloc[-1] == "gap"
        if curve.labels:
            assert own["value"].tolist() == curve.labels
            assert own["rows"].tolist() == curve.rows
    residuals = files["residuals.csv"]
    assert set(residuals["input"]) == {curve.name for curve in findings.inputs.curves}
