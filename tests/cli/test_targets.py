"""A number or classes: what a target is taken for, and that users can say otherwise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from polyadic.cli.targets import CLASSIFICATION, REGRESSION, TargetValues
from polyadic.cli.tasks import decide_task, new_model

SCORE = np.repeat([3, 4, 5, 6, 7, 8, 9], [30, 216, 2138, 2836, 1079, 193, 5])
COUNTS = np.random.RandomState(0).poisson(1.0, 500)
TARGETS = {
    "text": (["yes", "no", "no", "yes"] * 5, CLASSIFICATION, "is text, so 2 classes"),
    "flags": ([True, False, False] * 5, CLASSIFICATION, "true or false"),
    "zero and one": ([0, 1, 1] * 5, CLASSIFICATION, "the target 't' is 0 or 1, so classes"),
    "decimals of one and two": ([1.0, 2.0, None] * 5, CLASSIFICATION, "--task regression"),
    "digits": (np.arange(300) % 10, CLASSIFICATION, "10 different whole numbers, 0 to 9"),
    "a score": (SCORE, REGRESSION, "--task classification"),
    "counts": (COUNTS, REGRESSION, "--task classification"),
    "codes of few rows": (np.arange(24) % 4, REGRESSION, None),
    "ages": (np.arange(700) % 70, REGRESSION, None),
    "halves": ([0.5, 1.5] * 9, REGRESSION, None),
    "one value": ([1, 1, 1], REGRESSION, None),
    "one flag": ([True, True], REGRESSION, None),
    "measurements": (np.random.RandomState(0).rand(50), REGRESSION, None),
}


def values_of(column):
    values, array = TargetValues(), pa.array(column)
    for first in range(0, len(array), 100):
        values.add(array.slice(first, 100))
    return values


@pytest.mark.parametrize("kind", TARGETS)
def test_a_target_tells_what_it_is(kind):
    column, expected, said = TARGETS[kind]
    task, remark = decide_task(values_of(column), "t", None, {"rank": 3})
    assert task == expected
    assert remark is None if said is None else said in remark


@pytest.mark.parametrize("kind", TARGETS)
def test_users_come_first(kind):
    values = values_of(TARGETS[kind][0])
    for task in (REGRESSION, CLASSIFICATION):
        assert decide_task(values, "t", task, {}) == (task, None)


def test_a_loss_is_for_numbers_and_class_weights_are_for_classes():
    values = values_of([0, 1, 1] * 5)
    for name in ("loss", "quantile", "objective"):
        assert decide_task(values, "t", None, {name: "x"}) == (REGRESSION, None)
    score = values_of(SCORE)
    assert decide_task(score, "t", None, {"class_weight": "x"}) == (CLASSIFICATION, None)
    text = values_of(["a", "b"] * 5)
    assert decide_task(text, "t", None, {"loss": "x"})[0] == CLASSIFICATION
    with pytest.raises(Exception, match=r"--loss is for numbers, and the target 't' is taken for"):
        new_model(CLASSIFICATION, {"loss": "huber"}, text, "t")
    with pytest.raises(Exception, match="--class-weight is for classes"):
        new_model(REGRESSION, {"class_weight": "balanced"}, text, "t")


def test_categories_are_text_and_gaps_are_nothing():
    values = TargetValues()
    values.add(pa.array(["a", None, "b"]).dictionary_encode())
    values.add(pa.array(["a", None, None]).dictionary_encode())
    assert (values.kind, values.n_rows, dict(values.counts)) == ("text", 3, {"a": 2, "b": 1})
    numbers = TargetValues()
    numbers.add(pa.array([1.0, float("nan"), None, float("inf"), 2.0]))
    assert (numbers.n_rows, numbers.labels) == (2, [1, 2])


@pytest.mark.parametrize(
    ("column", "doubt"),
    [
        ([f"n{row}" for row in range(40)], "its 40 different texts in 40 rows hardly repeat"),
        ([str(row % 60) if row % 61 else "9 or more" for row in range(600)], "most of its 61"),
        (["a", "b", "c"] * 2, None),
        (["a", "b", "a"], None),
        ([f"town {row % 100}" for row in range(500)], None),
        (np.arange(40), None),
    ],
)
def test_texts_that_are_no_classes_are_doubted(column, doubt):
    found = values_of(column).doubt
    assert found is None if doubt is None else doubt in found


@pytest.mark.parametrize(
    ("column", "given", "expected"),
    [
        (["yes", "no"], "balanced", "balanced"),
        (["yes", "no"], "yes=5", {"yes": 5.0}),
        (["yes", "no"], ["yes=5", "no=0.5"], {"yes": 5.0, "no": 0.5}),
        ([1.0, 2.0], {"1": 3}, {1: 3.0}),
        ([True, False], "true=2", {True: 2.0}),
        (["a=b", "c"], "a=b=2", {"a=b": 2.0}),
    ],
)
def test_weights_are_those_of_labels(column, given, expected):
    model = new_model(CLASSIFICATION, {"class_weight": given}, values_of(column), "t")
    assert model.class_weight == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [("maybe=2", "names 'maybe', but the classes of 't' are no, yes"), ("heavy", "must be balanc")],
)
def test_weights_of_no_class_are_refused(given, said):
    with pytest.raises(Exception, match=said):
        new_model(CLASSIFICATION, {"class_weight": given}, values_of(["yes", "no"]), "t")
