"""Rows of files as the inputs of a model: record batches by a schema, and what a pass counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyadic.sources.files.row_files import DATE, NUMBER, TEXT, RowFile, number_rows
from polyadic.sources.schema import Column, Encoded, Schema, Surprises


class Tally:
    """What a pass over rows counts."""

    def __init__(self, n_columns: int) -> None:
        self.dropped = 0
        self.surprises = Surprises((0,) * n_columns, (0,) * n_columns)

    def add_gaps(self, schema: Schema, values: NDArray[np.float64]) -> None:
        """Count the gaps of numbers that had none in the fit."""
        inputs = len(schema.columns)
        found = np.isnan(values[:inputs]).sum(axis=1).tolist()
        pairs = zip(schema.columns, found, strict=True)
        gaps = tuple(0 if column.n_gaps else count for column, count in pairs)
        self.surprises += Surprises((0,) * inputs, gaps)


def gaps_of(file: RowFile, batch: Any, names: Sequence[str]) -> NDArray[np.float64]:
    """Return columns as rows of a matrix: numbers as they are, of all else only where gaps are."""
    values = np.zeros((len(names), batch.num_rows))
    for row, name in zip(values, names, strict=True):
        if file.types[name] == NUMBER:
            row[:] = number_rows(batch, [name])[0]
        else:
            row[np.asarray(batch.column(name).is_null())] = np.nan
    return values


def encode_batch(file: RowFile, batch: Any, names: Sequence[str], schema: Schema) -> Encoded:
    """Return the inputs that rows become; an error names the file."""
    import pyarrow

    try:
        return schema.encode(pyarrow.Table.from_batches([batch]).select(list(names)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file.path}: {error}") from error


def kinds_of(schema: Schema, names: Sequence[str]) -> dict[str, str]:
    """Return what the columns of a fit are in a file that names them so, if they are anything."""
    pairs = zip(names, schema.columns, strict=True)
    return {name: _kind_of(column) for name, column in pairs if column.kind != "gaps"}


def _kind_of(column: Column) -> str:
    """Return what a column of the fit is in a file."""
    if column.kind in ("category", "order"):
        return TEXT if column.has_text else NUMBER
    return DATE if column.kind == "date" else NUMBER
