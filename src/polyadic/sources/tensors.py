"""Training rows as torch tensors, where they are: checked, scaled and hashed on their device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_array
from torch import Tensor

from polyadic.compute import Compute
from polyadic.engines.torch.engine import as_tensor
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.rows.holdout import GOLDEN, MIXES, Part, some
from polyadic.rows.rows import Rows, require_two_dimensions
from polyadic.rows.scaling import Moments
from polyadic.rows.statistics import Statistics
from polyadic.rows.view import View, view_of
from polyadic.sources.data import ArrayData, samples_through

_PIECE = 2**25  # numbers that are looked at at a time
_SEARCHED = 2**25  # numbers that a search takes to the host


@dataclass(frozen=True)
class TensorData:
    """Tensors in their own units, targets as columns, all rows of positive weight."""

    rows: Rows
    view: View
    single_target: bool
    n_dropped = 0

    @classmethod
    def of(
        cls,
        rows: Rows,
        names: Sequence[str],
        *,
        scale_inputs: bool,
        single_target: bool,
        device: str | None = None,
    ) -> TensorData:
        """Learn the scalings of some rows, which may be arrays too, piece by piece on `device`."""
        rows = rows.map(as_tensor)
        if _tensor(rows.X).numel() < _PIECE // 32:
            device = None  # few numbers are looked at sooner than they are brought elsewhere
        statistics = reduce(add, (_statistics(piece, device) for piece in _pieces(rows)))
        return cls(rows, view_of(statistics, names, scale_inputs), single_target)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return int(self.rows.y.shape[1])

    @property
    def total(self) -> float:
        """Sum of their weights."""
        if self.rows.weight is None:
            return float(self.n_rows)
        return float(_tensor(self.rows.weight).sum(dtype=torch.float64))

    def content(self) -> int:
        """Return a number that says which rows these are, and in which order."""
        total, first = 0, 0
        for piece in _pieces(self.rows):
            numbers = torch.arange(first, first + len(piece), device=_tensor(piece.X).device)
            total += int(_row_hash(piece, numbers, weighted=True).sum())
            first += len(piece)
        return total % 2**64

    def hashes(self, seed: int) -> NDArray[np.uint64]:
        """Return the hash of every row."""
        hashes = [_row_hash(piece, seed).cpu().numpy() for piece in _pieces(self.rows)]
        return np.concatenate(hashes).view(np.uint64)

    def samples(
        self,
        compute: Compute,
        layout: TensorLayout,
        part: Part | None = None,
        view: View | None = None,
    ) -> list[Samples]:
        """Return the samples of each target."""
        return samples_through(compute, view or self.view, self._part(part), layout)

    def taken(self, most: int, seed: int) -> ArrayData:
        """Return rows in host memory, `most` or as many as a search on a device can do with."""
        n_inputs = int(self.rows.X.shape[1])
        rows = self._part(some(self.n_rows, max(most, _SEARCHED // n_inputs), seed))
        rows = rows.map(lambda array: array.to("cpu", torch.float64).numpy())
        return ArrayData(rows.X, rows.y, rows.weight, self.view, self.single_target)

    def _part(self, part: Part | None) -> Rows:
        if part is None:
            return self.rows
        return self.rows.take(torch.cat([_mask(piece, part) for piece in _pieces(self.rows)]))

    def close(self) -> None:
        """Hold nothing outside this process."""


def checked_inputs(X: Any) -> Tensor:
    """Return a tensor of inputs; raise unless it has two dimensions and finite numbers."""
    if X.layout != torch.strided:
        raise ValueError(f"`X` must be a dense tensor, got {X.layout}. Pass X.to_dense().")
    require_two_dimensions(X)
    if not len(X) or not X.shape[1]:
        raise ValueError(
            f"`X` must have at least one row and one input, got the shape {tuple(X.shape)}."
        )
    return _finite(_real(X, "X"), "X")


def checked_rows(X: Any, y: Any, sample_weight: Any) -> tuple[Rows, bool]:
    """Return the rows of positive weight, targets as columns, and whether `y` is a vector."""
    X = checked_inputs(X)
    if y is None:
        raise ValueError("`y` must be given with `X`, got None. Pass the targets of the rows.")
    y = _beside(X, y, "y")
    if y.ndim not in (1, 2) or len(y) != len(X) or not y.numel():
        raise ValueError(
            f"`y` must have one row for each of the {len(X)} rows of `X`, got the shape "
            f"{tuple(y.shape)}. Pass a vector, or a column for each target."
        )
    single = y.ndim == 1
    arrays: list[Any] = [X, y.reshape(len(X), -1)]
    if sample_weight is None:
        return Rows(*arrays), single
    weight = _beside(X, sample_weight, "sample_weight")
    if weight.ndim == 0:
        weight = weight.repeat(len(X))
    if weight.shape != (len(X),):
        raise ValueError(
            f"`sample_weight` must have one entry for each of the {len(X)} rows of `X`, got the "
            f"shape {tuple(weight.shape)}."
        )
    if not (weight >= 0).all() or not weight.any():
        raise ValueError(
            "`sample_weight` must be non-negative and have at least one positive entry, got a "
            f"least one of {weight.min():g} and a greatest of {weight.max():g}. Pass positive "
            "weights for the rows to learn from."
        )
    arrays.append(weight)
    rows = Rows(*arrays)
    return (rows if weight.all() else rows.take(weight > 0)), single


def _beside(X: Tensor, values: Any, name: str) -> Tensor:
    """Return targets or weights, a tensor or not, as finite numbers on the device of `X`."""
    if not isinstance(values, Tensor):
        values = as_tensor(
            check_array(values, dtype=np.float64, ensure_2d=False, input_name=name)
            if np.ndim(values)
            else np.float64(values)
        )
    return _finite(_real(values, name).to(X.device), name)


def _real(array: Tensor, name: str) -> Tensor:
    """Return single or double precision, whichever holds the numbers, without their gradients."""
    array = array.detach()
    if array.is_complex():
        raise ValueError(f"`{name}` must hold real numbers, got {array.dtype}. Pass its real part.")
    if array.dtype in (torch.float32, torch.float64):
        return array
    return array.to(torch.float32 if array.is_floating_point() else torch.float64)


def _finite(array: Tensor, name: str) -> Tensor:
    """Return numbers as they are; raise where one is not finite."""
    for part in _slices(array):
        bad = ~torch.isfinite(array[part])
        if bad.any():
            row = part.start + int(bad.reshape(len(bad), -1).any(1).nonzero()[0])
            raise ValueError(
                f"`{name}` must be finite, but row {row} holds NaN or infinity. Leave such rows "
                "out, or fill them in."
            )
    return array


def _tensor(array: Any) -> Tensor:
    """Return an array of rows as what it is here."""
    assert isinstance(array, Tensor)
    return array


def _slices(array: Any) -> Iterator[slice]:
    """Yield slices of rows that hold about as many numbers each, however many columns."""
    size = max(1, _PIECE // max(1, array[:1].numel()))
    for first in range(0, len(array), size):
        yield slice(first, first + size)


def _pieces(rows: Rows) -> Iterator[Rows]:
    return (rows.take(part) for part in _slices(rows.X))


def _statistics(rows: Rows, device: str | None) -> Statistics:
    """Sum up some rows; their content is left out."""
    X, y = (_tensor(array).to(device, torch.float64) for array in (rows.X, rows.y))
    weight = torch.ones(len(y), dtype=torch.float64, device=y.device)
    if rows.weight is not None:
        weight = _tensor(rows.weight).to(y)
    size = y.abs().amax(0)
    size = torch.where(size > 0, size, 1.0)
    unit = y / size  # squares of values near 1e300 stay finite
    mean = weight @ unit / weight.sum()
    deviation = (weight @ (unit - mean) ** 2 / weight.sum()).sqrt()

    def host(values: Tensor) -> NDArray[np.float64]:
        return np.asarray(values.to("cpu", torch.float64).numpy())

    targets = Moments(
        float(weight.sum()), host(mean * size), host(deviation * size), host(y.amin(0)),
        host(y.amax(0)),
    )  # fmt: skip
    low, high = torch.aminmax(X, dim=0)
    return Statistics(len(X), host(low), host(high), targets, content=0)


def _row_hash(rows: Rows, seed: int | Tensor, *, weighted: bool = False) -> Tensor:
    """Return what `holdout.row_hash` does; the bits are those of a signed number here."""
    arrays = [_tensor(rows.X), _tensor(rows.y)]
    if weighted and rows.weight is not None:
        arrays.append(_tensor(rows.weight)[:, None])
    state = torch.zeros(len(rows), dtype=torch.int64, device=arrays[0].device) + seed
    for column in (column for array in arrays for column in array.T):
        state ^= (column.to(torch.float64) + 0.0).view(torch.int64)
        state += _signed(int(GOLDEN))
        for shift, factor in MIXES:
            # A shift of a signed number brings its sign along.
            state ^= (state >> int(shift)) & (2 ** (64 - int(shift)) - 1)
            state *= _signed(int(factor))
    return state


def _mask(rows: Rows, part: Part) -> Tensor:
    """Return which of these rows belong to a part."""
    # Without the sign bit, order is that of unsigned numbers.
    hashes = _row_hash(rows, part.seed) ^ _signed(2**63)
    chosen = hashes <= _signed(part.upto ^ 2**63)
    if part.above >= 0:
        chosen &= hashes > _signed(part.above ^ 2**63)
    return chosen


def _signed(bits: int) -> int:
    """Return the signed number with these 64 bits."""
    return bits - 2**64 if bits >= 2**63 else bits
