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
from polyadic.device import DeviceCompute, like, to_host
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
        "n_jobs": [None, Integral],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # What KernelMachineRegressor has no parameter for: with one map they mean nothing.
    n_estimators: int = 1
    beta: float = 0.0
    mixing: str = "simplex"
    nonnegative: bool = False
    warm_start: bool = False

    def _fit(self, X: Any, y: Any, sample_weight: Any, maps: Sequence[FeatureMap]) -> Self:
        """Fit every member on validated data and set the fitted attributes."""
        data = training_data(self, X, y, sample_weight, self.scale_inputs)
        layout = tensor_layout(maps, self.n_basis, self.quantized, self.n_features_in_)
        earlier = self._earlier_models(layout, data.y.shape[1])
        rng = check_random_state(self.random_state)
        progress = Progress(self, X, y, sample_weight)
        self.input_scaling_, self.target_scaling_ = data.inputs, data.targets
        self._single_target = data.single_target
        members, fits = [], []
        # Overflow is an error of its own, in words, where sums are solved.
        with np.errstate(over="ignore", invalid="ignore"), self._compute() as compute:
            for index in range(self.n_estimators):
                seed = rng.randint(np.iinfo(np.int32).max)
                model = earlier[index] if index < len(earlier) else None
                with progress.member(index, layout) as on_epoch:
                    fit = self._fit_member(data, layout, compute, seed, model, on_epoch)
                members.append(Member(layout, fit.best.model, 1 / self.n_estimators))
                fits.append(fit)
        progress.end(members)
        self._set_fitted(members, fits)
        return self

    def _fit_member(
        self,
        data: TrainingData,
        layout: TensorLayout,
        compute: Compute | DeviceCompute,
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
            cores = [cpd.initial_cores(sizes, self.rank, field, rng) for _ in range(n_targets)]
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
            self.alpha, self.beta, self.mixing, self.nonnegative, self.objective
        )
        stopping = als.Stopping(self.max_iter, self.tol, self.n_iter_no_change)
        return als.fit(
            samples(kept),
            objective,
            model,
            stopping,
            validation=samples(out) if out.any() else (),
            mix_first=not warm,
            on_epoch=on_epoch,
        )

    def _set_fitted(self, members: list[Member], fits: list[als.Fit]) -> None:
        self.members_ = members
        first = members[0].model
        if self._single_target:
            self.cores_ = list(first.cores[0])
        else:
            self.cores_ = [np.stack(stack) for stack in zip(*first.cores, strict=True)]
        self.feature_weights_ = np.mean([m.model.weights for m in members], axis=0)
        self.feature_maps_ = list(members[0].layout.maps)
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
        with np.errstate(over="ignore", invalid="ignore"), self._compute() as compute:
            scaled = self.input_scaling_.apply(X)
            y = self.target_scaling_.undo(ensemble.predict(self.members_, compute, scaled))
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
        if old.layout != layout or shape != (n_targets, self.rank):
            raise ValueError(
                "`warm_start=True` goes on from the earlier fit, but the feature maps, "
                "`n_basis`, `rank` or number of targets changed. Pass warm_start=False."
            )
        return [member.model for member in self.members_]

    def _compute(self) -> AbstractContextManager[Compute | DeviceCompute]:
        return Compute.open(
            engine=self.engine,
            device=self.device,
            dtype=self.dtype,
            chunk_size=self.chunk_size,
            memory_limit=self.memory_limit,
            n_jobs=self.n_jobs,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


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
