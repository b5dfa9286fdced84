"""The one way to predict: members, whose shares add up, in the targets' own units.

Every source of rows maps a `Predictor` over its pieces: arrays at once, files batch by batch,
Dask collections partition by partition on the workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute, ComputeSpec
from polyadic.features import FeatureMap, MercerFeatures, TensorLayout
from polyadic.model.als import Model
from polyadic.model.losses import invert_link
from polyadic.rows.arrays import array_namespace, as_double, on_host, place_like
from polyadic.rows.inputs import Inputs
from polyadic.rows.scaling import TargetScaling
from polyadic.rows.view import Member, respond_all, standard_prediction

__all__ = [
    "InputSummary",
    "Member",
    "Predictor",
    "Reach",
    "beyond_range",
    "ignore_overflow",
    "leading_direction",
    "map_shares",
    "mean_predicts",
    "name_beside",
    "names_beside",
    "respond_on_host",
    "summarise_inputs",
]


def beyond_range(X: Any, low: NDArray[np.float64], high: NDArray[np.float64]) -> Any:
    """Return how far each row lies beyond the range of its inputs, in ranges, over all inputs."""
    xp, X = array_namespace(X), as_double(X)
    least, greatest = place_like(low, X), place_like(high, X)
    outside = X - xp.clip(X, least, greatest)
    beyond = xp.where(xp.isnan(outside), 0.0, xp.abs(outside) / (greatest - least))
    return xp.sum(beyond, axis=1)


@dataclass(frozen=True, eq=False)
class Reach:
    """How far what rows have taught reaches: beyond, log odds shrink to those of the classes.

    Parameters
    ----------
    low, high : ndarray of shape (D,)
        Training range of each input that takes part and is a number, else infinite.
    slack : float
        How far rows that were held out lie beyond the range of the others, in ranges, at most:
        what is as far is no stranger than rows of the fit are to each other.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    slack: float

    def share(self, X: Any) -> Any:
        """Return which part of its log odds each row keeps: 1 within reach, 0 far away."""
        return self.share_at(self.distance(X))

    def distance(self, X: Any) -> Any:
        """Return how far each row lies beyond the training range: a sum over its inputs."""
        return beyond_range(X, self.low, self.high)

    def share_at(self, distance: Any) -> Any:
        """Return which part of their log odds rows at some distance keep."""
        xp = array_namespace(distance)
        return xp.exp(-xp.clip(distance - self.slack, min=0.0))


@dataclass(frozen=True)
class Predictor:
    """All that predicts; it can be sent to where the rows are.

    Parameters
    ----------
    members : sequence of Member
        Their shares are added up.
    targets : TargetScaling
        From the standardised sum to the targets' own units.
    single_target : bool
        Whether predictions are a vector.
    spec : ComputeSpec
        What to compute with.
    link : {"identity", "log", "logit", "softmax"}
        How predictions follow from that sum.
    reach : Reach, optional
        Where less than that sum is believed.
    """

    members: Sequence[Member]
    targets: TargetScaling
    single_target: bool
    spec: ComputeSpec
    link: str = "identity"
    reach: Reach | None = None

    @property
    def n_targets(self) -> int:
        """Number of columns that predictions have."""
        return 2 if self.link == "logit" else len(self.targets.mean)

    @contextmanager
    def open(self) -> Iterator[Callable[..., Any]]:
        """Give the function that predicts checked rows, arrays or tensors, a column a target."""
        with ignore_overflow(), self.spec.open() as compute:
            yield partial(self._predict, compute)

    def _predict(self, compute: Compute, X: Any, first_row: int = 0) -> Any:
        response = standard_prediction(self.members, X, compute.predict)
        return self.finish(self.moderate(response, X), first_row)

    def moderate(self, response: Any, X: Any) -> Any:
        """Return what is believed of responses to rows: zero is what the mean target says."""
        return response if self.reach is None else response * self.reach.share(X)[:, None]

    def finish(self, response: Any, first_row: int = 0) -> Any:
        """Return what follows from the members' sum, in the targets' own units."""
        xp, y = array_namespace(response), self.targets.undo(response)
        bad = on_host(xp.any(~xp.isfinite(y), axis=1))
        if bad.any():
            row = first_row + int(np.argmax(bad))
            raise ValueError(
                f"`X` must lie where the feature maps are finite, but row {row} and "
                f"{int(bad.sum()) - 1} others overflow: they are too far outside the training "
                "range. Clip them to it, or use Fourier features."
            )
        return invert_link(self.link, y)

    def single_threaded(self) -> Self:
        """Return what predicts the same in one thread, for tasks that run side by side."""
        return replace(self, spec=replace(self.spec, n_jobs=1))

    def shape(self, y: Any) -> Any:
        """Return predictions as users expect them: a vector, or a column a target."""
        return y[:, 0] if self.single_target else y


def ignore_overflow() -> AbstractContextManager[Any]:
    """Suppress NumPy's overflow warnings; overflow is detected later and raised as an error."""
    return np.errstate(over="ignore", invalid="ignore")


def respond_on_host(
    compute: Compute, X: Any, model: Model, layout: TensorLayout
) -> NDArray[np.float64]:
    """Return the responses of a model at scaled rows as an array, a column a target."""
    return on_host(respond_all(X, model, layout, compute.predict))


def map_shares(
    members: Sequence[Member], compute: Compute, X: NDArray[Any]
) -> dict[FeatureMap, float]:
    """Return which part of the prediction each feature map carries; the parts sum to one.

    A part is the covariance of what the map contributes with the whole prediction, over
    the variance of the whole, on the rows of `X`.
    """
    used = [member for member in members if member.share]
    parts = [on_host(standard_prediction([member], X, compute.predict)) for member in used]
    total = np.sum(parts, axis=0) if parts else np.zeros(1)
    total = total - total.mean(axis=0)
    variance = float((total**2).sum())
    shares: dict[FeatureMap, float] = {m: 0.0 for member in members for m in member.layout.maps}
    for member, response in zip(used, parts, strict=True):
        (feature_map,) = member.layout.maps  # members of an automatic fit have one map each
        if variance > 0:
            shares[feature_map] += float((response * total).sum()) / variance
    return shares


def name_beside(member: Member) -> str:
    """Return what a member is that stands beside those of the mean."""
    feature_map = member.layout.maps[0]
    if not isinstance(feature_map, MercerFeatures):
        return "linear trend"
    # A kernel of rows nearby falls alike along all inputs; that of a process as was learned.
    tables = (each.table for each in member.layout.inputs if each.table is not None)
    alike = all(table.length_scale == feature_map.length_scale for table in tables)
    return "sum over rows nearby" if alike else "exact process"


def names_beside(members: Sequence[Member], count: int) -> list[str]:
    """Return what predicts beside the first `count` members, as "a linear trend"."""
    names = Counter(name_beside(each) for each in members[count:] if each.share)
    # Of what there is one of, and of processes, of which there are more.
    return [
        f"{n} {name}es" if n > 1 else f"{'an' if name[0] == 'e' else 'a'} {name}"
        for name, n in names.items()
    ]


def leading_direction(members: Sequence[Member]) -> NDArray[np.float64] | None:
    """Return how much each input counts in the direction that targets change along most.

    The input that counts most has a weight of 1; None where no member sees directions.
    """
    for member in members:
        if member.share and member.inputs.directions is not None:
            weights = member.inputs.directions[:, 0]
            return np.asarray(weights / weights[np.argmax(np.abs(weights))])
    return None


def mean_predicts(members: Sequence[Member], count: int) -> bool:
    """Return whether the mean of the first `count` members has a share in the prediction."""
    return any(each.share for each in members[:count])


@dataclass(frozen=True)
class InputSummary:
    """What a fit has learned about one input.

    Parameters
    ----------
    name : str
        Of the input.
    kind : {"number", "category", "unused"}
        What the model takes it for.
    kernel : str or None
        Kernel along the input, of the first member that predicts with it; "levels" of a category.
    length_scale : float or None
        How far that kernel reaches, as a part of the input's range, long where what it does is a
        matter of directions, linear combinations that a fit may see too; two levels of a category
        have the kernel exp(−1 / length_scale).
    n_basis : int
        Number of basis functions.
    relevance : float
        Part of the prediction's variance that is lost without the input, as far as inputs do
        not rise and fall together; where they work together the parts sum to more than one.
    """

    name: str
    kind: str
    kernel: str | None
    length_scale: float | None
    n_basis: int
    relevance: float

    def keys(self) -> list[str]:
        """Return the names of the fields, so that ``dict(summary)`` is what it says."""
        return [each.name for each in fields(self)]

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def summarise_inputs(
    members: Sequence[Member], inputs: Inputs, compute: Compute, X: Any
) -> list[InputSummary]:
    """Return what members with tables have learned about each input, the relevance on `X`.

    Members without a share have learned nothing that held-out rows confirm.
    """
    members = [member for member in members if member.share]
    relevance = _relevance(members, compute, X)
    summaries = []
    for d, (name, n_levels) in enumerate(zip(inputs.names, inputs.n_levels, strict=True)):
        is_a = "category" if n_levels else "number"
        found = [table for m in members if (table := m.layout.inputs[d].table) is not None]
        effect = float(relevance[d])
        if not found:
            # A linear trend may still use what kernels have no use for.
            kind, n_basis = (is_a, 2) if effect else ("unused", 1)
            summaries.append(InputSummary(name, kind, None, None, n_basis, effect))
            continue
        first = found[0]
        summaries.append(
            InputSummary(name, is_a, first.kernel, first.length_scale, first.n_basis, effect)
        )
    return summaries


def _relevance(members: Sequence[Member], compute: Compute, X: Any) -> NDArray[np.float64]:
    """Return the total effect of each input: what a value from another row changes.

    Half the mean squared change, over the variance of the prediction (Jansen's estimate).
    """
    relevance = np.zeros(X.shape[1])
    if not members:
        return relevance
    others = np.random.RandomState(0).permutation(len(X))
    scaled = [member.inputs.apply(X) for member in members]

    def predict(member: Member, X: Any) -> NDArray[np.float64]:
        return member.share * respond_on_host(compute, X, member.model, member.layout)

    usual = [predict(member, X) for member, X in zip(members, scaled, strict=True)]
    variance = float(np.sum(usual, axis=0).var(axis=0).sum())
    for d in range(X.shape[1]) if variance > 0 else ():
        change = np.zeros_like(usual[0])
        for member, Z, before in zip(members, scaled, usual, strict=True):
            if any(member.layout.inputs[c].core_sizes for c in member.inputs.columns_of(d)):
                change += predict(member, member.inputs.exchange(Z, d, others)) - before
        relevance[d] = float((change**2).mean(axis=0).sum()) / (2 * variance)
    return relevance
