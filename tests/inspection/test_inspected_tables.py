"""Inspection of tables with categories, gaps and dates, against predictions of changed tables."""

from __future__ import annotations

import warnings

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.inspection

import polyadic
from polyadic.inspection import (
    InputRelevanceDisplay,
    PartialDependenceDisplay,
    input_effects,
    interaction_strengths,
    partial_dependence,
    permutation_importance,
)
from polyadic.sources.schema import TableWarning
from tests.small import mean_with

matplotlib.use("agg")

N_ROWS = 240
COLOUR = "colour $ of $x"


def make_table():
    """Return a table of all kinds of columns, gaps among them, and its target."""
    rng = np.random.RandomState(0)
    when = pd.Timestamp("2019-03-01") + pd.to_timedelta(rng.randint(0, 800, N_ROWS), unit="D")
    size = 10 * rng.rand(N_ROWS)
    colour = np.array(["red", "red", "blue", "$gr_{een$", None], dtype=object)
    colour = colour[rng.randint(0, 5, N_ROWS)]
    grade = rng.randint(0, 3, N_ROWS)
    many = np.array([f"t{int(k)}" for k in rng.exponential(9, N_ROWS)], dtype=object)
    y = (
        size
        + 4 * (colour == "red")
        + 2 * grade
        + 3 * (when.day_of_week >= 5)
        + 0.1 * rng.randn(N_ROWS)
    )
    size[rng.rand(N_ROWS) < 0.2] = np.nan
    ordered = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    frame = pd.DataFrame(
        {
            "size": size,
            COLOUR: colour,
            "when": when,
            "grade": pd.Categorical.from_codes(grade, dtype=ordered),
            "many": many,
            "whole": rng.rand(N_ROWS),
        }
    )
    frame.loc[::11, "when"] = pd.NaT
    return frame, np.asarray(y + 5 * frame["size"].isna() * frame["whole"], dtype=float)


FRAME, Y = make_table()
CONTAINERS = {
    "pandas": lambda: FRAME,
    "polars": lambda: pl.from_pandas(FRAME),
    "arrow": lambda: pl.from_pandas(FRAME).to_arrow(),
    "objects": lambda: FRAME.astype(object).to_numpy(),
}


@pytest.fixture(scope="module")
def model():
    return polyadic.FeatureLearningRegressor(effort=0.2, random_state=0).fit(FRAME, Y)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_category_is_its_levels_and_a_gap(model, container):
    found = partial_dependence(model, CONTAINERS[container](), COLOUR)
    assert found.labels == (["red", "blue", "$gr_{een$", "gap"],)
    assert found.grids[0].tolist() == ["red", "blue", "$gr_{een$", None]
    expected = [mean_with(model, FRAME, **{COLOUR: level}) for level in found.grids[0]]
    np.testing.assert_allclose(found.values, expected, rtol=1e-9)
    assert found.values[0] > found.values[1:].max() + 2


@pytest.mark.parametrize("name", ["size", "whole", "grade"])
def test_curves_ignore_gaps_and_end_with_one(model, name):
    found = partial_dependence(model, FRAME, name, resolution=4)
    expected = [mean_with(model, FRAME, **{name: value}) for value in found.grids[0]]
    np.testing.assert_allclose(found.values, expected, rtol=1e-9)
    if name == "grade":
        assert found.labels == (["low", "mid", "high"],)
        return
    ends = [FRAME[name].min(), FRAME[name].max()]
    np.testing.assert_array_equal(found.grids[0][[0, 3]], ends)
    assert np.isnan(found.grids[0][4:]).tolist() == [True] * (name == "size")


def test_a_grid_has_the_most_frequent_levels(model):
    counts = FRAME["many"].value_counts()
    (labels,) = partial_dependence(model, FRAME, "many").labels
    assert len(labels) == 20 < len(counts)
    assert counts[labels].tolist() == sorted(counts, reverse=True)[:20]


def predict_inputs(model, X):
    """Predict rows as the model sees them, which is where a part of a date can be set alone."""
    with model._predictor().open() as predict:
        return predict(X)[:, 0]


@pytest.mark.parametrize("name", ["when", "when: weekday", "when: day of year"])
def test_a_date_is_drawn_by_its_parts(model, name):
    found = partial_dependence(model, FRAME, name, resolution=5)
    place = model.schema_.inputs.names.index(name)
    assert (found.inputs, found.names) == ((place,), (name,))
    values = found.grids[0]
    if name == "when":
        there = FRAME["when"].dropna()
        assert (values[0], values[4]) == (there.min(), there.max())
        assert np.isnat(values[5])
        values = (values - np.datetime64(0, "us")) / np.timedelta64(1, "D")
    if name == "when: weekday":
        assert found.labels == (["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],)
        assert found.values[5:].min() > found.values[:5].max() + 1
    for value, mean in zip(values, found.values, strict=True):
        X = model.schema_.encode(FRAME).X
        X[:, place] = value
        assert mean == pytest.approx(predict_inputs(model, X).mean(), rel=1e-9)
    again = partial_dependence(model, FRAME, name, grids=found.grids)
    np.testing.assert_array_equal(again.values, found.values)


def test_parts_of_a_date_are_told_apart_although_they_are_gaps_together(model):
    """Were each of them a gap of its own, a model could say anything of one without the others."""
    ends = [model.predict(FRAME).min(), model.predict(FRAME).max()]
    for name in ("when", "when: weekday", "when: day of year"):
        values = partial_dependence(model, FRAME, name).values
        assert ends[0] < values.min() <= values.max() < ends[1]
    parts = [each.relevance for each in model.inputs_ if each.name.startswith("when")]
    assert 0 < sum(parts) < 1


def test_two_inputs_of_any_kind(model):
    found = partial_dependence(model, FRAME, [COLOUR, "size"], resolution=3)
    assert found.values.shape == (4, 4)
    for (i, j), value in np.ndenumerate(found.values):
        chosen = {COLOUR: found.grids[0][i], "size": found.grids[1][j]}
        assert value == pytest.approx(mean_with(model, FRAME, **chosen), rel=1e-9)


def test_columns_set_together_take_the_values_that_rows_have(model):
    found = partial_dependence(model, FRAME, [["grade", COLOUR]])
    rows = FRAME[["grade", COLOUR]].drop_duplicates()
    assert len(found.grids[0]) == len(rows) == 12
    for (grade, colour), label, value in zip(
        found.grids[0], found.labels[0], found.values, strict=True
    ):
        assert label == f"{grade}, {colour or 'gap'}"
        expected = mean_with(model, FRAME, **{"grade": grade, COLOUR: colour})
        assert value == pytest.approx(expected, rel=1e-9)


def test_permutation_shuffles_columns_of_the_table(model):
    found = permutation_importance(model, FRAME, Y, n_repeats=2, random_state=3)
    rng = np.random.RandomState(3)
    orders = [rng.permutation(N_ROWS) for _ in range(2)]
    plain = np.sqrt(np.mean((model.predict(FRAME) - Y) ** 2))
    assert found.shape == (FRAME.shape[1], 2)
    for name, growth in zip(FRAME, found, strict=True):
        for order, value in zip(orders, growth, strict=True):
            frame = FRAME.copy()
            frame[name] = FRAME[name].to_numpy()[order]
            frame = frame.astype(FRAME.dtypes)
            rmse = np.sqrt(np.mean((model.predict(frame) - Y) ** 2))
            assert value == pytest.approx(rmse - plain, abs=1e-9)


def test_the_effect_of_a_date_is_that_of_all_its_parts(model):
    days = pd.to_datetime(["2019-05-04", "2020-01-01", None])
    effects = input_effects(model, FRAME, ["when", COLOUR], points=[days, ["blue", None]])
    expected = [mean_with(model, FRAME, when=day) for day in days]
    np.testing.assert_allclose(effects.curves[0], expected, rtol=1e-9)
    expected = [mean_with(model, FRAME, **{COLOUR: level}) for level in ("blue", None)]
    np.testing.assert_allclose(effects.curves[1], expected, rtol=1e-9)
    np.testing.assert_allclose(effects.predicted, model.predict(FRAME), rtol=1e-9)


def test_the_effect_at_a_row_is_a_mean_of_predictions(model):
    """Of rows without gaps of numbers, since what is filled in is not filled in anew."""
    frame = FRAME.dropna(subset=["size", "when"]).reset_index(drop=True)
    effects = input_effects(model, frame, ["when", COLOUR])
    own = [model.predict(frame.assign(when=day)).mean() for day in frame["when"][:15]]
    np.testing.assert_allclose(effects.at_rows[0, :15], own, rtol=1e-9)


def test_a_gap_and_a_number_that_act_together_are_found(model):
    """The target has 5 · whole where size is a gap, and nothing else that interacts."""
    strengths = interaction_strengths(model, FRAME, ["size", COLOUR, "grade", "whole"])
    assert max(strengths, key=strengths.get) == (0, 3)


@pytest.mark.parametrize(
    ("name", "grid", "told"),
    [
        (COLOUR, ["red", "reed"], r"has no level 'reed'\. Use some of 'red'"),
        ("grade", ["low", None], "got NaN or infinity"),
        ("whole", [0.5, np.nan], "got NaN or infinity"),
        ("size", [0.5, np.inf], "got NaN or infinity"),
        ("when", [1.5, 2.5], "dates for .when., got 1.5"),
    ],
)
def test_a_grid_of_what_the_fit_did_not_see_is_named(model, name, grid, told):
    with pytest.raises(ValueError, match=f"`grids` must .*{told}"):
        partial_dependence(model, FRAME, name, grids=[grid])


def test_rows_of_nothing_but_gaps_have_no_grid(model):
    frame = FRAME.assign(size=np.nan)
    with pytest.raises(ValueError, match="`X` must have a value of 'size'"):
        partial_dependence(model, frame, "size")
    assert np.isfinite(partial_dependence(model, frame, "size", grids=[[1.0]]).values).all()


def test_rows_are_read_as_predict_reads_them(model):
    frame = FRAME.copy()
    frame.loc[:4, COLOUR] = "violet"
    with pytest.warns(TableWarning, match="levels that the fit did not see") as told:
        found = partial_dependence(model, frame, "whole", grids=[[0.5]])
    assert [warning.filename for warning in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        expected = model.predict(frame.assign(whole=0.5)).mean()
    assert found.values[0] == pytest.approx(expected, rel=1e-9)
    for wrong in (FRAME.drop(columns="many"), FRAME.assign(whole="text")):
        with pytest.raises((TypeError, ValueError), match=r"many|whole"):
            partial_dependence(model, wrong, COLOUR)


def test_scikit_learn_inspects_the_same_model(model):
    there = FRAME[FRAME["size"].notna()]
    for name, options in (("whole", {"grid_resolution": 5}), ("many", {})):
        theirs = sklearn.inspection.partial_dependence(
            model, there, [name], categorical_features=["many"], percentiles=(0, 1), **options
        )
        ours = partial_dependence(model, there, name, grids=theirs["grid_values"])
        np.testing.assert_allclose(ours.values, theirs["average"][0], rtol=1e-9)
    found = sklearn.inspection.permutation_importance(model, there, Y[there.index], n_repeats=1)
    least = found.importances_mean.argsort()[:2]  # the target has whole where size is a gap only
    assert {list(FRAME)[place] for place in least} == {"many", "whole"}


# ------------------------------------------------------------------------------- pictures


def draw(model, inputs):
    display = PartialDependenceDisplay.from_estimator(model, FRAME, inputs, resolution=5)
    display.figure_.canvas.draw()  # which fails where names are taken for mathematics
    return display


def texts(labels):
    return [label.get_text() for label in labels]


def test_a_category_is_drawn_as_bars_with_its_levels(model):
    display = draw(model, COLOUR)
    assert [bar.get_width() for bar in display.bars_] == display.dependence.values.tolist()
    labels = display.ax_.get_yticklabels()
    assert texts(labels) == ["red", "blue", "$gr_{een$", "gap"]
    assert not any(label.get_parse_math() for label in [*labels, display.ax_.yaxis.label])


def test_a_gap_is_a_point_beside_the_curve(model):
    for name in ("size", "when"):
        display = draw(model, name)
        assert display.lines_[0].get_ydata().tolist() == display.dependence.values[:5].tolist()
        (x,), (y,) = display.gap_.get_data(orig=False)
        assert x > display.lines_[0].get_xdata(orig=False).max()
        assert y == display.dependence.values[5]
    assert "2020" in texts(display.ax_.get_xticklabels())


def test_a_map_of_a_category_has_a_cell_for_each_level(model):
    display = draw(model, ["size", COLOUR])
    values = display.dependence.values
    np.testing.assert_array_equal(display.cells_.get_array().ravel(), values[:5].T.ravel())
    assert texts(display.ax_.get_yticklabels()) == ["red", "blue", "$gr_{een$", "gap"]
    assert draw(model, ["when", "size"]).contours_.get_array() is not None


def test_relevance_is_told_of_each_part_of_a_date(model):
    display = InputRelevanceDisplay.from_estimator(model)
    display.figure_.canvas.draw()
    drawn = [bar.get_width() for bar in display.bars_]
    told = dict(zip(texts(display.ax_.get_yticklabels()), drawn, strict=True))
    assert told == {summary.name: summary.relevance for summary in model.inputs_}
    assert "when: weekday" in told
