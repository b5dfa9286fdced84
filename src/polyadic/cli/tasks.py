"""What a model predicts, a number or classes: how it is measured, written and told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from polyadic.cli.errors import Mistake
from polyadic.cli.measures import ClassComparison, Comparison, NumberComparison
from polyadic.cli.outputs import Columns, Wanted
from polyadic.cli.sure import Sureness
from polyadic.cli.tables import cut
from polyadic.cli.targets import CLASSIFICATION, REGRESSION, TargetValues
from polyadic.estimators import FeatureLearningClassifier, FeatureLearningRegressor
from polyadic.sources.files.row_source import Batch, RowSource

_ESTIMATORS: dict[str, Any] = {
    REGRESSION: FeatureLearningRegressor,
    CLASSIFICATION: FeatureLearningClassifier,
}
_SHOWN = 40  # characters of a list of classes


class Task(Protocol):
    """What the command asks of a kind of prediction."""

    name: ClassVar[str]
    measures: ClassVar[tuple[str, ...]]

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None of numbers."""

    @property
    def scale(self) -> str:
        """What the parts of a model add up to."""

    def comparison(self) -> Comparison:
        """Return what adds up how good predictions are."""

    def check(self, wanted: Wanted) -> None:
        """Raise a mistake where what users want cannot be written."""

    def columns(self, predicted: NDArray[np.float64], wanted: Wanted) -> Columns:
        """Return the columns that are written for predictions."""

    def shape(self, predicted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return predictions as a report takes them."""

    def batches(self, model: Any, source: RowSource) -> Iterator[tuple[Batch, NDArray[np.float64]]]:
        """Yield batches of rows, and all that is known of their targets."""

    def describe(self, target: str) -> str:
        """Return what is predicted, in words."""

    def facts(self) -> dict[str, Any]:
        """Return what a script may want to know of what is predicted."""


@dataclass(frozen=True)
class NumberTask:
    """A number is predicted.

    Parameters
    ----------
    sureness : Sureness or None
        What the model knows of its errors, if anything.
    """

    sureness: Sureness | None
    name: ClassVar[str] = REGRESSION
    measures: ClassVar[tuple[str, ...]] = ("rows", "rmse", "mae", "r2")
    n_classes: ClassVar[None] = None
    scale: ClassVar[str] = "predictions"

    def comparison(self) -> Comparison:
        """Return what adds up errors."""
        return NumberComparison(self.sureness)

    def check(self, wanted: Wanted) -> None:
        """Raise a mistake where what users want cannot be written."""
        if wanted.proba:
            raise Mistake(
                "--proba is about classes, and this model predicts a number. Pass --interval 0.9 "
                "to see how sure it is."
            )
        if wanted.uncertainty and self.sureness is None:
            raise Mistake(
                f"{wanted.uncertainty} cannot be written: the model has no uncertainty. An earlier "
                "version fitted it, its fit was interrupted, or it has feature maps of its own and "
                "another loss than the squared error. Fit it again."
            )

    def columns(self, predicted: NDArray[np.float64], wanted: Wanted) -> Columns:
        """Return the prediction, and how sure it is as far as users want to know."""
        found = {"prediction": predicted[:, 0]}
        if not wanted.uncertainty:
            return found
        assert self.sureness is not None
        if wanted.std:
            found["std"] = self.sureness.std(predicted)
        ends = self.sureness.intervals(predicted, wanted.coverages)
        for coverage, (low, high) in zip(wanted.coverages, ends, strict=True):
            found |= {f"lower_{100 * coverage:g}": low, f"upper_{100 * coverage:g}": high}
        quantiles = self.sureness.quantiles(predicted, wanted.quantiles).T
        names = (f"quantile_{alpha:g}" for alpha in wanted.quantiles)
        return found | dict(zip(names, quantiles, strict=True))

    def shape(self, predicted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a vector."""
        return predicted[:, 0]

    def batches(self, model: Any, source: RowSource) -> Iterator[tuple[Batch, NDArray[np.float64]]]:
        """Yield batches of rows, with predictions and what is known of their errors."""
        if self.sureness is None:
            return iter(model.predict_batches(source))
        return self.sureness.batches(model, source)

    def describe(self, target: str) -> str:
        """Return the name of the target."""
        return target

    def facts(self) -> dict[str, Any]:
        """Return nothing."""
        return {}


@dataclass(frozen=True, eq=False)
class ClassTask:
    """One of some classes is predicted.

    Parameters
    ----------
    classes : ndarray
        Their labels, sorted.
    """

    classes: NDArray[Any]
    name: ClassVar[str] = CLASSIFICATION
    measures: ClassVar[tuple[str, ...]] = ("rows", "log_loss", "accuracy", "auc")

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def scale(self) -> str:
        """What the parts of a model add up to."""
        return "log odds" if self.n_classes == 2 else "scores of classes"

    def comparison(self) -> Comparison:
        """Return what adds up how good probabilities are."""
        return ClassComparison(self.n_classes)

    def check(self, wanted: Wanted) -> None:
        """Raise a mistake where what users want cannot be written."""
        if wanted.uncertainty:
            raise Mistake(
                f"{wanted.uncertainty} is about numbers, and this model predicts classes. Pass "
                "--proba to see how sure it is."
            )

    def columns(self, predicted: NDArray[np.float64], wanted: Wanted) -> Columns:
        """Return a column of labels, and one of probabilities for each class where asked for."""
        found = {"prediction": self.classes[predicted.argmax(axis=1)]}
        if wanted.proba:
            names = (f"probability_{label}" for label in self.classes.tolist())
            found |= dict(zip(names, predicted.T, strict=True))
        return found

    def shape(self, predicted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a column for each class."""
        return predicted

    def batches(self, model: Any, source: RowSource) -> Iterator[tuple[Batch, NDArray[np.float64]]]:
        """Yield batches of rows, and the probabilities of their classes."""
        return iter(model.predict_batches(source))

    def describe(self, target: str) -> str:
        """Return the name of the target, and its classes as far as there is room."""
        labels = [str(label) for label in self.classes.tolist()]
        shown = [label for place, label in enumerate(labels) if _fits(labels[: place + 1])]
        more = ", …" * (len(shown) < len(labels))
        return f"{target} ({len(labels)} classes: {', '.join(shown)}{more})"

    def facts(self) -> dict[str, Any]:
        """Return the classes."""
        return {"classes": self.classes.tolist()}


def _fits(labels: list[str]) -> bool:
    return len(labels) == 1 or len(", ".join(labels)) <= _SHOWN


def task_of(model: Any) -> Task:
    """Return the task of a fitted model."""
    return ClassTask(model.classes_) if is_classifier(model) else NumberTask(Sureness.of(model))


def require_std(task: Task) -> None:
    """Raise a mistake where a graph cannot give the standard deviations that users ask for."""
    if task.name == CLASSIFICATION:
        raise Mistake(
            "--std is about numbers, and this model predicts classes. Leave it out: the graph "
            "gives their probabilities."
        )
    task.check(Wanted(std=True))


def decide_task(
    values: TargetValues, target: str, asked: str | None, parameters: Mapping[str, Any]
) -> tuple[str, str | None]:
    """Return the task of a fit, and what is to be said of it.

    Parameters
    ----------
    values : TargetValues
        Of the target.
    target : str
        Its name.
    asked : str or None
        The task that users name.
    parameters : mapping
        Those that users give; one that only one of the tasks has names the task too.
    """
    if asked is not None:
        return asked, None
    numbers, classes = (
        set(_ESTIMATORS[task]().get_params()) for task in (REGRESSION, CLASSIFICATION)
    )
    for task, own in ((REGRESSION, numbers - classes), (CLASSIFICATION, classes - numbers)):
        if own & set(parameters) and values.kind != "text":
            return task, None
    return values.tell_task(target)


def new_model(task: str, parameters: Mapping[str, Any], values: TargetValues, target: str) -> Any:
    """Return an estimator for a task; a parameter of the other task is a mistake."""
    estimator = _ESTIMATORS[task]
    strange = sorted(set(parameters) - set(estimator().get_params()))
    if strange:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in strange)
        told = {REGRESSION: ("classes", "a number"), CLASSIFICATION: ("numbers", "classes")}
        about, found = told[task]
        raise Mistake(
            f"{flags} is for {about}, and the target {target!r} is taken for {found}. Leave it "
            "out, or pass --task."
        )
    weights = parameters.get("class_weight")
    if weights is not None:
        parameters = {**parameters, "class_weight": _class_weights(weights, values, target)}
    if parameters.get("quantile") is not None:
        parameters = {"loss": "quantile", **parameters}
    return estimator(**{"random_state": 0, **parameters})


def _class_weights(given: Any, values: TargetValues, target: str) -> Any:
    """Return weights by the labels of a target, where users write them as text."""
    if given == "balanced":
        return given
    pairs = given.items() if isinstance(given, dict) else map(_split_pair, _as_list(given))
    labels = {_text_of(label): label for label in values.labels}
    found = {}
    for text, weight in pairs:
        if text not in labels:
            raise Mistake(
                f"--class-weight names {text!r}, but the classes of {target!r} are "
                f"{cut(list(labels))}."
            )
        found[labels[text]] = float(weight)
    return found


def _split_pair(text: Any) -> tuple[str, float]:
    label, _, weight = str(text).rpartition("=")
    try:
        return label, float(weight)
    except ValueError:
        raise Mistake(
            "--class-weight must be balanced, or a weight for each class such as yes=5,no=1, got "
            f"{text!r}."
        ) from None


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _text_of(label: Any) -> str:
    """Return how users write a label."""
    return str(label).lower() if isinstance(label, bool) else str(label)
