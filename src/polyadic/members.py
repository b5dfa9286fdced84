"""Members: independently fitted models whose predictions are added up by their shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import PREDICTED_ROWS, Compute
from polyadic.features import FeatureMap, TensorLayout
from polyadic.model.als import Model
from polyadic.rows.scaling import InputScaling
from polyadic.samples.memory import slices


@dataclass(frozen=True)
class Member:
    """One fitted model, how it sees the inputs, and its share of the prediction."""

    inputs: InputScaling
    layout: TensorLayout
    model: Model
    share: float = 1.0


def predict(members: Sequence[Member], compute: Compute, X: NDArray[Any]) -> NDArray[np.float64]:
    """Return the standardised prediction for rows in their own units, a column a target."""
    total = np.zeros((len(X), len(members[0].model.cores)))
    for _, response in contributions(members, compute, X):
        total += response
    return total


def contributions(
    members: Sequence[Member], compute: Compute, X: NDArray[Any]
) -> Iterator[tuple[Member, NDArray[np.float64]]]:
    """Yield what each member adds to the prediction."""
    scaled: dict[int, NDArray[np.float64]] = {}
    for member in members:
        if not member.share:
            continue
        if id(member.inputs) not in scaled:
            scaled = {id(member.inputs): member.inputs.apply(X)}  # one copy at a time
        (rows,) = scaled.values()
        weights, layout = member.model.map_weights, member.layout
        columns = [compute.predict(rows, cores, weights, layout) for cores in member.model.cores]
        yield member, member.share * np.column_stack(columns)


def predict_tensor(members: Sequence[Member], compute: Compute, X: Any) -> Any:
    """Return the standardised prediction for a tensor in its own units, a column a target."""
    import torch

    from polyadic.sources.tensor_view import scaled

    parts = []
    for part in slices(len(X), compute.chunk_size or PREDICTED_ROWS):
        piece = X[part]
        total = torch.zeros(len(piece), len(members[0].model.cores), dtype=torch.float64)
        total = total.to(X.device)
        for member in (member for member in members if member.share):
            inputs, weights = scaled(piece, member.inputs), member.model.map_weights
            for target, cores in enumerate(member.model.cores):
                response = compute.predict(inputs, cores, weights, member.layout)
                total[:, target] += member.share * response.to(X.device)
        parts.append(total)
    return torch.cat(parts)


def map_shares(
    members: Sequence[Member], compute: Compute, X: NDArray[Any]
) -> dict[FeatureMap, float]:
    """Return which part of the prediction each feature map carries; the parts sum to one.

    A part is the covariance of what the map contributes with the whole prediction, over
    the variance of the whole, on the rows of `X`.
    """
    parts = list(contributions(members, compute, X))
    total = np.sum([response for _, response in parts], axis=0) if parts else np.zeros(1)
    total = total - total.mean(axis=0)
    variance = float((total**2).sum())
    shares: dict[FeatureMap, float] = {m: 0.0 for member in members for m in member.layout.maps}
    for member, response in parts:
        (feature_map,) = member.layout.maps  # members of an automatic fit have one map each
        if variance > 0:
            shares[feature_map] += float((response * total).sum()) / variance
    return shares
