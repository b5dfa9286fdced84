"""Fits that learn features or λ over maps, whatever they predict."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from polyadic.compute import Compute, ComputeSpec
from polyadic.estimators._base import CPDEstimator
from polyadic.estimators._progress import Passed, Progress
from polyadic.estimators._sources import sizes_of
from polyadic.features.defaults import resolve_maps
from polyadic.members import Member, Reach, ignore_overflow, map_shares, summarise_inputs
from polyadic.model.mixing import MIXINGS
from polyadic.search.first_look import look_at
from polyadic.search.search import Search
from polyadic.search.settings import Settings
from polyadic.search.trials import VERSION, Trial
from polyadic.sources.data import Data
from polyadic.sources.survey import FROM_DTYPE
from polyadic.storage.checkpoint import Journal, MemberCheckpoint
from polyadic.uncertainty import Uncertainty

_SHARES = 20_000  # values that `feature_weights_` and `inputs_` are taken from
_DOUBLE_ROWS = 20_000  # up to so many rows an automatic fit computes in double precision

_AUTO = StrOptions({"auto"})


class FeatureLearning(CPDEstimator):
    """Base of the estimators with candidate maps: λ over named ones, or learned features."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CPDEstimator._parameter_constraints,
        "feature_maps": [StrOptions({"auto"}), list, tuple],
        "beta": [Interval(Real, 0, None, closed="left")],
        "mixing": [StrOptions(set(MIXINGS))],
        "nonnegative": ["boolean"],
        **{
            name: [_AUTO, *CPDEstimator._parameter_constraints[name]]
            for name in ("n_basis", "rank", "alpha", "max_iter")
        },
        "n_estimators": [_AUTO, Interval(Integral, 1, None, closed="left")],
        "effort": [Interval(Real, 0, None, closed="neither")],
        "dtype": [StrOptions({"auto", "float64", "float32"})],
        "max_time": [None, Interval(Real, 0, None, closed="neither")],
        "categorical_features": [None, StrOptions({FROM_DTYPE}), "array-like"],
    }

    feature_maps: Any
    effort: float

    def _way_to_fit(self) -> tuple[Callable[[Data, Passed], None], bool]:
        """Return what fits to data, learned features or named maps, and whether copies merge."""
        if self._searches():
            if self.warm_start:
                raise ValueError(
                    '`warm_start=True` needs named feature maps, but feature_maps="auto". Pass a '
                    "list of maps, or warm_start=False."
                )
            return self._fit_automatically, True
        maps = resolve_maps(self.feature_maps)
        earlier = getattr(self, "members_", []) if self.warm_start else []
        return partial(self._fit_named, maps=maps, earlier=earlier), False

    def _searches(self) -> bool:
        """Whether members choose for themselves: nothing asks for λ to be learned jointly."""
        return (
            isinstance(self.feature_maps, str)
            and isinstance(self.max_iter, str)
            and (self.mixing, self.objective) == ("simplex", "real")
            and self.quantized
            and not self.nonnegative
        )

    def _takes_tables(self) -> bool:
        """Whether a fit takes categories and gaps: tables have rows for them."""
        return self._searches()

    def _fit_automatically(self, data: Data, passed: Passed) -> None:
        """Learn features from few rows, then rank and penalty of all members together."""
        settings = self._settings(data)
        count, began = settings.count_members(data.n_distinct), time.monotonic()
        deadline = np.inf if self.max_time is None else began + self.max_time
        progress = Progress(self, passed, data, 1, 0)
        opened = data.open_compute(self._spec_for(data))
        with opened as compute, self._checkpoint(data, search=VERSION) as checkpoint:
            seeds = self._seeds(count, checkpoint)
            progress.tell(0, "learning features", 0.0)
            with compute.open_threads() as threads:
                data, features = look_at(data, settings, compute, threads, seeds, deadline)
            with progress.search(0) as on_stage:

                def tell(stage: str, trial: Trial, fraction: float) -> None:
                    on_stage(stage, trial, fraction, partial(search.members, trial))

                search = Search(
                    data,
                    features,
                    settings,
                    seeds,
                    compute,
                    journal=Journal(checkpoint, "trials"),
                    keepers=[MemberCheckpoint(checkpoint, f"member {i}") for i in range(count)],
                    on_trial=tell,
                    deadline=deadline,
                )
                members: list[Member] = []
                uncertainty: Uncertainty | None = None
                reach: Reach | None = None
                try:
                    members = search.run()
                    uncertainty, reach = search.uncertainty(members), search.reach(members)
                finally:
                    # Also after an interruption: the estimator is fitted so far.
                    if search.best is not None:
                        members = members or search.members(search.best)
                        self._set_search(data, search, search.best, members, compute)
                        if uncertainty is not None:
                            self.uncertainty_ = uncertainty
                        if reach is not None:
                            self.reach_ = reach
        progress.end(self.members_)

    def _settings(self, data: Data) -> Settings:
        """Return what the user fixed; "auto" is left to the search."""
        fixed = {
            name: None if isinstance(getattr(self, name), str) else getattr(self, name)
            for name in ("n_basis", "rank", "alpha")
        }
        if fixed["n_basis"] is not None:
            fixed["n_basis"] = sizes_of(self.n_basis, data.n_inputs)
        return Settings(
            **fixed,
            n_members=None if isinstance(self.n_estimators, str) else self.n_estimators,
            scale_inputs=self.scale_inputs,
            effort=self.effort,
            validation_fraction=self.validation_fraction,
        )

    def _spec_for(self, data: Data) -> ComputeSpec:
        """Return what an automatic fit computes with: many rows in single precision."""
        spec = self._spec()
        if self.dtype == "auto" and data.n_rows > _DOUBLE_ROWS:
            return replace(spec, dtype="float32")
        return spec

    def _set_search(
        self, data: Data, search: Search, best: Trial, members: list[Member], compute: Compute
    ) -> None:
        """Set the fitted attributes from what a search came to."""
        data = replace(data, view=replace(data.view, targets=search.targets))
        self._set_members(data, members)
        self.alpha_ = np.array(search.alphas_of_members(best))
        self.rank_ = np.full(len(self.alpha_), best.rank)
        self.selection_ = {name: [row[name] for row in search.log] for name in search.log[0]}
        self.loss_curve_ = list(best.losses)
        self.n_iter_ = len(best.losses)
        some = data.gather_about(max(200, _SHARES // data.n_inputs), seed=0)
        with ignore_overflow():
            shares = map_shares(members, compute, some.X)
            self.inputs_ = summarise_inputs(members, data.inputs, compute, some.X)
        self.feature_maps_ = list(shares)
        self.feature_weights_ = np.array(list(shares.values()))
