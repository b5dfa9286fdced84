"""Problems that every engine and every kind of samples must solve alike."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polyadic.features import (
    DampedFourierFeatures,
    FeatureMap,
    FourierFeatures,
    GaussianFeatures,
    GeometricFeatures,
    MercerFeatures,
    Plain,
    PurePowerFeatures,
    Quantized,
    Table,
    Tabled,
    TensorLayout,
    Unused,
)
from polyadic.model import cpd
from polyadic.rows.rows import Rows
from tests.oracle import Cosines


class Spiral(GeometricFeatures):
    """A map of a user: geometric and complex, but none that an engine knows."""

    def ratio(self, x):
        return (0.5 + 0.4 * x) * np.exp(1j * x)


FOURIER = (FourierFeatures(2.0), FourierFeatures(10.0), FourierFeatures(128.0))
DAMPED = (DampedFourierFeatures(2.0, 0.7), DampedFourierFeatures(3.0, 0.5))
MERCER, KERNELS = (MercerFeatures(),), ("matern12", "rbf", "", "matern32")
REAL = (GaussianFeatures(0.3, 1.0), PurePowerFeatures(), Cosines())

LEVELS, GAPS, FILLED = "levels", "gaps", "filled"


@dataclass
class Problem:
    """Rows, a layout, cores before and after a sweep, and the weights of the maps."""

    name: str
    maps: tuple[FeatureMap, ...]
    quantized: bool | tuple[bool, ...] = True
    n_basis: tuple[int, ...] = (4, 8, 2)
    n_rows: int = 150
    rank: int = 5
    weighted: bool = False
    zero_weights: tuple[int, ...] = ()
    zero: str = ""
    tables: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float64", "float32")
    seed: int = 0
    layout: TensorLayout = field(init=False)

    def __post_init__(self):
        rng = np.random.RandomState(self.seed)
        self.layout = TensorLayout(self.maps, tuple(self._inputs()))
        X = rng.uniform(size=(self.n_rows, len(self.n_basis)))
        if self.tables:  # some rows lie beyond the training range
            X = 1.4 * X - 0.2
        for d, table in enumerate(self.tables):
            if table == LEVELS:  # one level more than there are, and gaps
                X[:, d] = rng.randint(0, 6, self.n_rows)
            if table == FILLED:  # 8 ranges above what it is
                X[rng.uniform(size=self.n_rows) < 0.3, d] += 8.0
            if table in (LEVELS, GAPS):
                X[rng.uniform(size=self.n_rows) < 0.2, d] = np.nan
        if self.zero == "constant":
            X[:, 1] = 0.0
        weight = rng.uniform(0.1, 3.0, size=self.n_rows) if self.weighted else None
        self.rows = Rows(X, rng.standard_normal(self.n_rows), weight)
        self.weights = rng.standard_normal(len(self.maps))
        self.weights[list(self.zero_weights)] = 0.0
        self.cores, self.later = self._draw(rng), self._draw(rng)
        self._put_zeros()

    def _inputs(self):
        """Return the inputs: tables of these kernels, or what they are quantized."""
        if self.tables:
            for kernel, n_basis in zip(self.tables, self.n_basis, strict=True):
                yield Tabled(_table(kernel, n_basis)) if kernel else Unused()
            return
        kinds = np.broadcast_to(self.quantized, len(self.n_basis))
        for n_basis, quantized in zip(self.n_basis, kinds, strict=True):
            yield Quantized(n_basis) if quantized else Plain(n_basis)

    def _draw(self, rng):
        drawn = cpd.initial_cores(self.layout.core_sizes, self.rank, self.layout.is_complex, rng)
        if not self.layout.is_complex:
            return drawn
        return [core + 0.5j * rng.standard_normal(core.shape) for core in drawn]

    def _put_zeros(self):
        """Make factors vanish: a column, a whole core, a cancellation, or nearly one."""
        for cores in (self.cores, self.later):
            if self.zero == "column":
                cores[1][:, 2] = 0.0
            if self.zero == "columns":
                cores[0][:, 2] = cores[1][:, 2] = cores[2][:, 3] = 0.0
            if self.zero == "core":
                cores[1][:] = 0.0
            if self.zero == "cancelling":
                # At x = 0 every geometric feature of a one-sided map is real: 1 − ρ/ρ = 0.
                self.rows.X[::3] = 0.0
                cores[1][:, 0] = 0.0
                cores[1][0, 0], cores[1][1, 0] = 1.0, -1 / 0.7 ** (2 if self.quantized else 1)
            if self.zero == "at a knot":
                # Half of the rows are at one value, where the factor of the term vanishes.
                self.rows.X[::2, 0] = 0.5
                psi = self.layout.tables[0].features(np.array([0.5]))[0]
                cores[0][:, 1] -= psi * (psi @ cores[0][:, 1]) / (psi @ psi)
            if self.zero == "nearly":
                # No nearer: such a factor is itself known to few digits, in any engine.
                cores[1][:] = 1.0 + 1e-6 * cores[1]
                cores[1][1] *= -1.0
                self.rows.X[:] *= 1e-6


def _table(kernel, n_basis):
    """Return the table of a number, of one whose gaps are in the middle, or of levels."""
    if kernel == LEVELS:
        return Table.of_levels(0.8, np.arange(6.0, 0.0, -1.0), has_gaps=True, n_basis=n_basis)
    if kernel == GAPS:
        return Table.mercer("rbf", 0.3, n_basis=n_basis, middle=0.4)
    if kernel == FILLED:
        chances = np.random.RandomState(3).dirichlet(np.full(193, 0.1), size=193)
        return Table.mercer("matern32", 0.3, n_basis=n_basis, chances=chances)
    return Table.mercer(kernel, 0.3, n_basis=n_basis)


PROBLEMS = [
    Problem("fourier", FOURIER),
    Problem("fourier, weighted", FOURIER, weighted=True),
    Problem("fourier, zero weights", FOURIER, zero_weights=(1,)),
    Problem("fourier, one map", FOURIER[:1], n_basis=(2, 2)),
    Problem("fourier, many cores", FOURIER, n_basis=(64, 4, 16, 2, 8), rank=3),
    Problem("fourier, few rows", FOURIER, n_rows=1),
    Problem("damped", DAMPED, weighted=True),
    Problem("damped and fourier", DAMPED + FOURIER, zero_weights=(0, 3)),
    Problem("zero column", FOURIER, zero="column"),
    Problem("zero columns", DAMPED, zero="columns", weighted=True),
    Problem("zero core", FOURIER, zero="core"),
    Problem("constant input", FOURIER + DAMPED, zero="constant"),
    Problem("cancelling factor", DAMPED, zero="cancelling"),
    Problem("nearly cancelling factor", FOURIER, zero="nearly", dtypes=("float64",)),
    Problem("user's geometric map", (Spiral(),), weighted=True),
    Problem("user's and fourier", (Spiral(), *FOURIER), zero_weights=(1,)),
    Problem("powers", (PurePowerFeatures(),)),
    Problem("powers, zero column", (PurePowerFeatures(),), zero="column", weighted=True),
    Problem("powers and fourier", (PurePowerFeatures(), *FOURIER), zero="core"),
    Problem("plain fourier", FOURIER, quantized=False, n_basis=(4, 7, 2)),
    Problem("plain, cancelling", DAMPED, quantized=False, zero="cancelling"),
    Problem("plain, real", REAL, quantized=False, n_basis=(3, 5, 4), weighted=True),
    Problem("plain, real, zero", REAL, quantized=False, n_basis=(3, 5, 4), zero="columns"),
    Problem("plain, all kinds", REAL + FOURIER + DAMPED, quantized=False, zero_weights=(2, 4)),
    Problem("mixed", FOURIER, quantized=(True, False, True), n_basis=(4, 5, 2), weighted=True),
    Problem("mixed, damped", DAMPED + FOURIER, quantized=(False, True), n_basis=(3, 8)),
    Problem("mixed, zeros", DAMPED, quantized=(False, True, False), zero="columns"),
    Problem("mixed, own maps", (Spiral(), *FOURIER), quantized=(False, True, True), zero="core"),
    Problem("mixed, real", (PurePowerFeatures(),), quantized=(True, False), n_basis=(8, 3)),
    Problem("tables", MERCER, tables=KERNELS, n_basis=(6, 4, 1, 9)),
    Problem("tables, weighted", MERCER, tables=KERNELS, n_basis=(6, 4, 1, 9), weighted=True),
    Problem(
        "tables, levels and gaps",
        MERCER,
        tables=(LEVELS, "matern32", GAPS),
        n_basis=(4, 5, 6),
        weighted=True,
    ),
    Problem("tables, filled", MERCER, tables=(FILLED, "rbf", FILLED), n_basis=(4, 5, 6)),
    Problem("tables, one input", MERCER, tables=("rbf",), n_basis=(5,)),
    Problem("tables, few rows", MERCER, tables=KERNELS, n_basis=(6, 4, 1, 9), n_rows=1),
    Problem("tables, zeros", MERCER, tables=KERNELS, n_basis=(6, 4, 1, 9), zero="columns"),
    Problem("tables, zero core", MERCER, tables=KERNELS, n_basis=(6, 4, 1, 9), zero="core"),
    Problem(
        "tables, at a knot",
        MERCER,
        tables=KERNELS,
        n_basis=(6, 4, 1, 9),
        zero="at a knot",
        weighted=True,
    ),
]
