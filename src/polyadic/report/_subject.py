"""What a report is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from polyadic.estimators._tables import schema_of
from polyadic.inspection._checks import check_rows
from polyadic.inspection._importance import check_column, find_places, whole_output
from polyadic.inspection._terms import respond_rows

Tell = Callable[[str], None]
"""What hears of each step of a report."""


def say_nothing(step: str) -> None:
    """Hear of a step, and keep it to oneself."""


@dataclass(frozen=True)
class Subject:
    """A fitted model, rows to look at it with, and what is known of its data.

    Parameters
    ----------
    model : estimator
        A fitted estimator with one target.
    X : ndarray of shape (n_samples, n_inputs) or None
        Rows of the data as the model sees them, which is what its schema makes of a table, for
        importance and partial dependence; without them the page has neither.
    target : str
        Name of what is predicted.
    names : sequence of str
        Names of the inputs.
    y : ndarray of shape (n_samples,), optional
        Targets of `X`, where the model has not seen these rows: inputs are then shuffled to
        measure their importance, and the model is compared with others.  Of a classifier they are
        places in `classes_`, and below zero where the fit did not see the class.
    actual, predicted : ndarray, optional
        Pairs to show how good predictions are; of a classifier places of classes, and
        probabilities of shape (n_samples, n_classes).
    measured_on : str
        Which rows these are.
    measured_how : str
        A sentence that says how these rows were chosen.
    metrics : dict, optional
        Errors on these rows: rows, and rmse, mae and r2 or log_loss, accuracy and auc; those of the
        pairs by default.
    rows_are : str
        Which rows `X` has.
    ranges : ndarray of shape (n_inputs, 3), optional
        Least, median and greatest value of each input, NaN where there is none; those of `X` by
        default.
    ranges_are : str, optional
        Which rows `ranges` are of; those of `X` by default.
    facts : sequence of (str, str)
        What was fitted, on what: labels and values.
    messages : sequence of str
        What was done to the data.
    cautions : sequence of str
        What a reader must know to judge the errors.
    model_file : str, optional
        Name of the model's file, for the instructions.
    fit_rows : tuple of ndarrays, optional
        Rows of the fit and their targets, in the form of `X` and `y`: other models are then fitted
        to them.  Without these they are fitted to parts of `X` and judged on the others.

    Examples
    --------
    >>> import polyadic
    >>> from polyadic.report import Subject, write_report
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = polyadic.KernelMachineRegressor(rank=3, n_basis=4, random_state=0)
    >>> model = model.fit(X[:300], y[:300])
    >>> subject = Subject.of(model, X[300:], y[300:], fit_rows=(X[:300], y[:300]))
    >>> subject.n_columns
    10
    >>> numbers = write_report(subject, "diabetes.html")  # doctest: +SKIP
    """

    model: Any
    X: NDArray[np.float64] | None
    target: str
    names: Sequence[str]
    y: NDArray[np.float64] | None = None
    actual: NDArray[np.float64] | None = None
    predicted: NDArray[np.float64] | None = None
    measured_on: str = "rows"
    measured_how: str = ""
    metrics: dict[str, Any] | None = None
    rows_are: str = "rows"
    ranges: NDArray[np.float64] | None = None
    ranges_are: str | None = None
    facts: Sequence[tuple[str, str]] = ()
    messages: Sequence[str] = ()
    cautions: Sequence[str] = ()
    model_file: str | None = None
    fit_rows: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        target: str = "target",
        fit_rows: tuple[Any, Any] | None = None,
        **known: Any,
    ) -> Self:
        """Return what a report is about, from a table as `predict` takes it.

        Parameters
        ----------
        model : estimator
            A fitted estimator with one target.
        X : data frame or array-like of shape (n_samples, n_features)
            Rows that the model has not seen.
        y : array-like of shape (n_samples,), optional
            Their targets, or labels.
        target : str
            Name of what is predicted.
        fit_rows : tuple of table and targets, optional
            What the model was fitted to, for the models that it is compared with.
        **known
            Other parameters of the class.
        """
        rows = check_rows(model, X, stacklevel=5)
        names = schema_of(model).inputs.names
        found: dict[str, Any] = {}
        if y is not None:
            actual = _numbers(model, y, len(rows))
            output = whole_output(model)
            p = output.finish(respond_rows(model, rows, moderate=True)[:, list(output.responses)])
            predicted = p if is_classifier(model) else p[:, 0]
            found = {"y": actual, "actual": actual, "predicted": predicted}
        if fit_rows is not None:
            fitted = check_rows(model, fit_rows[0], stacklevel=5)
            found["fit_rows"] = (fitted, _numbers(model, fit_rows[1], len(fitted)))
        return cls(model=model, X=rows, target=target, names=names, **{**found, **known})

    def __post_init__(self) -> None:
        check_is_fitted(self.model)

    @property
    def n_columns(self) -> int:
        """Number of columns of the data; a date is one."""
        return len(schema_of(self.model).columns)

    @property
    def classes(self) -> list[str]:
        """Names of the classes; none of a regressor."""
        if not is_classifier(self.model):
            return []
        labels = self.model.classes_.tolist()
        # A number alone would read like one of the numbers of the page.
        return [label if isinstance(label, str) else f"class {label}" for label in labels]


def _numbers(model: Any, y: Any, n_rows: int) -> NDArray[np.float64]:
    if is_classifier(model):
        return find_places(model, y, n_rows)
    return check_column(y, n_rows)
