"""Fitted estimators in notebooks."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import polyadic
from polyadic.estimators._html import describe, held_out_error
from polyadic.members import InputSummary
from tests.small import regressor, smooth_rows

X, Y = smooth_rows(150, noise=0.1)
HOSTILE = '<script>alert("&amp;")</script>\' onload="x'


class Page(HTMLParser):
    """What a piece of HTML consists of: tags that are closed, attributes, and cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.cells, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "p", "th", "summary"):
            self.cells.append(data)


@pytest.fixture(scope="module")
def automatic():
    frame = pd.DataFrame(X, columns=[HOSTILE, "b", "c"]).assign(k=["u", "v", "w"] * 50)
    model = polyadic.FeatureLearningRegressor(effort=0.1, n_estimators=2, random_state=0)
    return model.fit(frame, Y)


def test_what_was_learned_follows_the_diagram_of_a_fitted_estimator(automatic):
    page = automatic._repr_html_()
    assert page.endswith(describe(automatic))
    assert automatic._repr_mimebundle_()["text/html"].endswith(describe(automatic))
    unfitted = clone(automatic)
    for each in (unfitted._repr_html_(), unfitted._repr_mimebundle_()["text/html"]):
        assert "sk-top-container" in each
        assert 'class="polyadic"' not in each


def test_text_is_asked_for_and_given(automatic):
    with config_context(display="text"):
        assert not hasattr(automatic, "_repr_html_")
        assert list(automatic._repr_mimebundle_()) == ["text/plain"]


def test_each_input_has_its_row_the_most_relevant_one_first(automatic):
    cells = Page(describe(automatic)).cells
    assert "150 rows" in cells[0]
    assert "2 members of rank" in cells[0]
    names = [each.name for each in sorted(automatic.inputs_, key=lambda each: -each.relevance)]
    places = [cells.index(name) for name in names]
    assert places == sorted(places)
    first = max(automatic.inputs_, key=lambda each: each.relevance)
    assert f"{first.relevance:.2g}" in cells


def test_names_cannot_write_into_the_page(automatic):
    page = describe(automatic)
    assert HOSTILE in Page(page).cells  # as text
    assert "script" not in Page(page).tags
    assert {name for name, _ in Page(page).attributes} == {"class", "style"}


def test_the_page_needs_no_other(automatic):
    for word in ("http", "url(", "@import", "src="):
        assert word not in describe(automatic)


def test_the_held_out_error_is_that_of_the_search(automatic):
    name, error = held_out_error(automatic)
    assert name == "relative squared error"
    assert error == min(automatic.selection_["held_out_mse"])
    assert f"{error:.3g} on rows held out" in Page(describe(automatic)).cells[0]


def test_many_inputs_are_folded_up(automatic):
    model = clone(automatic)
    vars(model).update(vars(automatic))
    model.inputs_ = [InputSummary(f"x{i}", "number", "rbf", 0.5, 4, i / 40) for i in range(40)]
    page = Page(describe(model))
    assert "28 more" in page.cells
    assert page.tags.count("tr") == 41


def test_named_maps_are_shown_with_their_weights():
    model = regressor(early_stopping=True).fit(X, Y)
    cells = Page(describe(model)).cells
    assert repr(model.feature_maps_[0]) in cells
    assert f"{model.feature_weights_[0]:.2g}" in cells
    assert f"{min(model.validation_curve_):.3g} on rows held out" in cells[0]
    assert held_out_error(regressor().fit(X, Y)) is None


def test_classes_are_counted():
    model = polyadic.KernelMachineClassifier(rank=2, n_basis=2, max_iter=1, random_state=0)
    assert "3 classes" in Page(describe(model.fit(X, np.digitize(Y, [0, 1])))).cells[0]


def test_noise_is_told():
    noise = np.random.RandomState(1).standard_normal((120, 4))
    model = polyadic.FeatureLearningRegressor(effort=0.1, n_estimators=1, random_state=0)
    model.fit(noise[:, :3], noise[:, 3])
    assert "the inputs say nothing about the target" in Page(describe(model)).cells[0]


def test_a_loaded_model_is_shown_alike(automatic, tmp_path):
    polyadic.save(automatic, tmp_path / "m")
    assert describe(polyadic.load(tmp_path / "m")) == describe(automatic)


def test_a_pipeline_keeps_its_diagram(automatic):
    assert "sk-top-container" in make_pipeline(automatic)._repr_html_()
