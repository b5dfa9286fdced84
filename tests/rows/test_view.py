"""A fit to what other members left over is a view of the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polyadic import FeatureLearningRegressor
from polyadic.compute import ComputeSpec
from polyadic.rows.filling import Filling
from polyadic.rows.inputs import Inputs
from polyadic.rows.rows import Rows
from polyadic.rows.view import standard_prediction
from polyadic.sources.arrays import ArraySource
from tests.small import MAPS


def test_what_others_left_over_is_targets_less_what_these_say(rng):
    X = rng.uniform(size=(90, 3))
    Y = np.column_stack([np.sin(4 * X[:, 0]), 30 + 7 * X[:, 1]]) + 0.1 * rng.standard_normal(
        (90, 2)
    )
    options = {"n_basis": 8, "rank": 3, "max_iter": 2, "n_estimators": 2, "verbose": 0}
    members = FeatureLearningRegressor(MAPS, random_state=0, **options).fit(X, Y).members_
    one, other = members[0], replace(members[1], share=0.3)
    rows = Rows(X, Y)
    usual = ArraySource(rows, Inputs.of_numbers("abc"), False).data(True).view
    with ComputeSpec(n_jobs=1).open() as compute:
        view = replace(usual, without=(one, other))
        left = view.left_over(rows, compute.predict)
        said = [
            member.share * np.column_stack([
                compute.predict(
                    member.inputs.apply(X), cores, member.model.map_weights, member.layout
                )
                for cores in member.model.cores
            ])
            for member in (one, other)
        ]  # fmt: skip
        expected = (Y - Y.mean(axis=0)) / Y.std(axis=0) - said[0] - said[1]
        np.testing.assert_allclose(left, expected, atol=1e-12)
        for target in range(2):
            seen = view.see(rows, target, compute.predict)
            np.testing.assert_allclose(seen.y, left[:, target], atol=1e-12)
        whole = usual.left_over(rows, compute.predict)
        np.testing.assert_array_equal(whole, usual.standard_targets(Y))


def test_what_is_predicted_and_what_is_left_over_make_the_targets(rng):
    X = rng.uniform(size=(60, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2
    model = FeatureLearningRegressor(random_state=0, verbose=0).fit(X, y)
    scaling = model.target_scaling_
    with ComputeSpec(n_jobs=1).open() as compute:
        rows = Rows(X, y[:, None])
        view = ArraySource(rows, Inputs.of_numbers("ab"), True).data(True).view
        left = replace(view, without=tuple(model.members_)).left_over(rows, compute.predict)
    np.testing.assert_allclose(left[:, 0] * scaling.scale[0] + model.predict(X), y, atol=1e-9)


def test_members_that_fill_in_alike_have_rows_filled_in_once(rng, monkeypatch):
    X = rng.uniform(size=(200, 3))
    y = np.sin(5 * X[:, 0]) + X[:, 1]
    X[rng.uniform(size=X.shape) < 0.2] = np.nan
    model = FeatureLearningRegressor(effort=0.1, random_state=0, verbose=0).fit(X, y)
    members = [each for each in model.members_ if each.share]
    assert len(members) > 1
    with ComputeSpec(n_jobs=1).open() as compute:
        alone = [standard_prediction([each], X, compute.predict) for each in members]
        calls, fill = [], Filling.fill
        monkeypatch.setattr(Filling, "fill", lambda *of: calls.append(of) or fill(*of))
        together = standard_prediction(members, X, compute.predict)
    assert len(calls) == 1
    np.testing.assert_array_equal(together, sum(alone[1:], start=alone[0]))
