"""The CPD kernel machine with one map, and its cross-validated search over maps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import _fit_context, clone
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_sample_weight, validate_data

from polyadic.estimators._base import CPDRegressor
from polyadic.estimators._progress import Passed, write_line
from polyadic.estimators._sources import is_dask
from polyadic.features import DampedFourierFeatures, FeatureMap
from polyadic.features.defaults import resolve_maps
from polyadic.rows.tensors import to_host
from polyadic.sources.data import Data
from polyadic.sources.files.row_source import RowSource


class KernelMachineRegressor(CPDRegressor):
    """Kernel machine with one tensor-product feature map and a low-rank weight tensor.

    The model is f(x) = φ(x)ᵀw with a weight tensor w of rank R: the feature learning model
    with a single map.  Parameters and attributes not listed here are those of
    :class:`FeatureLearningRegressor`.

    Parameters
    ----------
    feature_map : FeatureMap, optional
        The map; ``DampedFourierFeatures(period=2.0, decay=0.7)`` by default.
    n_basis : int or list of int, default=16
        Basis functions of every input, or of each; a power of two if quantized.
    rank : int, default=20
        Rank R of the weight tensor.
    loss : str, default="squared_error"
        What a prediction costs, as of :class:`FeatureLearningRegressor`.
    quantile : float, optional
        With ``loss="quantile"``: which one to predict, between 0 and 1.
    alpha : float, default=0.1
        Strength of the penalty ½α‖w‖².
    max_iter : int, default=20
        Epochs: sweeps over all cores.

    Attributes
    ----------
    cores_ : list of ndarray
        Cores of the weight tensor, size × R each.
    loss_curve_ : list of float
        Loss after each epoch.
    n_iter_ : int
        Number of epochs.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from polyadic import KernelMachineRegressor
    >>> X, y = make_friedman1(400, noise=0.5, random_state=0)
    >>> machine = KernelMachineRegressor(n_basis=4, rank=6, random_state=0)
    >>> machine.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CPDRegressor._parameter_constraints,
        **CPDRegressor._loss_constraints,
        "feature_map": [None, FeatureMap],
    }

    def __init__(
        self,
        feature_map: FeatureMap | None = None,
        *,
        n_basis: Any = 16,
        rank: int = 20,
        quantized: bool = True,
        loss: str = "squared_error",
        quantile: float | None = None,
        alpha: float = 0.1,
        objective: str = "real",
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
        self.loss = loss
        self.quantile = quantile
        self.alpha = alpha
        self.objective = objective
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
        """Learn the weight tensor.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs; a source of :func:`polyadic.open_rows` brings targets and weights along.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row; an integer weight equals repeated rows.

        Returns
        -------
        self : KernelMachineRegressor
            The fitted estimator.

        Examples
        --------
        >>> from sklearn.datasets import make_friedman1
        >>> from polyadic import KernelMachineRegressor
        >>> X, y = make_friedman1(200, random_state=0)
        >>> model = KernelMachineRegressor(rank=4, n_basis=4, random_state=0).fit(X[:150], y[:150])
        >>> model.n_samples_fit_
        150
        """
        feature_map = self.feature_map or DampedFourierFeatures(period=2.0, decay=0.7)
        earlier = getattr(self, "members_", []) if self.warm_start else []
        fit_to = partial(self._fit_named, maps=[feature_map], earlier=earlier)
        return self._fit(fit_to, X, y, sample_weight)


class KernelMachineRegressorCV(KernelMachineRegressor):
    """Kernel machine whose feature map is chosen by cross-validation, then refitted.

    This is the baseline that :class:`FeatureLearningRegressor` replaces: P maps times K
    folds, plus one fit.  Parameters and attributes not listed here are those of
    :class:`KernelMachineRegressor`.

    Parameters
    ----------
    feature_maps : "auto" or list of FeatureMap, default="auto"
        The candidates; "auto" is seven damped Fourier maps.
    cv : int, splitter or iterable, default=6
        Folds, or any of scikit-learn's splitters.  A splitter without a `random_state` of its own
        draws its folds from the estimator's, so that a fit can be repeated and resumed.

    Attributes
    ----------
    feature_map_ : FeatureMap
        The map with the least mean squared error over the folds.
    best_index_, best_score_ : int, float
        Its place among the candidates, and that error: unlike the scores of scikit-learn's
        searches, less is better.
    cv_results_ : dict
        The error of every map on every fold.
    n_splits_ : int
        Number of folds.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from polyadic import KernelMachineRegressorCV
    >>> from polyadic.features import DampedFourierFeatures
    >>> X, y = make_friedman1(200, noise=0.5, random_state=0)
    >>> maps = [DampedFourierFeatures(period, 0.7) for period in (0.3, 4.0)]
    >>> search = KernelMachineRegressorCV(maps, cv=3, n_basis=4, rank=3, random_state=0)
    >>> search.fit(X, y).feature_map_
    DampedFourierFeatures(decay=0.7, period=4.0)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CPDRegressor._parameter_constraints,
        "feature_maps": [StrOptions({"auto"}), list, tuple],
        "cv": ["cv_object"],
    }

    def __init__(
        self,
        feature_maps: str | Sequence[FeatureMap] = "auto",
        *,
        cv: Any = 6,
        n_basis: Any = 16,
        rank: int = 20,
        quantized: bool = True,
        alpha: float = 0.1,
        objective: str = "real",
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
        random_state: Any = None,
        verbose: int | str = "auto",
    ) -> None:
        self.feature_maps = feature_maps
        self.cv = cv
        self.n_basis = n_basis
        self.rank = rank
        self.quantized = quantized
        self.alpha = alpha
        self.objective = objective
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
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose the feature map by cross-validation, then learn the weight tensor.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs; a source of :func:`polyadic.open_rows` brings targets and weights along.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row; an integer weight equals repeated rows.
        groups : array-like of shape (n_samples,), optional
            Label of each row's group, for splitters such as ``GroupKFold``.

        Returns
        -------
        self : KernelMachineRegressorCV
            The fitted estimator.

        Examples
        --------
        >>> from sklearn.datasets import make_friedman1
        >>> from polyadic import KernelMachineRegressorCV
        >>> from polyadic.features import FourierFeatures
        >>> X, y = make_friedman1(60, random_state=0)
        >>> maps = [FourierFeatures(period) for period in (2.0, 8.0)]
        >>> search = KernelMachineRegressorCV(maps, rank=2, n_basis=4, cv=2, random_state=0)
        >>> len(search.fit(X, y).cv_results_["mean_test_mse"])
        2
        """
        if is_dask(X) or isinstance(X, RowSource):
            raise TypeError(
                f"`X` must be an array or data frame in memory, got {type(X).__name__}: folds are "
                "cut from it. Use FeatureLearningRegressor, which needs no folds."
            )
        X, y, sample_weight = to_host(X), to_host(y), to_host(sample_weight)
        fit_to = partial(self._choose_and_fit, groups=groups)
        return self._fit(fit_to, X, y, sample_weight)

    def _choose_and_fit(self, data: Data, passed: Passed, groups: Any) -> None:
        """Measure every map on every fold, and fit the best one to all rows."""
        maps = resolve_maps(self.feature_maps)
        rows, targets = validate_data(
            self, passed.X, passed.y, dtype=np.float64, multi_output=True, y_numeric=True
        )
        weight = _check_sample_weight(passed.sample_weight, rows, ensure_non_negative=True)
        checkpoint = self._checkpoint(data, maps=maps)
        rng = check_random_state(self.random_state)
        seed = checkpoint.get("fold seed", int(rng.randint(np.iinfo(np.int32).max)))
        checkpoint.put("fold seed", seed)
        folds = self._folds(rows, targets, groups, seed)
        machine = self._machine(seed)

        def error(feature_map: FeatureMap, fold: int) -> float:
            name = f"error of {feature_map!r} on fold {fold}"
            known = checkpoint.get(name)
            if known is None:
                estimator = clone(machine).set_params(feature_map=feature_map)
                train, test = folds[fold]
                known = _fold_error(estimator, rows, targets, weight, train, test)
                checkpoint.put(name, known)
            done.append(known)
            count = len(done)
            passed.status.tell(f"fold {count} of {len(tasks)}", 0, count / len(tasks))
            told = f"fold {fold + 1}/{len(folds)}  {feature_map}  test MSE {known:.6g}"
            write_line(self, f"{count:>3}/{len(tasks)}  {told}")
            return float(known)

        done: list[float] = []
        tasks = [(feature_map, fold) for feature_map in maps for fold in range(len(folds))]
        try:
            errors = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(error)(*task) for task in tasks
            )
        finally:
            checkpoint.write()
        scores = _scores(maps, np.reshape(errors, (len(maps), len(folds))))
        # This goes on with the same checkpoint, and removes it.
        self._fit_named(data, passed, [scores["feature_map_"]], [])
        self.__dict__.update(scores)

    def _folds(self, rows: Any, targets: Any, groups: Any, seed: int) -> list[Any]:
        """Return the folds, the same ones each time."""
        folds = list(self._splitter(seed).split(rows, targets, groups))
        if not folds:
            raise ValueError(
                f"`cv={self.cv!r}` gave no folds: an iterator can be used once only. Pass a "
                "number, a splitter, or list(…) of the folds."
            )
        return folds

    def _splitter(self, seed: int) -> Any:
        """Return the splitter, whose folds are the same ones each time."""
        splitter = copy(check_cv(self.cv))
        if getattr(splitter, "random_state", seed) is None:
            splitter.random_state = seed
        return splitter

    def _machine(self, seed: int) -> KernelMachineRegressor:
        """Return the machine of one fold; all folds and maps start from the same cores."""
        shared = self.get_params(deep=False)
        for name in ("feature_maps", "cv", "verbose", "n_jobs", "random_state", "checkpoint"):
            del shared[name]
        return KernelMachineRegressor(n_jobs=1, random_state=seed, verbose=0, **shared)


def _scores(maps: Sequence[FeatureMap], errors: NDArray[np.float64]) -> dict[str, Any]:
    """Return the attributes that tell of the folds."""
    mean = errors.mean(axis=1)
    best = int(np.argmin(mean))
    return {
        "cv_results_": {
            "feature_map": list(maps),
            "mean_test_mse": mean,
            "std_test_mse": errors.std(axis=1),
            **{f"split{fold}_test_mse": column for fold, column in enumerate(errors.T)},
        },
        "best_index_": best,
        "best_score_": float(mean[best]),
        "feature_map_": maps[best],
        "n_splits_": errors.shape[1],
    }


def _fold_error(
    machine: KernelMachineRegressor,
    X: NDArray[Any],
    y: NDArray[Any],
    weight: NDArray[Any],
    train: NDArray[Any],
    test: NDArray[Any],
) -> float:
    """Return the mean squared error on one fold, in the target's units."""
    machine.fit(X[train], y[train], sample_weight=weight[train])
    if not weight[test].any():
        return 0.0  # a fold of rows that do not count
    return float(mean_squared_error(y[test], machine.predict(X[test]), sample_weight=weight[test]))
