"""Fit rows on disk that need not fit in memory, and lose nothing if the fit is interrupted.

pip install 'polyadic[app]'
python examples/larger_than_memory.py
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import polyadic


def write_part(path: Path, seed: int) -> None:
    """Write a file of rows, as a nightly job might."""
    rng = np.random.RandomState(seed)
    load, wind, heat = rng.uniform(size=(3, 20_000))
    demand = np.sin(6 * load) * wind + heat**2 + 0.05 * rng.standard_normal(20_000)
    parquet.write_table(
        pa.table({"load": load, "wind": wind, "heat": heat, "demand": demand}), path
    )


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    for seed in range(4):
        write_part(folder / f"{seed}.parquet", seed)
    new = polyadic.open_rows(folder / "3.parquet", target="demand")
    rows = polyadic.open_rows([folder / f"{seed}.parquet" for seed in range(3)], target="demand")

    model = polyadic.FeatureLearningRegressor(
        [polyadic.features.DampedFourierFeatures(period, 0.7) for period in (2.0, 4.0)],
        n_basis=8,
        rank=8,
        memory_limit="1GB",  # of the whole process
        checkpoint=folder / "fit.checkpoint",  # the same call goes on from here
        random_state=0,
    )
    model.fit(rows)
    print(f"{model.n_samples_fit_} rows fitted, {model.n_samples_dropped_} left out")
    print(f"R² on new rows: {model.score(new):.3f}")
