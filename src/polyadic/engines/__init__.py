"""Engines: how ONE chunk of rows is computed.

    rows (X, y, weight) ── start ──► state ── normal_equations ──► sums ── on_host ──► driver
                                       ▲                                                 │
                                       └────────────────── commit ◄───────── new core ───┘

An engine knows arrays and the layout of the tensor.  It does not know penalties,
tolerances, estimators, or where the other rows live.  Its states carry the verbs; a state
can always be rebuilt by `start`, and `restart` does so in memory that is there already.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyadic.features import TensorLayout
from polyadic.model.conjugate import CoreSketch, GramProduct
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.model.posterior import CorePosterior
from polyadic.rows.rows import Rows

T = TypeVar("T", covariant=True)


class Sums(Protocol[T]):
    """Sums over some rows, wherever they are: they can be added, and brought to the host."""

    def __add__(self, other: Self, /) -> Self: ...

    def on_host(self) -> T:
        """Return the sums as the driver takes them."""


class State(Protocol):
    """A chunk of rows, the cores, and what the engine keeps from step to step."""

    @property
    def total_weight(self) -> float:
        """Sum of the rows' weights."""

    def restart(self, cores: Cores) -> State:
        """Return the state for other cores of the same sizes; this one may be used up."""

    def normal_equations(
        self, core: int, map_weights: NDArray[np.float64]
    ) -> Sums[NormalEquations]:
        """Return the sums of B = [Re A, Im A] for one core; maps of weight 0 are skipped."""

    def core_sketch(self, core: int) -> Sums[CoreSketch]:
        """Return the sums that conjugate gradients start from; for layouts of tables alone."""

    def gram_product(self, core: int, value: NDArray[Any]) -> Sums[GramProduct]:
        """Return AᵀA v for v of the shape of one core; for layouts of tables alone."""

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Replace one core."""

    def mixing_equations(self) -> Sums[NormalEquations]:
        """Return the sums of F, the real responses of every map."""


class Engine(Protocol):
    """Makes states, predicts, and says how much memory both take."""

    @property
    def keep(self) -> bool:
        """Whether states keep products from step to step."""

    @property
    def takes_tensors(self) -> bool:
        """Whether rows are brought to a device of the engine's own, as torch tensors."""

    def keeping(self, keep: bool) -> Engine:
        """Return this engine with or without products that stay in memory."""

    def start(self, rows: Rows, cores: Cores, layout: TensorLayout) -> State:
        """Return the state of a chunk for these cores."""

    def predict(
        self, X: Any, cores: Cores, map_weights: NDArray[np.float64], layout: TensorLayout
    ) -> Any:
        """Return the real response Re Σₚ λₚ φₚ(x)ᵀw of each row.

        An array gives an array; a tensor, where the engine takes them, one on its device.
        """

    def leverage(
        self,
        X: Any,
        cores: Cores,
        map_weights: NDArray[np.float64],
        layout: TensorLayout,
        posterior: CorePosterior,
    ) -> Any:
        """Return what the posterior of a core leaves open of each row, in units of the noise.

        It is computed in double precision, whatever that of the engine is: where a core is little
        known, a root of its covariance is large.
        """

    def state_bytes(self, n_rows: int, layout: TensorLayout, rank: int) -> float:
        """Return the memory that the state of `n_rows` rows takes between steps."""

    def scratch_bytes(self, n_rows: int, layout: TensorLayout, rank: int) -> float:
        """Return the memory that a step takes beside the state, `n_rows` rows at a time."""
