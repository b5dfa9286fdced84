"""Classifiers: the feature learning model and the kernel machine, with probabilities."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Self

from sklearn.base import _fit_context

from polyadic.estimators._automatic import FeatureLearning
from polyadic.estimators._classes import CPDClassifier
from polyadic.features import DampedFourierFeatures, FeatureMap
from polyadic.sources.survey import FROM_DTYPE


class FeatureLearningClassifier(FeatureLearning, CPDClassifier):
    """Classification with tensor-product features whose hyperparameters are learned in the fit.

    The log odds of the second of two classes, or the score of each of several, are
    f(x) = [Σₚ λₚ φₚ(x)]ᵀw with a weight tensor w of rank R for each score; probabilities follow by
    the logistic function, or by softmax.  What is minimised is the log-loss, by alternating least
    squares on working responses; no step raises it.

    With ``feature_maps="auto"`` features are learned from the labels, rank and penalty are chosen
    by the log-loss on rows held out, and so is how far the scores are stretched: probabilities are
    calibrated there.  Beyond the rows of the fit, and farther than these lie from each other, they
    tend to the shares of the classes.  With named maps, w and λ are learned together.  Parameters
    and attributes not listed here are those of :class:`FeatureLearningRegressor`.

    Parameters
    ----------
    feature_maps : "auto" or list of FeatureMap, default="auto"
        The candidate maps.
    class_weight : dict or "balanced", optional
        Weight of each class, by its label; "balanced" gives every class the same sum of weights.
    alpha : "auto" or float, default="auto"
        Strength of the penalty ½α‖w‖² beside the sum of the rows' log-losses.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    members_ : list of Member
        Everything that predicts; their shares are added on the scale of the scores.
    reach_ : Reach
        How far from the rows log odds are believed.
    loss_curve_ : list of float
        Penalised log-loss of the first member after each epoch.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polyadic import FeatureLearningClassifier
    >>> from polyadic.features import DampedFourierFeatures
    >>> X, y = load_iris(return_X_y=True)
    >>> maps = [DampedFourierFeatures(period, 0.7) for period in (2.0, 8.0)]
    >>> model = FeatureLearningClassifier(maps, rank=4, n_basis=4, random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    >>> model.predict_proba(X[:1]).round(1)
    array([[1., 0., 0.]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **FeatureLearning._parameter_constraints,
        **CPDClassifier._class_constraints,
    }
    _parameter_constraints.pop("objective")

    def __init__(
        self,
        feature_maps: str | Sequence[FeatureMap] = "auto",
        *,
        categorical_features: Any = FROM_DTYPE,
        n_basis: Any = "auto",
        rank: int | str = "auto",
        quantized: bool = True,
        class_weight: Any = None,
        alpha: float | str = "auto",
        beta: float = 0.1,
        mixing: str = "simplex",
        nonnegative: bool = False,
        max_iter: int | str = "auto",
        tol: float = 1e-4,
        n_estimators: int | str = "auto",
        effort: float = 1.0,
        max_time: float | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 3,
        scale_inputs: bool = True,
        engine: str = "auto",
        device: str | None = None,
        dtype: str = "auto",
        chunk_size: int | str = "auto",
        subsample: float | None = None,
        memory_limit: float | str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int | str = "auto",
    ) -> None:
        self.feature_maps = feature_maps
        self.categorical_features = categorical_features
        self.n_basis = n_basis
        self.rank = rank
        self.quantized = quantized
        self.class_weight = class_weight
        self.alpha = alpha
        self.beta = beta
        self.mixing = mixing
        self.nonnegative = nonnegative
        self.max_iter = max_iter
        self.tol = tol
        self.n_estimators = n_estimators
        self.effort = effort
        self.max_time = max_time
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.scale_inputs = scale_inputs
        self.engine = engine
        self.device = device
        self.dtype = dtype
        self.chunk_size = chunk_size
        self.subsample = subsample
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn the weight tensors and the feature weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs; a source of :func:`polyadic.open_rows` brings labels and weights along.
        y : array-like of shape (n_samples,), optional
            Labels: text, whole numbers or bools, also in files and in Dask collections.  Numbers
            that are not whole are refused, as in scikit-learn: make text of them.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row; an integer weight equals repeated rows.
        groups : array-like of shape (n_samples,), optional
            Label of each row's group; rows of one group are held out together.

        Returns
        -------
        self : FeatureLearningClassifier
            The fitted estimator.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from polyadic import FeatureLearningClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> model = FeatureLearningClassifier(n_estimators=1, effort=0.1, random_state=0)
        >>> model.fit(X, y.map({0: "setosa", 1: "versicolor", 2: "virginica"})).classes_.tolist()
        ['setosa', 'versicolor', 'virginica']
        """
        fit_to, merge = self._way_to_fit()
        return self._fit(fit_to, X, y, sample_weight, groups, merge=merge)


class KernelMachineClassifier(CPDClassifier):
    """Kernel machine for classes, with one tensor-product feature map and low-rank weight tensors.

    Scores are f(x) = φ(x)ᵀw, as of :class:`FeatureLearningClassifier` with a single map.
    Parameters and attributes not listed here are those of :class:`KernelMachineRegressor`.

    Parameters
    ----------
    feature_map : FeatureMap, optional
        The map; ``DampedFourierFeatures(period=2.0, decay=0.7)`` by default.
    class_weight : dict or "balanced", optional
        Weight of each class, by its label; "balanced" gives every class the same sum of weights.
    alpha : float, default=0.1
        Strength of the penalty ½α‖w‖² beside the sum of the rows' log-losses.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    loss_curve_ : list of float
        Penalised log-loss after each epoch.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polyadic import KernelMachineClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = KernelMachineClassifier(n_basis=4, rank=4, random_state=0)
    >>> machine.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CPDClassifier._parameter_constraints,
        **CPDClassifier._class_constraints,
        "feature_map": [None, FeatureMap],
    }
    _parameter_constraints.pop("objective")

    def __init__(
        self,
        feature_map: FeatureMap | None = None,
        *,
        n_basis: Any = 16,
        rank: int = 20,
        quantized: bool = True,
        class_weight: Any = None,
        alpha: float = 0.1,
        max_iter: int = 20,
        tol: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 3,
        scale_inputs: bool = True,
        engine: str = "auto",
        device: str | None = None,
        dtype: str = "float64",
        chunk_size: int | str = "auto",
        subsample: float | None = None,
        memory_limit: float | str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int | str = "auto",
    ) -> None:
        self.feature_map = feature_map
        self.n_basis = n_basis
        self.rank = rank
        self.quantized = quantized
        self.class_weight = class_weight
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.scale_inputs = scale_inputs
        self.engine = engine
        self.device = device
        self.dtype = dtype
        self.chunk_size = chunk_size
        self.subsample = subsample
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the weight tensors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs; a source of :func:`polyadic.open_rows` brings labels and weights along.
        y : array-like of shape (n_samples,), optional
            Labels: text, whole numbers or bools, also in files and in Dask collections.  Numbers
            that are not whole are refused, as in scikit-learn: make text of them.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row; an integer weight equals repeated rows.

        Returns
        -------
        self : KernelMachineClassifier
            The fitted estimator.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from polyadic import KernelMachineClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KernelMachineClassifier(n_basis=4, rank=2, random_state=0).fit(X, y)
        >>> model.classes_
        array([0, 1, 2])
        """
        feature_map = self.feature_map or DampedFourierFeatures(period=2.0, decay=0.7)
        earlier = getattr(self, "members_", []) if self.warm_start else []
        fit_to = partial(self._fit_named, maps=[feature_map], earlier=earlier)
        return self._fit(fit_to, X, y, sample_weight)
