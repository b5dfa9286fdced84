"""What the classifiers share: labels to numbers and back, probabilities, accuracy."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted

from polyadic.estimators._base import CPDEstimator
from polyadic.estimators._sources import is_dask, rows_to_predict
from polyadic.estimators._tables import find_gaps
from polyadic.estimators._uncertainty import UncertaintyParts, like_rows
from polyadic.members import Member
from polyadic.model.losses import class_loss
from polyadic.rows.arrays import array_namespace
from polyadic.rows.scores import Hits
from polyadic.rows.tensors import is_tensor, like, to_host
from polyadic.search.errors import learn_reach
from polyadic.sources.data import Data
from polyadic.sources.files.row_source import RowSource
from polyadic.sources.labels import (
    Classes,
    Labels,
    missing_labels,
    mixed_labels,
    refuse_label,
)
from polyadic.uncertainty import EntropyPredictor

_SHOWN = 5  # rows that an error names
_AT_A_TIME = 2**24  # probabilities that are in memory at a time where only labels are wanted


class CPDClassifier(ClassifierMixin, CPDEstimator):
    """Base of the classifiers."""

    class_weight: Any = None

    _class_constraints: ClassVar[dict[str, Any]] = {
        "class_weight": [None, dict, StrOptions({"balanced"})],
    }

    _classes: NDArray[Any]

    def _targets_of(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return rows with the number of each row's class as target."""
        if isinstance(X, RowSource):
            if y is not None or sample_weight is not None:
                return X, y, sample_weight  # which the check of rows explains
            return X.labelled(self._classes_among(X.labels())), None, None
        if is_dask(X):
            from polyadic.sources.dask.labels import learn_labels, number_lazily

            classes = self._classes_among(learn_labels(X, y, sample_weight))
            return X, *number_lazily(X, y, sample_weight, classes)
        if y is None:
            return X, y, sample_weight  # which the check of rows explains
        y = _check_labels(self, y)
        if self.class_weight is not None:
            given = _check_sample_weight(to_host(sample_weight), y, ensure_non_negative=True)
            sample_weight = given * _class_weights(self.class_weight, y, given)
        self._classes = np.unique(y[_counts(sample_weight, y)])
        numbers = np.searchsorted(self._classes, y)
        return X, np.minimum(numbers, len(self._classes) - 1).astype(np.float64), sample_weight

    def _classes_among(self, labels: Labels) -> Classes:
        """Keep the classes of rows that count, and return them with their weights."""
        labels.require_all()
        values, sums = labels.in_order()
        weights = None
        if self.class_weight is not None:
            weights = _weights_of(self.class_weight, values, sums)
            values, weights = values[weights > 0], weights[weights > 0]
        self._classes = values
        return Classes(values, weights)

    def _label(self, rows: RowSource) -> RowSource:
        return rows.labelled(Classes(self._classes)) if len(rows.targets) == 1 else rows

    def _under_loss(self, data: Data) -> Data:
        if len(self._classes) < 2:
            raise ValueError(
                "`y` must have at least two classes, got one class, "
                f"{self._classes.tolist()[0]!r}. Pass rows of another class too."
            )
        return data.under(class_loss(np.arange(len(self._classes), dtype=np.float64)))

    def _attributes_of(self, data: Data, members: list[Member]) -> dict[str, Any]:
        # Rows that an automatic fit held out say more of it.
        reach = learn_reach(data, members, [])
        attributes = super()._attributes_of(data, members)
        return {**attributes, "_classes": self._classes, "reach_": reach}

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        check_is_fitted(self)
        return self._classes

    def predict_proba(self, X: Any) -> Any:
        """Predict the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs in their own units.

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
            A column for each of `classes_`; every row sums to one.  A tensor on the device of
            `X` where `X` is one, a Dask array where it is a Dask collection.  Away from the rows
            of the fit they tend to the shares of the classes.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from polyadic import KernelMachineClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelMachineClassifier(n_basis=4, rank=2, random_state=0).fit(X, y)
        >>> model.predict_proba(X).sum(axis=1).round(9).min().item()
        1.0
        """
        predictor = replace(self._predictor(), single_target=False)
        return like_rows(rows_to_predict(self, X).predict(predictor), X)

    def predict_log_proba(self, X: Any) -> Any:
        """Predict the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs in their own units.

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
            A column for each of `classes_`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from polyadic import KernelMachineClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelMachineClassifier(n_basis=4, rank=2, random_state=0).fit(X, y)
        >>> model.predict_log_proba(X).shape
        (150, 3)
        """
        p, least = self.predict_proba(X), float(np.finfo(np.float64).tiny)
        if is_dask(p):
            return np.log(np.maximum(p, least))
        xp = array_namespace(p)
        return xp.log(xp.clip(p, min=least))

    def decision_function(self, X: Any) -> Any:
        """Return the log odds of the second class, or a score for each of several classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs in their own units.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Probabilities follow from them by the logistic function, or by softmax.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from polyadic import KernelMachineClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelMachineClassifier(n_basis=4, rank=2, random_state=0).fit(X, y)
        >>> bool((model.decision_function(X).argmax(axis=1) == model.predict(X)).all())
        True
        """
        predictor = replace(self._predictor(), link="identity")
        return like_rows(rows_to_predict(self, X).predict(predictor), X)

    def predict_uncertainty(self, X: Any) -> UncertaintyParts:
        """Predict how uncertain the class of each row is, and how much of that for want of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs in their own units.

        Returns
        -------
        parts : UncertaintyParts
            Entropies in nats, a number for each row: `total` of the probabilities, `noise` that
            each member by itself sees, and `ignorance`, what is left, on which members do not
            agree, or which is beyond the rows of the fit.  They add up.

        Examples
        --------
        >>> import numpy as np
        >>> from polyadic import FeatureLearningClassifier
        >>> x = np.linspace(0, 1, 100)[:, None]
        >>> model = FeatureLearningClassifier(n_estimators=2, effort=0.2, random_state=0)
        >>> sure, unsure = model.fit(x, x[:, 0] > 0.5).predict_uncertainty([[0.1], [0.5]]).total
        >>> bool(sure < unsure)
        True
        """
        predictor = EntropyPredictor(self._predictor(), len(self.alpha_))
        found = like_rows(rows_to_predict(self, X).predict(predictor), X)
        return UncertaintyParts(found[:, 0], found[:, 1], found[:, 0] - found[:, 1])

    def predict(self, X: Any) -> Any:
        """Predict the class of each row: the one of the greatest probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs in their own units.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels, of `classes_`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from polyadic import KernelMachineClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelMachineClassifier(n_basis=4, rank=2, random_state=0).fit(X, y)
        >>> model.predict(X[[0, 60, 120]])
        array([0, 1, 2])
        """
        classes = self.classes_
        if is_dask(X):
            p = self.predict_proba(X)
            return p.map_blocks(_choose, classes, dtype=classes.dtype, drop_axis=1)
        if isinstance(X, RowSource):
            found = [_choose(p, classes) for _, p in self.predict_batches(X)]
            return np.concatenate([classes[:0], *found])
        size = max(1, _AT_A_TIME // len(classes))
        if not hasattr(X, "shape") or X.shape[0] <= size:
            labels = _choose(to_host(self.predict_proba(X)), classes)
        else:
            rows = getattr(X, "iloc", X)
            parts = (rows[first : first + size] for first in range(0, X.shape[0], size))
            found = [_choose(to_host(self.predict_proba(part)), classes) for part in parts]
            labels = np.concatenate(found)
        is_number = classes.dtype.kind in "iufb"
        return like(labels, X) if is_number and is_tensor(X) else labels

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions.

        Parameters
        ----------
        X : array-like, Dask collection or source of rows
            Inputs; a source brings its targets and weights along.
        y : array-like of shape (n_samples,), optional
            Observed labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row.

        Returns
        -------
        score : float
            The weighted share of rows whose class is predicted.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from polyadic import KernelMachineClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelMachineClassifier(n_basis=4, rank=2, random_state=0).fit(X, y)
        >>> model.score(X, y) > 0.9
        True
        """
        if isinstance(X, RowSource) or is_dask(X):
            if is_dask(X):
                from polyadic.sources.dask.labels import number_lazily

                y, sample_weight = number_lazily(X, y, sample_weight, Classes(self.classes_))
            predictor = replace(self._predictor(), single_target=False)
            return rows_to_predict(self, X, y, sample_weight).evaluate(predictor, Hits.of).share
        labels = to_host(self.predict(X))
        weight = to_host(sample_weight)
        return float(accuracy_score(to_host(y), labels, sample_weight=weight))


def _class_weights(
    class_weight: Any, y: NDArray[Any], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weight that the class of each row has."""
    values, place = np.unique(y, return_inverse=True)
    return _weights_of(class_weight, values, np.bincount(place, weights=weight))[place]


def _weights_of(class_weight: Any, values: NDArray[Any], sums: NDArray[Any]) -> NDArray[np.float64]:
    """Return the weight of each class, whose rows weigh so much; balanced ones weigh the same."""
    if class_weight != "balanced":
        return _given_weights(class_weight, values.tolist())
    there = sums > 0  # classes whose rows count
    return np.asarray(sums.sum() / there.sum() / np.where(there, sums, 1.0))


def _given_weights(class_weight: dict[Any, Any], labels: list[Any]) -> NDArray[np.float64]:
    """Return the weight that each label is given, 1 where it is given none."""
    for label, weight in class_weight.items():
        if not isinstance(weight, Real) or not 0 <= float(weight) < np.inf:
            raise ValueError(
                "`class_weight` must have finite numbers that are not negative as weights, got "
                f"{weight!r} for the class {label!r}. Use 1 for the usual weight, 0 to leave a "
                "class out."
            )
    # As in scikit-learn, other labels do no harm where every class has its weight.
    known = set(labels)
    strange = [label for label in class_weight if label not in known]
    without = [label for label in labels if label not in class_weight]
    if strange and without:
        raise ValueError(
            f"`class_weight` must have labels of `y` as keys, got {strange[0]!r}, and the labels "
            f"{without[:_SHOWN]} are not in it. Name classes as `y` does, each with its type."
        )
    weights = np.array([float(class_weight.get(label, 1.0)) for label in labels])
    if not weights.any():
        raise ValueError(
            "`class_weight` must give a positive weight to some class of `y`, got 0 for all of "
            f"{labels[:_SHOWN]}. Use 1 for the usual weight."
        )
    return weights


def _check_labels(estimator: Any, y: Any) -> NDArray[Any]:
    """Return labels as an array of one type; raise where they are missing or no labels."""
    y = _keep_kinds(to_host(y))
    gaps = find_gaps(y)
    if len(gaps):
        rows = [f"row {row}" for row in gaps[:_SHOWN].tolist()]
        raise missing_labels(rows, len(gaps), len(y), " (the first row is 0)")
    labels: NDArray[Any] = _check_y(y, multi_output=False, y_numeric=False, estimator=estimator)
    if labels.dtype.kind in "mM":
        raise refuse_label(labels[0])
    if labels.dtype.kind == "O":
        examples = {isinstance(each, str): each for each in reversed(labels.tolist())}
        if len(examples) > 1:
            raise mixed_labels(examples[False], examples[True])
        if False in examples:  # objects that are all numbers, or flags, are an array of them
            labels = np.array(labels.tolist())
            if labels.ndim > 1:  # pairs, of which NumPy made columns
                raise refuse_label(examples[False])
    check_classification_targets(labels)
    return labels


def _keep_kinds(y: Any) -> Any:
    """Return labels; lists in which NumPy would make text of something else as objects."""
    if not isinstance(y, list | tuple) or np.asarray(y).dtype.kind != "U":
        return y
    objects = np.array(y, dtype=object)
    return y if all(isinstance(each, str) for each in objects.ravel()) else objects


def _counts(sample_weight: Any, y: NDArray[Any]) -> Any:
    """Return which rows have a weight; weights of another length are refused later."""
    if sample_weight is None:
        return slice(None)
    weight = np.asarray(to_host(sample_weight))
    return weight > 0 if weight.shape == y.shape and (weight > 0).any() else slice(None)


def _choose(p: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the label of the greatest probability of each row."""
    return np.asarray(classes[p.argmax(axis=1)])
