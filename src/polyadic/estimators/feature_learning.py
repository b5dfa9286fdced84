"""The feature learning model: many candidate maps, one fit."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from polyadic.estimators._base import CPDRegressor
from polyadic.features import FeatureMap
from polyadic.mixing import MIXINGS
from polyadic.selection import named_maps


class FeatureLearningRegressor(CPDRegressor):
    """Regression with tensor-product features whose hyperparameters are learned in the fit.

    The model is f(x) = [Σₚ λₚ φₚ(x)]ᵀw: a weighted sum of P candidate feature maps against
    a weight tensor w of rank R.  Alternating least squares learns w and λ together, so
    that one fit replaces a cross-validated search over the maps.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CPDRegressor._parameter_constraints,
        "feature_maps": [StrOptions({"auto"}), list, tuple],
        "beta": [Interval(Real, 0, None, closed="left")],
        "mixing": [StrOptions(set(MIXINGS))],
        "nonnegative": ["boolean"],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        feature_maps: str | Sequence[FeatureMap] = "auto",
        *,
        n_basis: Any = 16,
        rank: int = 20,
        quantized: bool = True,
        alpha: float = 0.1,
        beta: float = 0.1,
        mixing: str = "simplex",
        nonnegative: bool = False,
        objective: str = "real",
        max_iter: int = 20,
        tol: float = 1e-4,
        n_estimators: int = 1,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 3,
        scale_inputs: bool = True,
        engine: str = "auto",
        device: str | None = None,
        dtype: str = "float64",
        chunk_size: int | str = "auto",
        memory_limit: float | str | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.feature_maps = feature_maps
        self.n_basis = n_basis
        self.rank = rank
        self.quantized = quantized
        self.alpha = alpha
        self.beta = beta
        self.mixing = mixing
        self.nonnegative = nonnegative
        self.objective = objective
        self.max_iter = max_iter
        self.tol = tol
        self.n_estimators = n_estimators
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.scale_inputs = scale_inputs
        self.engine = engine
        self.device = device
        self.dtype = dtype
        self.chunk_size = chunk_size
        self.memory_limit = memory_limit
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the weight tensor and the feature weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weight of each row; an integer weight equals repeated rows.

        Returns
        -------
        self : FeatureLearningRegressor
            The fitted estimator.
        """
        return self._fit(X, y, sample_weight, named_maps(self.feature_maps))
