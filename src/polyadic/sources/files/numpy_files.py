"""Files of NumPy: a matrix in npy, or inputs, target and their names in npz."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.sources.files.row_files import NUMBER, Block, RowFile


class NpyRows(RowFile):
    """A matrix in an npy file; its columns are x0, x1 and so on, and the last is the target."""

    def _matrix(self) -> NDArray[Any]:
        # Mapped anew each time: pages that were touched count as memory of the process.
        return _check_matrix(np.load(self.path, mmap_mode="r", allow_pickle=False))

    def _columns(self) -> Iterator[tuple[str, str]]:
        self._names = number_names(self._matrix().shape[1])
        self.target = self._names[-1] if self._names else None
        return ((name, NUMBER) for name in self._names)

    def _blocks(self, columns: Sequence[str], n_rows: int) -> Generator[Block]:
        index = [self._names.index(name) for name in columns]
        first, count = 0, 1
        while first < count:
            with self._explain_errors():
                matrix = self._matrix()
                count = len(matrix)
                part = matrix[first : first + n_rows]
                values = np.empty((len(index), len(part)))
                for row, column in zip(values, index, strict=True):
                    row[:] = part[:, column]
                del matrix, part
            if values.size:
                yield Block(values, first)
            first += n_rows

    def _batches(self, columns: Sequence[str], n_rows: int) -> Generator[tuple[int | None, Any]]:
        import pyarrow

        for block in self._blocks(columns, n_rows):
            yield None, pyarrow.record_batch(list(block.values), names=list(columns))


class NpzRows(NpyRows):
    """Arrays `X` and `y` in an npz file, and `columns` and `target` that name them."""

    def _columns(self) -> Iterator[tuple[str, str]]:
        with np.load(self.path, allow_pickle=False) as stored:
            if "X" not in stored.files or stored["X"].ndim != 2:
                raise ValueError("it must hold a matrix `X`, and `y` for the target.")
            n_inputs = stored["X"].shape[1]
            given = stored["columns"] if "columns" in stored.files else number_names(n_inputs)
            self._names = [str(name) for name in given]
            if len(self._names) != n_inputs:
                raise ValueError(f"`columns` has {len(self._names)} names for {n_inputs} inputs.")
            if "y" in stored.files:
                self.target = str(stored["target"]) if "target" in stored.files else "target"
                self._names.append(self.target)
        self._matrix()
        return ((name, NUMBER) for name in self._names)

    def _matrix(self) -> NDArray[Any]:
        with np.load(self.path, allow_pickle=False) as stored:
            X = _check_matrix(stored["X"])
            if "y" not in stored.files:
                return X
            y = stored["y"]
        if y.shape != (len(X),):
            raise ValueError(f"it must have one value of `y` for each of its {len(X)} rows.")
        return np.column_stack([X, y])


def number_names(count: int) -> list[str]:
    """Return the names of columns that have none."""
    return [f"x{index}" for index in range(count)]


def _check_matrix(matrix: NDArray[Any]) -> NDArray[Any]:
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise ValueError(
            f"it must hold a matrix of numbers, got shape {matrix.shape} and type {matrix.dtype}."
        )
    return np.asarray(matrix)
