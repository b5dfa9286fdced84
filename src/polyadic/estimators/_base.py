"""What the three estimators share: parameters, the fit of members, prediction."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from functools import reduce
from numbers import Integral, Real
from operator import add
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from polyadic import members
from polyadic.compute import ENGINES, Compute, on_device
from polyadic.device import is_tensor, like, predict_tensor, to_host
from polyadic.estimators._data import (
    check_names,
    is_dask,
    required_target,
    tensor_layout,
    training_data,
)
from polyadic.estimators._member import (
    MemberFit,
    each_member,
    identity,
    is_small,
    overflow_is_checked,
)
from polyadic.estimators._progress import Progress
from polyadic.features import FeatureMap, TensorLayout
from polyadic.members import Member
from polyadic.model import als
from polyadic.rows.scores import Residuals
from polyadic.sources.data import Data
from polyadic.sources.files.row_source import Batch, RowSource
from polyadic.storage.checkpoint import Checkpoint, KeptFit

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""


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
        "subsample": [None, Interval(Real, 0, 1, closed="neither")],
        "checkpoint": [None, str, os.PathLike],
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
    subsample: float | None = None
    checkpoint: str | os.PathLike[str] | None = None

    def _fit(self, X: Any, y: Any, sample_weight: Any, maps: Sequence[FeatureMap]) -> Self:
        """Fit every member and set the fitted attributes."""
        earlier = getattr(self, "members_", []) if self.warm_start else []
        with closing(self._training_data(X, y, sample_weight)) as data:
            return self._fit_to(data, X, y, sample_weight, maps, earlier)

    def _fit_to(
        self,
        data: Data,
        X: Any,
        y: Any,
        sample_weight: Any,
        maps: Sequence[FeatureMap],
        earlier_members: list[Member],
    ) -> Self:
        layout = tensor_layout(maps, self._setting("n_basis"), self.quantized, self.n_features_in_)
        earlier = self._earlier_models(earlier_members, layout, data.n_targets)
        n_members, max_iter = self._setting("n_estimators"), self._setting("max_iter")
        progress = Progress(self, X, y, sample_weight, n_members, max_iter)
        kept: dict[int, KeptFit] = {}
        stop = threading.Event()
        try:
            with self._compute() as compute, self._checkpoint(data, earlier, maps) as checkpoint:
                seeds = self._seeds(n_members, checkpoint)

                def fit(index: int, compute: Compute) -> None:
                    model = earlier[index] if index < len(earlier) else None
                    with progress.member(index, data.view.inputs, layout) as on_epoch:
                        kept[index] = KeptFit(
                            checkpoint,
                            f"member {index}",
                            lambda so_far: on_epoch(so_far) or stop.is_set(),
                        )
                        member = MemberFit(self, data, layout, compute, seeds[index])
                        member.run(model, kept[index])

                each_member(fit, n_members, compute, stop, together=is_small(data))
        finally:
            # Also after an interruption: the estimator is fitted so far.
            fits = [kept[index].so_far for index in sorted(kept)]
            self._set_fitted(data, layout, [fit for fit in fits if fit is not None])
        progress.end(self.members_)
        return self

    def _set_fitted(self, data: Data, layout: TensorLayout, fits: list[als.Fit]) -> None:
        """Set the fitted attributes from the members' fits, however far they are."""
        if not fits:
            return
        share = 1 / len(fits)
        self._set_members([Member(data.view.inputs, layout, f.best.model, share) for f in fits])
        self._set_history(fits)

    def _setting(self, name: str) -> Any:
        """Return a parameter, "auto" replaced by what it means when maps are named."""
        value = getattr(self, name)
        return _DEFAULTS[name] if isinstance(value, str) else value

    def _training_data(self, X: Any, y: Any, sample_weight: Any) -> Data:
        """Check the rows, and remember what a prediction needs to know of them."""
        data = training_data(self, X, y, sample_weight)
        self._forget()
        self.target_scaling_ = data.view.targets
        self._single_target = data.single_target
        self.n_samples_fit_, self.n_samples_dropped_ = data.n_rows, data.n_dropped
        return data

    def _checkpoint(
        self, data: Data, earlier: Sequence[als.Model] = (), maps: Sequence[FeatureMap] = ()
    ) -> Checkpoint:
        """Open the checkpoint of this fit, or one that is kept nowhere."""
        if self.checkpoint is None:
            return Checkpoint(None, {})
        return Checkpoint(self.checkpoint, identity(self, data, earlier), maps)

    def _seeds(self, count: int, checkpoint: Checkpoint) -> list[int]:
        """Draw one seed for each member, or go on with those of the checkpoint."""
        rng = check_random_state(self.random_state)
        seeds = [int(rng.randint(np.iinfo(np.int32).max)) for _ in range(count)]
        seeds = list(checkpoint.get("seeds", seeds))
        checkpoint.put("seeds", seeds)
        return seeds

    def _set_members(self, members: list[Member]) -> None:
        self.members_ = members
        first = members[0].model
        if self._single_target:
            self.cores_ = list(first.cores[0])
        else:
            self.cores_ = [np.stack(stack) for stack in zip(*first.cores, strict=True)]

    def _set_history(self, fits: list[als.Fit]) -> None:
        members = self.members_
        self.feature_weights_ = np.mean([m.model.map_weights for m in members], axis=0)
        self.feature_maps_ = list(members[0].layout.maps)
        self.alpha_ = np.full(len(members), float(self._setting("alpha")))
        self.rank_ = np.full(len(members), int(self._setting("rank")))
        self.loss_curve_ = [epoch.loss for epoch in fits[0].history]
        self.n_iter_ = max(fit.last.number for fit in fits)
        if self.early_stopping:
            self.validation_curve_ = [epoch.validation_error for epoch in fits[0].history]
        _warn(fits, self.feature_weights_)

    @property
    def single_target_(self) -> bool:
        """Whether targets are a vector."""
        return self._single_target

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
        if is_dask(X):
            from polyadic.sources.dask import predict_lazily

            check_names(self, list(X.columns) if hasattr(X, "columns") else None, X.shape[1])
            return predict_lazily(self, X)
        if isinstance(X, RowSource):
            parts = [prediction for _, prediction in self.predict_batches(X)]
            y = np.concatenate(parts) if parts else np.empty((0, len(self.target_scaling_.mean)))
            return y[:, 0] if self._single_target else y
        if is_tensor(X) and on_device(self.device):
            return self._predict_tensor(X)
        given, X = X, validate_data(self, to_host(X), dtype=np.float64, reset=False)
        with overflow_is_checked(), self._compute() as compute:
            y = self._predict_rows(compute, X)
        return like(y[:, 0] if self._single_target else y, given)

    def _predict_tensor(self, X: Any) -> Any:
        """Return the predictions for a tensor, computed and returned on devices."""
        from polyadic.sources.tensors import checked_inputs

        with self._compute() as compute:
            X = checked_inputs(X)
            check_names(self, None, X.shape[1])
            standard = predict_tensor(self.members_, compute, X)
            mean, scale = like(self.target_scaling_.mean, X), like(self.target_scaling_.scale, X)
            y = standard * scale + mean
            _require_finite(to_host((~y.isfinite()).any(dim=1).nonzero()[:, 0]))
        return y[:, 0] if self._single_target else y

    def predict_batches(self, source: RowSource) -> Iterator[tuple[Batch, NDArray[np.float64]]]:
        """Yield the batches of a source of rows, and what is predicted for each.

        Parameters
        ----------
        source : RowSource
            What :func:`polyadic.open_rows` returned.

        Yields
        ------
        batch : Batch
            Consecutive rows.
        prediction : ndarray of shape (n_samples, n_targets)
            Their predictions.
        """
        check_names(self, source.names, len(source.names))
        with overflow_is_checked(), self._compute() as compute:
            for batch in source.batches():
                yield batch, self._predict_rows(compute, batch.X, batch.first_row)

    def _predict_rows(
        self, compute: Compute, X: NDArray[np.float64], first_row: int = 0
    ) -> NDArray[np.float64]:
        """Return the predictions for checked rows, one column for each target."""
        y = self.target_scaling_.undo(members.predict(self.members_, compute, X))
        _require_finite(first_row + np.flatnonzero(~np.isfinite(y).all(axis=1)))
        return y

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R² of the predictions.

        Parameters
        ----------
        X : array-like, Dask collection or source of rows
            Inputs; a source brings its targets and weights along.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
            Observed targets.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row.

        Returns
        -------
        score : float
            1 for perfect predictions, 0 for those no better than the mean.
        """
        if is_dask(X):
            from polyadic.sources.dask import score

            return float(score(self, X, y, sample_weight))
        if not isinstance(X, RowSource):
            prediction = to_host(self.predict(X))
            return float(r2_score(to_host(y), prediction, sample_weight=to_host(sample_weight)))
        check_is_fitted(self)
        parts = [
            Residuals.of(required_target(batch.y), prediction, batch.weight)
            for batch, prediction in self.predict_batches(X)
            if batch.weight is None or batch.weight.any()
        ]
        if not parts:
            raise ValueError(f"{X} has no row of positive weight to measure on.")
        return reduce(add, parts).r2()

    def _earlier_models(
        self, members: list[Member], layout: TensorLayout, n_targets: int
    ) -> list[als.Model]:
        """Return the models that a warm start goes on from."""
        if not members:
            return []
        old = members[0]
        shape = (len(old.model.cores), old.model.cores[0][0].shape[1])
        if old.layout != layout or shape != (n_targets, self._setting("rank")):
            raise ValueError(
                "`warm_start=True` goes on from the earlier fit, but the feature maps, "
                "`n_basis`, `rank` or number of targets changed. Pass warm_start=False."
            )
        return [member.model for member in members]

    def _forget(self) -> None:
        """Be unfitted: scalings of new rows and members of old ones do not go together."""
        if hasattr(self, "members_"):
            del self.members_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")

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


def _require_finite(bad: NDArray[Any]) -> None:
    """Raise where there are rows whose prediction is not finite."""
    if len(bad):
        raise ValueError(
            f"`X` must lie where the feature maps are finite, but row {bad[0]} and {len(bad) - 1} "
            "others overflow: they are too far outside the training range. Clip them to it, or "
            "use Fourier features."
        )


def _warn(fits: list[als.Fit], weights: NDArray[np.float64]) -> None:
    """Say once what did not go well in a fit."""
    singular = [
        (epoch.number, target, core)
        for fit in fits
        for epoch in fit.history
        for target, core in epoch.jittered
    ]
    if singular:
        number, target, core = singular[0]
        warnings.warn(
            f"The system of core {core} (target {target}) was singular in epoch {number}, "
            f"and {len(singular) - 1} later ones were too; a small multiple of the identity "
            "was added. Increase alpha, or lower rank or n_basis.",
            ConvergenceWarning,
            stacklevel=8,
        )
    if not weights.any():
        warnings.warn(
            "All feature weights became zero, so the model predicts the mean. Lower beta.",
            ConvergenceWarning,
            stacklevel=8,
        )
