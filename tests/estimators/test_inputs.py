"""What a fit says it has learned about each input, against functions whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import polyadic
from polyadic import FeatureLearningRegressor
from polyadic.compute import ComputeSpec
from polyadic.members import InputSummary, summarise_inputs
from polyadic.rows.inputs import Inputs
from tests.small import MAPS

OPTIONS = {"n_estimators": 2, "effort": 0.3, "random_state": 0}


def ishigami(X):
    """Return a function of angles whose total Sobol indices are known in closed form."""
    return np.sin(X[:, 0]) + 7 * np.sin(X[:, 1]) ** 2 + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0])


def total_indices():
    """Return the indices of `ishigami`, from the integrals of its parts."""
    a, b = 7.0, 0.1
    first = 0.5 * (1 + b * np.pi**4 / 5) ** 2
    second = a**2 / 8
    together = b**2 * np.pi**8 * (1 / 18 - 1 / 50)  # of the first and third input
    variance = first + second + together
    return np.array([first + together, second, together, 0.0]) / variance


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(rng.uniform(-np.pi, np.pi, size=(400, 4)), columns=list("abcd"))
    return FeatureLearningRegressor(**OPTIONS).fit(frame, ishigami(frame.to_numpy()))


def relevance_of(model):
    return np.array([each.relevance for each in model.inputs_])


def test_relevance_is_the_total_effect(fitted):
    assert [each.name for each in fitted.inputs_] == list("abcd")
    # On the 400 rows of the fit chance moves an index by a few hundredths.
    np.testing.assert_allclose(relevance_of(fitted), total_indices(), atol=0.08)
    X = np.random.RandomState(1).uniform(-np.pi, np.pi, size=(20_000, 4))
    with ComputeSpec(n_jobs=1).open() as compute:
        found = summarise_inputs(fitted.members_, Inputs.of_numbers("abcd"), compute, X)
    np.testing.assert_allclose([each.relevance for each in found], total_indices(), atol=0.02)


def test_of_inputs_that_add_up_each_has_its_share_of_the_variance():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(300, 3))
    model = FeatureLearningRegressor(**OPTIONS).fit(X, 2 * X[:, 0] - X[:, 1])
    share = (
        model.predict(X) - model.predict(np.column_stack([X[:, 0], X[:, 1] * 0, X[:, 2]]))
    ).var()
    np.testing.assert_allclose(relevance_of(model), [0.8, 0.2, 0.0], atol=0.08)
    assert model.inputs_[1].relevance == pytest.approx(share / model.predict(X).var(), abs=0.05)


def test_an_input_without_a_part_is_said_to_be_unused(fitted):
    unused = fitted.inputs_[3]
    assert unused == InputSummary("d", "unused", None, None, 1, 0.0)
    assert all(each.kind == "number" for each in fitted.inputs_[:3])


def test_members_without_a_share_have_learned_nothing(fitted):
    """Nor has an input the kernel of such a member, where another one predicts with it."""
    X = np.random.RandomState(1).uniform(-np.pi, np.pi, size=(200, 4))
    silent = [replace(member, share=0.0) for member in fitted.members_]
    last = fitted.members_[-1]
    with ComputeSpec(n_jobs=1).open() as compute:
        nothing = summarise_inputs(silent, Inputs.of_numbers("abcd"), compute, X)
        found = summarise_inputs([*silent, last], Inputs.of_numbers("abcd"), compute, X)
        alone = summarise_inputs([last], Inputs.of_numbers("abcd"), compute, X)
    assert [each.kind for each in nothing] == ["unused"] * 4
    assert not any(each.relevance for each in nothing)
    assert found == alone


def test_kernel_and_scale_are_those_of_the_first_members_table(fitted):
    for column, each in enumerate(fitted.inputs_[:3]):
        table = fitted.members_[0].layout.inputs[column].table
        assert (each.kernel, each.length_scale) == (table.kernel, table.length_scale)
        assert each.n_basis == table.n_basis


def test_a_frame_of_the_inputs_is_a_line_away(fitted):
    frame = pd.DataFrame([dict(each) for each in fitted.inputs_])
    fields = ["name", "kind", "kernel", "length_scale", "n_basis", "relevance"]
    assert list(frame.columns) == fields
    assert list(frame["relevance"]) == list(relevance_of(fitted))
    pd.testing.assert_frame_equal(pd.DataFrame(fitted.inputs_)[fields], frame)


def test_they_are_saved_with_the_model(fitted, tmp_path):
    polyadic.save(fitted, tmp_path / "model")
    assert polyadic.load(tmp_path / "model").inputs_ == fitted.inputs_


def test_inputs_go_by_their_columns_or_by_their_places(fitted):
    X = np.random.RandomState(0).uniform(size=(60, 3))
    plain = FeatureLearningRegressor(**OPTIONS).fit(X, X[:, 0])
    assert [each.name for each in plain.inputs_] == ["x0", "x1", "x2"]
    frame = pd.DataFrame(X, columns=["height", "width", "depth of it"])
    named = FeatureLearningRegressor(**OPTIONS).fit(frame, X[:, 0])
    assert [each.name for each in named.inputs_] == list(frame.columns)


def test_a_fit_to_named_maps_has_none(fitted):
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(60, 2))
    model = FeatureLearningRegressor(**OPTIONS).fit(X, X[:, 0])
    assert len(model.inputs_) == 2
    model.set_params(feature_maps=MAPS, n_basis=4, rank=2, max_iter=2).fit(X, X[:, 0])
    assert not hasattr(model, "inputs_")
