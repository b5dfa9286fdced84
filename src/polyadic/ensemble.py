"""Members: independently initialised models whose predictions are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.als import Model
from polyadic.compute import Compute
from polyadic.device import DeviceCompute
from polyadic.features import TensorLayout


@dataclass(frozen=True)
class Member:
    """One fitted model, the layout of its tensor, and its share of the prediction."""

    layout: TensorLayout
    model: Model
    share: float = 1.0


def predict(
    members: Sequence[Member], compute: Compute | DeviceCompute, X: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the shared prediction for scaled rows, one column for each target."""
    total = np.zeros((len(X), len(members[0].model.cores)))
    for member in members:
        for target, cores in enumerate(member.model.cores):
            response = compute.predict(X, cores, member.model.weights, member.layout)
            total[:, target] += member.share * response
    return total
