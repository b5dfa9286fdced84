"""Section 2: the kernel machine with one map against tnkm 0.1 (JAX), each in a process.

Both learn the same model from random cores: quantized complex Fourier features of period
2, the paper's rank and number of basis functions, double precision, ten sweeps.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

from benchmarks.common import child, child_arguments, split, timed

EPOCHS = 10
RANKS = {"airfoil": (4, 51), "wine": (16, 25)}


def run(folder: str | None, repeats: int) -> list[dict[str, Any]]:
    """Return one record for each data set, one thread."""
    records = []
    for name in RANKS:
        arguments = {"name": name, "folder": folder, "repeats": repeats}
        records.append(
            {
                "set": name,
                "polyadic": child(__name__, {**arguments, "who": "polyadic"}, cpus=1),
                "tnkm": child(__name__, {**arguments, "who": "tnkm"}, cpus=1),
            }
        )
    return records


def main() -> None:
    arguments = child_arguments()
    fit = {"polyadic": fit_polyadic, "tnkm": fit_tnkm}[arguments["who"]]
    X, _, y, _ = split(arguments["name"], arguments["folder"])
    size = RANKS[arguments["name"]]
    first, _ = timed(lambda: fit(X, y, *size))
    seconds = statistics.median(
        timed(lambda: fit(X, y, *size))[0] for _ in range(arguments["repeats"])
    )
    print(json.dumps({"seconds": seconds, "compile_s": first - seconds}))


def fit_polyadic(X: Any, y: Any, n_basis: int, rank: int) -> None:
    from polyadic import KernelMachineRegressor
    from polyadic.features import FourierFeatures

    KernelMachineRegressor(
        FourierFeatures(2.0), n_basis=n_basis, rank=rank, alpha=0.01, objective="complex",
        max_iter=EPOCHS, tol=0, n_jobs=1, random_state=0,
    ).fit(X, y)  # fmt: skip


def fit_tnkm(X: Any, y: Any, n_basis: int, rank: int) -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from tnkm.features import ProductFeatures, QuantFourierFeature
    from tnkm.models import CPKM
    from tnkm.optim import train_als

    bits = range(n_basis.bit_length() - 1)
    features = ProductFeatures(
        [QuantFourierFeature(b, n_basis, 2.0, k_col=d) for d in range(X.shape[1]) for b in bits]
    )
    model = CPKM(features, rank, seed=0, dtype=jnp.complex128)
    train_als(model, jnp.asarray(X), jnp.asarray(y), EPOCHS, gamma_w=0.01, reg_mode="tensor")
    jax.block_until_ready(model.params)


if __name__ == "__main__":
    main()
