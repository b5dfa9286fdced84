"""The state of layouts of tables whose products are formed and exchanged by Triton kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polyadic.engines.torch import triton_table_kernels as kernels
from polyadic.engines.torch.tables import TINY, TableState

# Numbers that one program computes, and the most ranks among them.
_NUMBERS, _RANKS = 2048, 128


class FusedTableState(TableState):
    """What `TableState` is, with one launch for what takes it ten."""

    def _form(self, positions: Tensor, without: int | None = None) -> Tensor:
        """Return the product of the factors of all cores but one, at some positions."""
        shape = (positions.shape[1], self.rank)
        product = torch.empty(shape, dtype=self.dtype, device=self._device)
        skipped = -1 if without is None else without
        self._launch(kernels.form, product, positions, n_cores=len(positions), without=skipped)
        return product

    def _exchange(self, Z: Tensor, piece: slice, old: int, new: int) -> None:
        """Multiply one core into a piece of the product and divide another out, in place."""
        positions = self._positions[:, piece]
        least = TINY[self.dtype] * self._tables[new].abs().amax(0)
        lost = torch.zeros(len(Z), dtype=torch.int8, device=self._device)
        switched = {"least_ptr": least, "lost_ptr": lost, "old": old, "new": new}
        self._launch(kernels.exchange, Z, positions, **switched)
        rows = lost.nonzero()[:, 0]
        if len(rows):
            Z[rows] = self._form(positions[:, rows], without=new)

    def _launch(self, kernel: Any, Z: Tensor, positions: Tensor, **given: Any) -> None:
        """Run a kernel over the rows and ranks of a product."""
        # A row of the product lies together, so that neighbours in a program are its ranks.
        ranks = min(_RANKS, 1 << (self.rank - 1).bit_length())
        rows = _NUMBERS // ranks
        grid = (-(-len(Z) // rows), -(-self.rank // ranks))
        kernel[grid](
            z_ptr=Z, table_ptr=self._tables, position_ptr=positions, n_rows=len(Z),
            stride=positions.stride(0), KNOTS=self._tables.shape[1], RANK=self.rank,
            RANKS=ranks, BLOCK=rows, **given,
        )  # fmt: skip
