"""Measure the GPU engine: one command makes the tables of docs/gpu.md.

    python benchmarks/gpu.py [airline] [flights] [automatic] [classes] [billion] [small] ...

Without arguments everything runs, in some minutes; a part that is named replaces what was measured
of it before.  `flights` and `automatic` need flights3m.npz and nycflights.npz in the folder that
the environment variable POLYADIC_DATA names.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

import polyadic
from polyadic import (
    FeatureLearningClassifier,
    FeatureLearningRegressor,
    KernelMachineRegressor,
)
from polyadic.engines.torch.engine import TorchEngine
from polyadic.features import DampedFourierFeatures, TensorLayout
from polyadic.model import als, cpd
from polyadic.rows.inputs import Inputs
from polyadic.rows.rows import Rows
from polyadic.rows.scaling import InputScaling
from polyadic.samples.device import DeviceSamples

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import report

AIRLINE_ROWS = 3_950_000
PAIRS = [(1.3, 0.6), (1.5, 0.7), (2.0, 0.6), (3.0, 0.7), (4.0, 0.8), (8.0, 0.8)]
MAPS = [DampedFourierFeatures(period, decay) for period, decay in PAIRS]
Row = tuple[str, str, str]


def synthetic(n_rows: int, n_inputs: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((n_rows, n_inputs))
    y = np.sin(4 * X[:, 0] + X[:, 1] * X[:, 2]) + X[:, 3] * np.cos(3 * X[:, 4])
    return X, y + 0.3 * rng.standard_normal(n_rows)


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the answer, the seconds it took and the peak of device memory in GiB."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    answer = function()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return answer, seconds, torch.cuda.max_memory_allocated() / 2**30


def airline() -> Iterator[Row]:
    """Fit the paper's largest shape: 3.95 million rows, 8 inputs, rank 20, 6 maps, 10 epochs."""
    X, y = synthetic(AIRLINE_ROWS)
    for dtype, goal in (("float64", "5 s, 18 GiB"), ("float32", "3.5 s, 10 GiB")):

        def fit(n_rows: int, epochs: int, dtype: str = dtype) -> Any:
            model = FeatureLearningRegressor(
                MAPS, n_basis=64, rank=20, alpha=0.1, beta=0.1, mixing="l2", max_iter=epochs,
                tol=0, n_estimators=1, early_stopping=False, device="cuda", dtype=dtype,
                random_state=0,
            )  # fmt: skip
            # With l2 mixing no map drops out.
            return model.fit(X[:n_rows], y[:n_rows])

        fit(100_000, 1)  # kernels are compiled once and kept on disk
        _, seconds, peak = timed(lambda: fit(AIRLINE_ROWS, 10))
        yield f"Airline shape, {dtype}", f"{seconds:.2f} s, {peak:.1f} GiB", goal
        yield f"Airline core step, {dtype}", *core_step(X, y, dtype)


def core_step(X: np.ndarray, y: np.ndarray, dtype: str) -> tuple[str, str]:
    """Return milliseconds of one core step, and those that its bytes take at copying speed.

    A step reads the products and writes and reads its block; every sixth one, which comes
    to a new input, also reads and writes the products.
    """
    samples, model = airline_samples(X, y, dtype)
    torch.cuda.synchronize()
    start = time.perf_counter()
    steps = 24
    for core in range(1, 1 + steps):
        samples.normal_equations(core, model.map_weights)
    seconds = (time.perf_counter() - start) / steps
    item = 8 if dtype == "float64" else 4
    products = 2 * len(MAPS) * 20 * item * AIRLINE_ROWS
    block = 80 * 8 * AIRLINE_ROWS
    floor = (products + 2 * block + 2 * products / 6) / copy_rate()
    return f"{1e3 * seconds:.2f} ms, {seconds / floor:.2f}× floor", f"2× {1e3 * floor:.2f} ms"


def airline_samples(X: Any, y: Any, dtype: str) -> tuple[DeviceSamples, als.Model]:
    layout = TensorLayout.of(tuple(MAPS), (64,) * 8, quantized=True)
    cores = cpd.initial_cores(layout.core_sizes, 20, True, np.random.RandomState(0))
    samples = DeviceSamples(TorchEngine("cuda", dtype), Rows(X, y), layout)
    model = als.Model((cores,), np.full(len(MAPS), 1 / len(MAPS)))
    samples.start(cores)
    samples.normal_equations(0, model.map_weights)
    return samples, model


def copy_rate() -> float:
    """Return the bytes a second that a copy on the device reads and writes."""
    source = torch.ones(2**28, dtype=torch.float64, device="cuda")
    target = torch.empty_like(source)
    target.copy_(source)
    _, seconds, _ = timed(lambda: [target.copy_(source) for _ in range(10)])
    return 20 * source.nbytes / seconds


def flights() -> Iterator[Row]:
    """Flights of the US, 2 of 3 million rows, with maps that are named."""
    folder = Path(os.environ.get("POLYADIC_DATA", "../shared/data"))
    if not (folder / "flights3m.npz").exists():
        yield "flights3m", "skipped: set POLYADIC_DATA", ""
        return
    data = np.load(folder / "flights3m.npz")
    X, X_test, y, y_test = train_test_split(data["X"], data["y"], test_size=1 / 3, random_state=1)

    def fit(**options: Any) -> Any:
        options = {"n_basis": 32, "alpha": 1.0, "tol": 0, "random_state": 0, **options}
        return KernelMachineRegressor(device="cuda", **options).fit(X, y)

    for dtype in ("float64", "float32"):
        options = {"feature_map": DampedFourierFeatures(2.0, 0.9), "rank": 100, "dtype": dtype}
        fit(**options, max_iter=1)
        model, seconds, peak = timed(lambda options=options: fit(**options, max_iter=8))
        error = np.mean((model.predict(X_test) - y_test) ** 2) / np.var(y, ddof=1)
        result = f"{seconds:.2f} s, MSE {error:.4f}, {peak:.1f} GiB"
        yield f"flights3m, rank 100, 8 epochs, {dtype}", result, "10 s, MSE 0.80"
    best_of_a_minute(X[:100_000], y[:100_000], epochs=1)
    predict, seconds, _ = timed(lambda: best_of_a_minute(X, y))
    error = np.mean((predict(X_test) - y_test) ** 2) / np.var(y, ddof=1)
    yield "flights3m, 4 × rank 128, 12 epochs, float32", f"{seconds:.1f} s, MSE {error:.4f}", "60 s"


def best_of_a_minute(
    X: np.ndarray, y: np.ndarray, epochs: int = 12
) -> Callable[[np.ndarray], np.ndarray]:
    """Return what predicts: the sum of four fits, each to what those before it left over.

    Airports are crowded in some places, and so are departures: straight inputs waste basis
    functions on the empty ones.  So they are bent towards their ranks, each time by another
    share.  What is left over is ever more noise, hence the growing regularisation.
    """
    names = [str(column) for column in range(X.shape[1])]
    rows, left = (torch.as_tensor(array, device="cuda") for array in (X, y))
    stages = []
    for blend, alpha in ((0.5, 60.0), (0.65, 100.0), (0.35, 150.0), (0.5, 200.0)):
        scaling = InputScaling.fit(X, Inputs.of_numbers(names), blend=blend, max_knots=512)
        bent = scaling.apply(rows)
        stage = KernelMachineRegressor(
            DampedFourierFeatures(2.0, 0.9), n_basis=32, rank=128, alpha=alpha, max_iter=epochs,
            tol=0, device="cuda", dtype="float32", random_state=len(stages),
        ).fit(bent, left)  # fmt: skip
        stages.append((scaling, stage))
        left = left - stage.predict(bent)

    def predict(X: np.ndarray) -> np.ndarray:
        rows = torch.as_tensor(X, device="cuda")
        return sum(stage.predict(scaling.apply(rows)).cpu().numpy() for scaling, stage in stages)

    return predict


def billion(n_rows: int = 10**9) -> Iterator[Row]:
    """One epoch on a billion rows, tensors on the device like those a simulation leaves there."""
    X = torch.empty((n_rows, 8), dtype=torch.float32, device="cuda")
    X.uniform_(generator=torch.Generator("cuda").manual_seed(0))
    y = torch.empty(n_rows, dtype=torch.float32, device="cuda")
    for first in range(0, n_rows, 10**7):
        part = X[first : first + 10**7]
        y[first : first + 10**7] = torch.sin(4 * part[:, 0]) * part[:, 1] - 0.2

    def epoch(X: Any, y: Any, **options: Any) -> float:
        machine = KernelMachineRegressor(
            DampedFourierFeatures(2.0, 0.7), rank=20, alpha=1.0, max_iter=1, tol=0,
            device="cuda", dtype="float32", random_state=0, **{"n_basis": 64, **options},
        )  # fmt: skip
        return float(machine.fit(X, y).loss_curve_[-1])

    few = X[:2_000_000], y[:2_000_000]
    kept = epoch(*few)
    places = {"rows on the device": (few, 0.7e9), "on the host": ([a.cpu() for a in few], 0.45e9)}
    for place, (rows, memory) in places.items():
        difference = abs(epoch(*rows, memory_limit=memory, chunk_size=500_000) - kept) / kept
        yield f"2e6 rows: kept products, {place}", f"loss differs by {difference:.0e}", ""
    for n_basis, goal in ((64, "120 s, 60 GB"), (32, "60 s")):
        loss, seconds, peak = timed(lambda n_basis=n_basis: epoch(X, y, n_basis=n_basis))
        result = f"{seconds:.1f} s, {peak * 2**30 / 1e9:.1f} GB, loss {loss:.5f}"
        yield f"{n_rows:.0e} rows, float32, {n_basis} basis functions", result, goal


def small() -> Iterator[Row]:
    """Many small fits beside the CPU: 8 inputs, I = 16, rank 10, 5 epochs."""
    X, y = synthetic(1000)
    seconds = {}
    for device in ("cpu", "cuda"):

        def fits(count: int, device: str = device) -> None:
            for seed in range(count):
                KernelMachineRegressor(
                    DampedFourierFeatures(2.0, 0.7), n_basis=16, rank=10, alpha=0.1, max_iter=5,
                    tol=0, device=device, random_state=seed,
                ).fit(X, y)  # fmt: skip

        fits(2)
        _, seconds[device], _ = timed(lambda fits=fits: fits(100))
    ratio = seconds["cuda"] / seconds["cpu"]
    result = f"{seconds['cuda']:.1f} s, CPU {seconds['cpu']:.1f} s: {ratio:.2f}×"
    yield "100 fits of 1000 rows", result, "3×"


def crossover() -> Iterator[Row]:
    """From which size on a GPU pays."""
    for n_rows in (1000, 10_000, 100_000, 300_000):
        X, y = synthetic(n_rows)
        seconds = {}
        for device in ("cpu", "cuda"):
            model = KernelMachineRegressor(
                DampedFourierFeatures(2.0, 0.7), n_basis=16, rank=20, alpha=0.1, max_iter=2,
                tol=0, device=device, random_state=0,
            )  # fmt: skip
            model.fit(X, y)
            _, seconds[device], _ = timed(lambda model=model: model.fit(X, y))  # noqa: B023
        result = f"{seconds['cuda']:.3f} s, CPU {seconds['cpu']:.3f} s"
        yield f"2 epochs, {n_rows} rows, rank 20", result, ""


def profile() -> Iterator[Row]:
    """Time per kernel of a sweep of the Airline shape."""
    X, y = synthetic(AIRLINE_ROWS)
    for dtype, item in (("float64", 8), ("float32", 4)):
        samples, model = airline_samples(X, y, dtype)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
            for core in range(1, 25):
                samples.normal_equations(core, model.map_weights)
            samples.mixing_equations()
            torch.cuda.synchronize()
        products = 2 * len(MAPS) * 20 * item * AIRLINE_ROWS
        moved = {
            "assemble": products + 80 * 8 * AIRLINE_ROWS,
            "switch": 2 * products,
            "rebuild": products,
        }
        events = sorted(trace.key_averages(), key=lambda event: -event.device_time_total)
        for event in events[:8]:
            each = event.device_time_total / event.count
            size = moved.get(event.key, 0)
            extra = f"{size / 1e9:.1f} GB, {size / each / 1e6:.2f} TB/s" if size else ""
            yield f"{dtype} {event.key[:40]} × {event.count}", f"{each / 1e3:.3f} ms", extra


def automatic() -> Iterator[Row]:
    """Automatic fits of the flights, two thirds of the rows drawn at random."""
    folder = Path(os.environ.get("POLYADIC_DATA", "../shared/data"))
    for name, goal in (("nycflights", "10 s, MSE 0.50"), ("flights3m", "120 s, MSE 0.63")):
        if not (folder / f"{name}.npz").exists():
            yield f"automatic fit of {name}", "skipped: set POLYADIC_DATA", goal
            continue
        data = np.load(folder / f"{name}.npz")
        order = np.random.RandomState(0).permutation(len(data["y"]))
        train, test = np.split(order, [2 * len(order) // 3])
        X, y = data["X"].astype(float), data["y"].astype(float)
        model = FeatureLearningRegressor(device="cuda", random_state=0)
        model, seconds, peak = timed(lambda: model.fit(X[train], y[train]))  # noqa: B023
        error = np.mean((model.predict(X[test]) - y[test]) ** 2) / np.var(y[train], ddof=1)
        result = f"{seconds:.1f} s, MSE {error:.4f}, {peak:.1f} GiB"
        yield f"automatic fit of {name}", result, goal


def classes(n_rows: int = 1_000_000) -> Iterator[Row]:
    """Automatic fits of two classes whose log odds are a function of ten inputs."""
    from sklearn.metrics import log_loss

    def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        X = rng.random((n, 10))
        odds = 4 * np.sin(4 * X[:, 0] + X[:, 1] * X[:, 2]) + 3 * X[:, 3] * np.cos(6 * X[:, 4]) - 2
        p = 1 / (1 + np.exp(-odds))
        return X, rng.random(n) < p, p

    FeatureLearningClassifier(device="cuda", dtype="float32", random_state=0, effort=0.2).fit(
        *rows(30_000, 1)[:2]
    )
    (X, y, _), (T, u, p) = rows(n_rows, 0), rows(200_000, 2)
    model = FeatureLearningClassifier(device="cuda", random_state=0)
    model, seconds, peak = timed(lambda: model.fit(X, y))
    reached, least = log_loss(u, model.predict_proba(T)), log_loss(u, p)
    result = f"{seconds:.1f} s, log-loss {reached:.4f}, true odds {least:.4f}, {peak:.1f} GiB"
    yield f"automatic fit of two classes, {n_rows} × 10", result, "20 s"


PARTS = {
    f.__name__: f
    for f in (airline, flights, automatic, classes, billion, small, crossover, profile)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of gpu.md")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.parts) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; known are {', '.join(PARTS)}")
    page = report.Page(
        arguments.out / "gpu.md", "On a GPU", "`python benchmarks/gpu.py`", machine(), versions()
    )
    print(page.machine, page.about)
    for name in arguments.parts or PARTS:
        rows = []
        for row in PARTS[name]():
            print("| {:48} | {:42} | {:22} |".format(*row), flush=True)
            rows.append(row)
        what = (PARTS[name].__doc__ or name).splitlines()[0]
        # After each part, so that an interruption loses one at most.
        page.keep(name, what, ["", "measured", "goal"], rows)


def machine() -> str:
    """Return what is measured on, in words."""
    return f"one {torch.cuda.get_device_name()}, {os.cpu_count()} cores of its host"


def versions() -> str:
    """Return what is measured with, and how fast the card copies."""
    return (
        f", polyadic {polyadic.__version__}, torch {torch.__version__}. A copy on the device moves "
        f"{copy_rate() / 1e12:.2f} TB/s, reads and writes counted."
    )


if __name__ == "__main__":
    main()
