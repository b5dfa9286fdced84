"""What the estimators share: parameters, the fit of members, prediction."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from polyadic.compute import ENGINES, Compute, ComputeSpec
from polyadic.estimators._html import ShownInNotebooks
from polyadic.estimators._members import (
    SEARCH,
    MemberRun,
    describe_fit,
    describe_parameters,
    fit_member,
    fitted_attributes,
    is_small,
    posterior_uncertainty,
)
from polyadic.estimators._progress import Passed, Progress
from polyadic.estimators._sources import (
    file_rows_to_predict,
    rows_to_predict,
    tensor_layout,
    training_source,
)
from polyadic.estimators._status import StatusLine
from polyadic.estimators._uncertainty import PredictsErrors, like_rows
from polyadic.features import FeatureMap, TensorLayout
from polyadic.members import Member, Predictor
from polyadic.model import als
from polyadic.model.losses import REGRESSION_LOSSES, loss_of
from polyadic.rows.scores import Evaluation
from polyadic.sources.data import Data
from polyadic.sources.files.row_source import Batch, RowSource
from polyadic.sources.files.streamed import FileSource
from polyadic.sources.schema import Schema
from polyadic.storage.checkpoint import Checkpoint, MemberCheckpoint
from polyadic.uncertainty import Uncertainty

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""


# What "auto" means for named feature maps.
_TOO_FEW_ROWS = 2
_DEFAULTS = {"n_basis": 16, "rank": 20, "alpha": 0.1, "max_iter": 20, "n_estimators": 1}


class CPDEstimator(CallbackSupportMixin, ShownInNotebooks):
    """Base of the estimators: everything but which maps take part, and what is predicted."""

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
        "verbose": ["verbose", StrOptions({"auto"})],
    }

    # Parameters that only some of the estimators have; the others behave as with these values.
    n_estimators: int | str = 1
    objective: str = "real"
    beta: float = 0.0
    mixing: str = "simplex"
    nonnegative: bool = False
    warm_start: bool = False
    max_time: float | None = None

    schema_: Schema
    alpha_: NDArray[np.float64]
    uncertainty_: Uncertainty
    _link: str = "identity"  # of fits from before there were others

    def _targets_of(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return rows whose targets are numbers: inputs, targets and weights."""
        return X, y, sample_weight

    def _label(self, rows: RowSource) -> RowSource:
        """Return rows in files whose targets are numbers as in the fit; raise for text."""
        rows.require_numbers()
        return rows

    def _under_loss(self, data: Data) -> Data:
        """Return the rows under the loss that the parameters name."""
        raise NotImplementedError

    def _fit(
        self,
        fit_to: Callable[[Data, Passed], None],
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any = None,
        *,
        merge: bool = False,
    ) -> Self:
        """Fit to rows; unless that gets anywhere, the estimator stays as it was."""
        before = dict(vars(self))
        try:
            with StatusLine(self.verbose == "auto") as status:
                source = training_source(self, *self._targets_of(X, y, sample_weight), groups)
                with closing(source.data(self.scale_inputs, merge=merge)) as data:
                    known = data.statistics
                    self.schema_ = self.schema_.with_gaps(known.gaps.tolist(), known.n_rows)
                    fit_to(self._under_loss(data), Passed(X, y, sample_weight, status))
        except BaseException:
            if vars(self).get("members_") is before.get("members_"):
                self.__dict__.clear()
                self.__dict__.update(before)
            raise
        return self

    def _fit_named(
        self, data: Data, passed: Passed, maps: Sequence[FeatureMap], earlier: list[Member]
    ) -> None:
        """Fit every member to named maps and set the fitted attributes."""
        layout = tensor_layout(maps, self._setting("n_basis"), self.quantized, data.n_inputs)
        models = self._earlier_models(earlier, layout, data.n_targets)
        count, max_iter = self._setting("n_estimators"), self._setting("max_iter")
        progress = Progress(self, passed, data, count, max_iter)
        opened = data.open_compute(self._spec())
        with opened as compute, self._checkpoint(data, models, maps) as checkpoint:
            seeds = self._seeds(count, checkpoint)
            run: MemberRun[als.Fit] = MemberRun(count, compute, together=is_small(data))

            def fit(index: int, compute: Compute) -> None:
                deadline = self._deadline(run, index)
                with progress.member(index, data.view.inputs, layout) as on_epoch:

                    def tell(so_far: als.Fit) -> bool:
                        late = time.monotonic() > deadline
                        return bool(on_epoch(so_far)) or run.is_stopped or late

                    keeper = MemberCheckpoint(checkpoint, f"member {index}", tell)
                    model = models[index] if index < len(models) else None
                    try:
                        fit_member(self, data, layout, compute, seeds[index], model, keeper)
                    finally:
                        # What a checkpoint has, the estimator has too, also when interrupted
                        # between the two.
                        if keeper.so_far is not None:
                            run.results[index] = keeper.so_far

            try:
                run.each(fit)
            finally:
                # Also after an interruption: the estimator is fitted so far.
                if run.results:
                    self._set_fits(data, layout, run.in_order())
            alpha = float(self._setting("alpha"))
            uncertainty = posterior_uncertainty(data, self.members_, alpha, compute)
            if uncertainty is not None:
                self.uncertainty_ = uncertainty
        progress.end(self.members_)

    def _deadline(self, run: MemberRun[Any], index: int) -> float:
        """Return when a member must come to an end, so that all do within `max_time`."""
        if self.max_time is None:
            return np.inf
        left = self.max_time * (run.round_of(index) + 1) / run.n_rounds
        return run.began + left

    def _set_fits(self, data: Data, layout: TensorLayout, fits: list[als.Fit]) -> None:
        """Set the fitted attributes from the members' fits, however far they are."""
        share = 1 / len(fits)
        members = [Member(data.view.inputs, layout, f.best.model, share) for f in fits]
        self._set_members(data, members)
        self.feature_weights_ = np.mean([m.model.map_weights for m in members], axis=0)
        self.feature_maps_ = list(layout.maps)
        self.alpha_ = np.full(len(members), float(self._setting("alpha")))
        self.rank_ = np.full(len(members), int(self._setting("rank")))
        self.loss_curve_ = [epoch.loss for epoch in fits[0].history]
        self.n_iter_ = max(fit.last.number for fit in fits)
        if self.early_stopping:
            self.validation_curve_ = [epoch.validation_error for epoch in fits[0].history]
        _warn(fits, self.feature_weights_)

    def _attributes_of(self, data: Data, members: list[Member]) -> dict[str, Any]:
        """Return what a prediction needs besides the inputs' names."""
        return fitted_attributes(data, members)

    def _set_members(self, data: Data, members: list[Member]) -> None:
        """Set what a prediction needs; attributes of an earlier fit go."""
        for name in [name for name in vars(self) if _is_fitted_attribute(name)]:
            delattr(self, name)
        self.__dict__.update(self._attributes_of(data, members))
        self.n_samples_fit_, self.n_samples_dropped_ = data.n_samples, data.n_dropped
        first = members[0].model
        if data.single_target:
            self.cores_ = list(first.cores[0])
        else:
            self.cores_ = [np.stack(stack) for stack in zip(*first.cores, strict=True)]

    def _setting(self, name: str) -> Any:
        """Return a parameter, "auto" replaced by what it means when maps are named."""
        value = getattr(self, name)
        return _DEFAULTS[name] if isinstance(value, str) else value

    def _checkpoint(
        self,
        data: Data,
        earlier: Sequence[als.Model] = (),
        maps: Sequence[FeatureMap] = (),
        search: int | None = None,
    ) -> Checkpoint:
        """Open the checkpoint of this fit, or one that is kept nowhere."""
        if self.checkpoint is None:
            return Checkpoint(None, {})
        defaults = {**describe_parameters(type(self)()), SEARCH: 1}
        identity = describe_fit(self, data, earlier, search)
        return Checkpoint(self.checkpoint, identity, maps, defaults)

    def _seeds(self, count: int, checkpoint: Checkpoint) -> list[int]:
        """Draw one seed for each member, or go on with those of the checkpoint."""
        rng = check_random_state(self.random_state)
        seeds = [int(rng.randint(np.iinfo(np.int32).max)) for _ in range(count)]
        seeds = list(checkpoint.get("seeds", seeds))
        checkpoint.put("seeds", seeds)
        return seeds

    @property
    def single_target_(self) -> bool:
        """Whether predictions are a vector."""
        check_is_fitted(self)
        return bool(self._single_target)

    def predict_batches(self, source: RowSource) -> Iterator[tuple[Batch, NDArray[np.float64]]]:
        """Predict rows in files a batch at a time, so that they need not fit in memory.

        Parameters
        ----------
        source : RowSource
            What :func:`polyadic.open_rows` returned.

        Yields
        ------
        batch, y : Batch, ndarray of shape (n_rows, n_targets)
            Rows as they were read, and their predictions.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> import polyadic
        >>> rng = np.random.RandomState(0)
        >>> table = rng.rand(100, 3)  # the last column is the target
        >>> model = polyadic.KernelMachineRegressor(rank=2, n_basis=4, random_state=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "rows.npy")
        ...     np.save(path, table)
        ...     rows = polyadic.open_rows(path, target="x2")
        ...     sum(len(y) for batch, y in model.fit(rows).predict_batches(rows))
        100
        """
        check_is_fitted(self)
        rows = file_rows_to_predict(self, source)
        return FileSource(rows).predict_batches(self._predictor())

    def _predictor(self) -> Predictor:
        check_is_fitted(self)
        members, scaling = self.members_, self.target_scaling_
        reach = vars(self).get("reach_")  # of classes; older files have none
        return Predictor(members, scaling, self._single_target, self._spec(), self._link, reach)

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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "members_")

    def _spec(self) -> ComputeSpec:
        """Return what the parameters say about how to compute."""
        return ComputeSpec(
            engine=self.engine,
            device=self.device,
            dtype="float64" if self.dtype == "auto" else self.dtype,
            chunk_size=self.chunk_size,
            memory_limit=self.memory_limit,
            n_jobs=self.n_jobs,
            objective=self.objective,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_tables()
        tags.input_tags.categorical = self._takes_tables()
        return tags

    def _takes_tables(self) -> bool:
        """Whether a fit takes categories and gaps; named feature maps do not."""
        return False


class CPDRegressor(PredictsErrors, RegressorMixin, CPDEstimator):
    """Base of the regressors."""

    loss: str = "squared_error"
    quantile: float | None = None

    _loss_constraints: ClassVar[dict[str, Any]] = {
        "loss": [StrOptions(set(REGRESSION_LOSSES))],
        "quantile": [None, Interval(Real, 0, 1, closed="neither")],
    }

    def _under_loss(self, data: Data) -> Data:
        if (self.loss == "quantile") != (self.quantile is not None):
            raise ValueError(
                f"`quantile` must be a number between 0 and 1 with loss='quantile' and None with "
                f"any other, got quantile={self.quantile!r} with loss={self.loss!r}. Pass for "
                "instance loss='quantile', quantile=0.9."
            )
        if self.loss != "squared_error" and self.objective != "real":
            raise ValueError(
                f"`objective` must be 'real' with loss={self.loss!r}, got {self.objective!r}. "
                "Leave it out, or use loss='squared_error'."
            )
        return data.under(loss_of(self.loss, self.quantile))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the target of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Dask collection or source of rows
            Inputs in their own units.  Rows outside the training range are extrapolated
            by the feature maps.
        return_std : bool, default=False
            Whether to return standard deviations as well; predictions are the same to the bit.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictions in the target's units; a tensor on the device of `X` where `X` is one, a
            Dask array where it is a Dask collection.
        std : like y
            With `return_std`: the deviation of a new target from its prediction, noise and all.

        Examples
        --------
        >>> from sklearn.datasets import make_friedman1
        >>> from polyadic import KernelMachineRegressor
        >>> X, y = make_friedman1(200, random_state=0)
        >>> model = KernelMachineRegressor(rank=4, n_basis=4, random_state=0).fit(X[:150], y[:150])
        >>> model.predict(X[150:]).shape
        (50,)
        >>> mean, std = model.predict(X[150:], return_std=True)
        >>> bool((std > 0).all())
        True
        """
        if return_std:
            return self._predict_with_std(X)
        predictor = self._predictor()
        return like_rows(rows_to_predict(self, X).predict(predictor), X)

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

        Examples
        --------
        >>> from sklearn.datasets import make_friedman1
        >>> from polyadic import KernelMachineRegressor
        >>> X, y = make_friedman1(200, random_state=0)
        >>> model = KernelMachineRegressor(rank=4, n_basis=4, random_state=0).fit(X[:150], y[:150])
        >>> 0.5 < model.score(X[150:], y[150:]) < 1
        True
        """
        check_is_fitted(self)
        rows = rows_to_predict(self, X, y, sample_weight)
        found = rows.evaluate(self._predictor(), Evaluation.of)
        if found.n_rows <= _TOO_FEW_ROWS:
            warnings.warn(
                f"R² was measured on {found.n_rows} row{'s' * (found.n_rows != 1)}, which says "
                "next to nothing. Measure on more rows.",
                UndefinedMetricWarning,
                stacklevel=2,
            )
        return found.r2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


def _is_fitted_attribute(name: str) -> bool:
    """Whether an attribute is set by a fit; what tells of the inputs is set by their check."""
    of_inputs = name in ("n_features_in_", "feature_names_in_", "schema_")
    return name.endswith("_") and not name.startswith("_") and not of_inputs


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
