"""What the classifiers share: labels to numbers and back, probabilities, accuracy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted

from polyadic.estimators._base import CPDEstimator, like_rows
from polyadic.estimators._sources import is_dask, rows_to_predict
from polyadic.members import Member
from polyadic.model.losses import class_loss
from polyadic.rows.arrays import array_namespace, on_host
from polyadic.rows.rows import Rows
from polyadic.rows.tensors import is_tensor, like, to_host
from polyadic.sources.columns import is_gap
from polyadic.sources.data import Data
from polyadic.sources.files.row_source import RowSource

_MOST_CLASSES = 10_000
_AT_A_TIME = 2**24  # probabilities that are in memory at a time where only labels are wanted


@dataclass(frozen=True)
class Labels:
    """The different labels of some rows, sorted; those of pieces add up to all of them."""

    values: NDArray[np.float64]

    def __add__(self, other: Labels) -> Labels:
        values = np.union1d(self.values, other.values)
        if len(values) > _MOST_CLASSES:
            raise ValueError(
                f"`y` must have at most {_MOST_CLASSES} classes, got more. Name the column of the "
                "classes as target, or use a regressor."
            )
        return Labels(values)


def labels_of(rows: Rows, first_row: int) -> Labels:
    """Return the labels of a piece of rows."""
    return Labels(np.unique(on_host(rows.y)).astype(np.float64))


class CPDClassifier(ClassifierMixin, CPDEstimator):
    """Base of the classifiers."""

    class_weight: Any = None

    _class_constraints: ClassVar[dict[str, Any]] = {
        "class_weight": [None, dict, StrOptions({"balanced"})],
    }

    def _targets_of(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        """Return the place of each row's label among the classes, and the weights of rows."""
        self._classes: NDArray[Any] | None = None  # of files and clusters: found with the rows
        if isinstance(X, RowSource) or is_dask(X):
            if self.class_weight is not None:
                raise ValueError(
                    "`class_weight` must be None for rows of files and of Dask, got "
                    f"{self.class_weight!r}. Pass the weight of each row instead."
                )
            return y, sample_weight
        if y is None:
            return y, sample_weight  # which the check of rows explains
        y = _check_y(to_host(y), multi_output=False, y_numeric=False, estimator=self)
        _check_labels(y)
        check_classification_targets(y)
        if self.class_weight is not None:
            given = _check_sample_weight(to_host(sample_weight), y, ensure_non_negative=True)
            sample_weight = given * _class_weights(self.class_weight, y, given)
        self._classes = np.unique(y[_counts(sample_weight, y)])
        codes = np.searchsorted(self._classes, y)
        return np.minimum(codes, len(self._classes) - 1).astype(np.float64), sample_weight

    def _under_loss(self, data: Data) -> Data:
        n_targets = len(data.statistics.targets.mean)
        if n_targets > 1:
            raise ValueError(
                f"`y` must have one column of labels, got {n_targets}. Fit a classifier to each."
            )
        if self._classes is None:
            values = data.store.reduce("labels", labels_of).values
            whole = bool((values == np.rint(values)).all())
            self._classes = values.astype(np.int64) if whole else values
        else:
            values = np.arange(len(self._classes), dtype=np.float64)
        if len(values) < 2:
            raise ValueError(
                f"`y` must have at least two classes, got one class, {self._classes[0]!r}. Pass "
                "rows of another class too."
            )
        return data.under(class_loss(values))

    def _attributes_of(self, data: Data, members: list[Member]) -> dict[str, Any]:
        return {**super()._attributes_of(data, members), "_classes": self._classes}

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        check_is_fitted(self)
        assert self._classes is not None
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
            `X` where `X` is one, a Dask array where it is a Dask collection.

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
        if isinstance(X, RowSource):
            return self._score_files(X)
        labels = to_host(self.predict(X))
        if is_dask(X):
            labels, y, sample_weight = _computed(labels, y, sample_weight)
        weight = to_host(sample_weight)
        return float(accuracy_score(to_host(y), labels, sample_weight=weight))

    def _score_files(self, source: RowSource) -> float:
        hits = total = 0.0
        for batch, p in self.predict_batches(source):
            if batch.y is None:
                raise ValueError("The source of rows names no target. Pass target=… to open_rows.")
            weight = np.ones(len(p)) if batch.weight is None else batch.weight
            hits += float(weight @ (_choose(p, self.classes_) == batch.y[:, 0]))
            total += float(weight.sum())
        if not total > 0:
            raise ValueError(f"{source} has no row of positive weight to measure on.")
        return hits / total


def _class_weights(
    class_weight: Any, y: NDArray[Any], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weight that the class of each row has; balanced classes weigh the same."""
    if class_weight != "balanced":
        return np.asarray(compute_sample_weight(class_weight, y))
    _, place = np.unique(y, return_inverse=True)
    sums = np.bincount(place, weights=weight)
    there = sums > 0  # classes whose rows count
    return np.asarray((weight.sum() / there.sum() / np.where(there, sums, 1.0))[place])


def _check_labels(y: NDArray[Any]) -> None:
    """Raise where labels of objects are missing, or are of different kinds."""
    if y.dtype.kind != "O":
        return
    gaps = [row for row, each in enumerate(y) if is_gap(each)]
    if gaps:
        raise ValueError(
            f"Input y contains NaN: the label is missing in {len(gaps)} of {len(y)} rows, the "
            f"first is row {gaps[0]} (the first row is 0). Leave these rows out."
        )
    kinds = sorted({type(each).__name__ for each in y})
    if len(kinds) > 1 and "str" in kinds:
        raise ValueError(
            f"`y` must have labels of one kind, got {' and '.join(kinds)}. Make them all text."
        )


def _counts(sample_weight: Any, y: NDArray[Any]) -> Any:
    """Return which rows have a weight; weights of another length are refused later."""
    if sample_weight is None:
        return slice(None)
    weight = np.asarray(to_host(sample_weight))
    return weight > 0 if weight.shape == y.shape and (weight > 0).any() else slice(None)


def _choose(p: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the label of the greatest probability of each row."""
    return np.asarray(classes[p.argmax(axis=1)])


def _computed(*values: Any) -> list[Any]:
    """Return what Dask collections hold; others stay as they are."""
    return [each.compute() if is_dask(each) else each for each in values]
