"""What the three estimators share: parameters, the fit of members, prediction."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from polyadic import als, cpd, ensemble, mixing
from polyadic.compute import ENGINES, Compute
from polyadic.device import like, to_host
from polyadic.ensemble import Member
from polyadic.estimators._data import TrainingData, tensor_layout, training_data
from polyadic.estimators._progress import Progress
from polyadic.features import FeatureMap, TensorLayout
from polyadic.holdout import held_out
from polyadic.samples import Samples

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""


# Up to here a fit tries two starts of λ, for two epochs each; beyond, it takes the paper's.
_TWO_STARTS_ROWS = 100_000

# What "auto" means for named feature maps.
_DEFAULTS = {"n_basis": 16, "rank": 20, "alpha": 0.1, "max_iter": 20, "n_estimators": 1}


class CPDRegressor(CallbackSupportMixin, RegressorMixin, BaseEstimator):
    """Base of the estimators: everything but which feature maps take part."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_basis": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "rank": [Interval(Integral, 1, None, closed="left")],
        "quantized": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "objective": [StrOptions({"real", "complex"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "scale_inputs": ["boolean"],
        "engine": [StrOptions(set(ENGINES))],
        "device": [None, str],
        "dtype": [StrOptions({"float64", "float32"})],
        "chunk_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "memory_limit": [None, str, Interval(Real, 0, None, closed="neither")],
        "n_jobs": [
            None,
            Interval(Integral, 1, None, closed="left"),
            Interval(Integral, None, -1, closed="right"),
        ],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # What KernelMachineRegressor has no parameter for: with one map they mean nothing.
    n_estimators: int | str = 1
    beta: float = 0.0
    mixing: str = "simplex"
    nonnegative: bool = False
    warm_start: bool = False

    def _fit(self, X: Any, y: Any, sample_weight: Any, maps: Sequence[FeatureMap]) -> Self:
        """Fit every member on validated data and set the fitted attributes."""
        data = self._training_data(X, y, sample_weight)
        layout = tensor_layout(maps, self._setting("n_basis"), self.quantized, self.n_features_in_)
        earlier = self._earlier_models(layout, data.y.shape[1])
        progress = Progress(
            self, X, y, sample_weight, self._setting("n_estimators"), self._setting("max_iter")
        )
        members, fits = [], []
        with overflow_is_checked(), self._compute() as compute:
            for index, seed in enumerate(self._seeds(self._setting("n_estimators"))):
                model = earlier[index] if index < len(earlier) else None
                with progress.member(index, data.inputs, layout) as on_epoch:
                    fit = self._fit_member(data, layout, compute, seed, model, on_epoch)
                share = 1 / self._setting("n_estimators")
                members.append(Member(data.inputs, layout, fit.best.model, share))
                fits.append(fit)
        progress.end(members)
        self._set_members(members)
        self._set_history(fits)
        return self

    def _setting(self, name: str) -> Any:
        """Return a parameter, "auto" replaced by what it means when maps are named."""
        value = getattr(self, name)
        return _DEFAULTS[name] if isinstance(value, str) else value

    def _training_data(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Validate and scale the rows, and remember how."""
        data = training_data(self, X, y, sample_weight, self.scale_inputs)
        self.target_scaling_ = data.targets
        self._single_target = data.single_target
        return data

    def _seeds(self, count: int) -> list[int]:
        """Draw one seed for each member."""
        rng = check_random_state(self.random_state)
        return [int(rng.randint(np.iinfo(np.int32).max)) for _ in range(count)]

    def _fit_member(
        self,
        data: TrainingData,
        layout: TensorLayout,
        compute: Compute,
        seed: int,
        model: als.Model | None,
        on_epoch: Any,
    ) -> als.Fit:
        """Fit one member from a random start, or from `model`."""
        rng = np.random.RandomState(seed)
        n_targets = data.y.shape[1]
        warm = model is not None
        if model is None:
            sizes, field = layout.core_sizes, layout.is_complex
            cores = [
                cpd.initial_cores(sizes, self._setting("rank"), field, rng)
                for _ in range(n_targets)
            ]
            weights = np.ones(1)
            if len(layout.maps) > 1:
                weights = mixing.initial_weights(len(layout.maps), self.mixing, rng)
            model = als.Model(tuple(cores), weights)
        out = np.zeros(len(data.X), dtype=bool)
        if self.early_stopping:
            out = held_out(data.X, data.observed, self.validation_fraction, seed)
        kept = slice(None) if not out.any() else ~out

        def samples(index: Any) -> list[Samples]:
            targets = [data.rows(target).take(index) for target in range(n_targets)]
            return [compute.samples(rows, layout) for rows in targets]

        objective = als.Objective(
            self._setting("alpha"), self.beta, self.mixing, self.nonnegative, self.objective
        )
        stopping = als.Stopping(self._setting("max_iter"), self.tol, self.n_iter_no_change)
        return als.fit(
            samples(kept),
            objective,
            model,
            stopping,
            validation=samples(out) if out.any() else (),
            mix_first=False if warm else None if len(data.X) <= _TWO_STARTS_ROWS else True,
            on_epoch=on_epoch,
        )

    def _set_members(self, members: list[Member]) -> None:
        self.members_ = members
        first = members[0].model
        if self._single_target:
            self.cores_ = list(first.cores[0])
        else:
            self.cores_ = [np.stack(stack) for stack in zip(*first.cores, strict=True)]

    def _set_history(self, fits: list[als.Fit]) -> None:
        members = self.members_
        self.feature_weights_ = np.mean([m.model.weights for m in members], axis=0)
        self.feature_maps_ = list(members[0].layout.maps)
        self.alpha_ = np.full(len(members), float(self._setting("alpha")))
        self.rank_ = np.full(len(members), int(self._setting("rank")))
        self.loss_curve_ = [epoch.loss for epoch in fits[0].epochs]
        self.n_iter_ = max(fit.epochs[-1].number for fit in fits)
        if self.early_stopping:
            self.validation_curve_ = [epoch.validation_error for epoch in fits[0].epochs]
        _warn(fits, self.feature_weights_)

    def predict(self, X: Any) -> Any:
        """Predict the target of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs in their own units.  Rows outside the training range are extrapolated
            by the feature maps.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictions in the target's units; a tensor on the device of `X` where `X` is one.
        """
        check_is_fitted(self)
        given, X = X, validate_data(self, to_host(X), dtype=np.float64, reset=False)
        with overflow_is_checked(), self._compute() as compute:
            y = self.target_scaling_.undo(ensemble.predict(self.members_, compute, X))
        bad = np.flatnonzero(~np.isfinite(y).all(axis=1))
        if len(bad):
            raise ValueError(
                f"`X` must lie where the feature maps are finite, but row {bad[0]} and "
                f"{len(bad) - 1} others overflow: they are too far outside the training "
                "range. Clip them to it, or use Fourier features."
            )
        return like(y[:, 0] if self._single_target else y, given)

    def _earlier_models(self, layout: TensorLayout, n_targets: int) -> list[als.Model]:
        """Return the models that a warm start goes on from."""
        if not (self.warm_start and hasattr(self, "members_")):
            return []
        old = self.members_[0]
        shape = (len(old.model.cores), old.model.cores[0][0].shape[1])
        if old.layout != layout or shape != (n_targets, self._setting("rank")):
            raise ValueError(
                "`warm_start=True` goes on from the earlier fit, but the feature maps, "
                "`n_basis`, `rank` or number of targets changed. Pass warm_start=False."
            )
        return [member.model for member in self.members_]

    def _compute(self) -> AbstractContextManager[Compute]:
        return Compute.open(
            engine=self.engine,
            device=self.device,
            dtype=self.dtype,
            chunk_size=self.chunk_size,
            memory_limit=self.memory_limit,
            n_jobs=self.n_jobs,
            objective=self.objective,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


def overflow_is_checked() -> AbstractContextManager[Any]:
    """Silence NumPy where overflow becomes an error of ours, in words."""
    return np.errstate(over="ignore", invalid="ignore")


def _warn(fits: list[als.Fit], weights: NDArray[np.float64]) -> None:
    """Say once what did not go well in a fit."""
    singular = [
        (epoch.number, target, core)
        for fit in fits
        for epoch in fit.epochs
        for target, core in epoch.jittered
    ]
    if singular:
        number, target, core = singular[0]
        warnings.warn(
            f"The system of core {core} (target {target}) was singular in epoch {number}, "
            f"and {len(singular) - 1} later ones were too; a small multiple of the identity "
            "was added. Increase alpha, or lower rank or n_basis.",
            ConvergenceWarning,
            stacklevel=6,
        )
    if not weights.any():
        warnings.warn(
            "All feature weights became zero, so the model predicts the mean. Lower beta.",
            ConvergenceWarning,
            stacklevel=6,
        )
