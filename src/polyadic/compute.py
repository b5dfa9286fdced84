"""What a fit computes with: an engine, chunks of rows, threads, and memory.

A `ComputeSpec` holds names only, so it can be sent anywhere; opened where the rows are, it
yields a `Compute`.  Everything below the estimators asks that for samples and predictions
and need not know which engine or how many threads there are.  This module is light: numba
and torch are imported when an engine is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from polyadic.engines import Engine
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.model.cpd import Cores
from polyadic.model.posterior import CorePosterior
from polyadic.rows.arrays import array_namespace
from polyadic.rows.holdout import explain_empty_part
from polyadic.rows.rows import Rows
from polyadic.samples.memory import MemorySamples, slices
from polyadic.samples.placement import MemoryPlan, auto_chunk_size
from polyadic.samples.workers import Workers, thread_pools

PREDICTED_ROWS = 2**20  # rows that a device predicts at a time
# Products of rows and terms that are computed at a time, and the least of the rows.
_PREDICTED_PRODUCTS, _LEAST_PREDICTED = {False: 2**24, True: 2**29}, 1024
# Of targets that have all cores but one in common: what caches hold.
_TOGETHER = 2**16
# Numbers that a posterior meets at a time: what caches hold, or what keeps a device busy.
_MET, _MET_BY_A_DEVICE = 2**17, 2**23
_SOLVING_THREADS = 4


@dataclass(frozen=True)
class SearchLimits:
    """How much a search may take of what it computes with.

    Parameters
    ----------
    few_rows, held_rows : int
        Rows that are brought together to train on first, and those that choices are judged
        by, at most.
    seconds : float
        Work of the search of all members at effort 1, in seconds of one core, at most.
    rank : int
        The greatest rank to try.
    """

    few_rows: int = 400_000
    held_rows: int = 20_000
    seconds: float = 90.0
    rank: int = 256


LIMITS_OF_A_CPU = SearchLimits()
# A GPU is worth some hundred cores where rows are many.
LIMITS_OF_A_GPU = SearchLimits(few_rows=8_000_000, held_rows=160_000, seconds=4000.0, rank=512)


# An engine, and what makes samples of rows on its device if it has one.
_Made = tuple[Engine, Callable[..., Samples] | None]


def _make_compiled(spec: ComputeSpec) -> _Made:
    from polyadic.engines.compiled.engine import CompiledEngine

    return CompiledEngine(spec.dtype, hermitian=spec.objective == "complex"), None


def _make_reference(spec: ComputeSpec) -> _Made:
    from polyadic.engines.reference import ReferenceEngine

    return ReferenceEngine(spec.dtype), None


def _make_torch(spec: ComputeSpec) -> _Made:
    from polyadic.engines.torch.engine import TorchEngine
    from polyadic.samples.device import DeviceSamples

    engine = TorchEngine(spec.device or "cpu", spec.dtype)
    return engine, partial(DeviceSamples, engine)


@dataclass(frozen=True)
class EngineKind:
    """What is known of an engine before it is made.

    Parameters
    ----------
    make : callable
        Makes it for a `ComputeSpec`, and imports the libraries that it needs.
    uses_torch : bool
        Whether PyTorch computes, on any device.
    heeds_memory_limit : bool
        Whether its state can be measured and done without.
    """

    make: Callable[[ComputeSpec], _Made]
    uses_torch: bool = False
    heeds_memory_limit: bool = True


_KINDS = {
    "compiled": EngineKind(_make_compiled),
    "reference": EngineKind(_make_reference, heeds_memory_limit=False),
    "torch": EngineKind(_make_torch, uses_torch=True),
}
ENGINES = ("auto", *_KINDS)


@dataclass(frozen=True)
class ComputeSpec:
    """How to compute, by names alone: it can be pickled, compared and opened anywhere.

    Parameters
    ----------
    engine : {"auto", "compiled", "reference", "torch"}
        What computes; "auto" is PyTorch on a GPU, and compiled code on the CPU.
    device : str, optional
        None or "cpu", or the name of a torch device such as "cuda:1".
    dtype : {"float64", "float32"}
        Precision of state and assembly.
    chunk_size : int or "auto"
        Rows of a chunk.
    memory_limit : float or str, optional
        Bytes, or a string like "1.5GB".
    n_jobs : int, optional
        Number of threads, in scikit-learn's manner.
    objective : {"real", "complex"}
        What is fitted; the complex objective needs fewer sums.

    Examples
    --------
    >>> from polyadic.compute import ComputeSpec
    >>> with ComputeSpec(engine="reference", n_jobs=1).open() as compute:
    ...     compute.engine
    ReferenceEngine(dtype='float64')
    """

    engine: str = "auto"
    device: str | None = None
    dtype: str = "float64"
    chunk_size: int | str = "auto"
    memory_limit: float | str | None = None
    n_jobs: int | None = None
    objective: str = "real"

    @property
    def is_on_cpu(self) -> bool:
        """Whether the device is the CPU."""
        return self.device is None or self.device.split(":")[0] == "cpu"

    @property
    def kind(self) -> EngineKind:
        """What is known of the engine."""
        if self.engine not in ENGINES:
            raise ValueError(f"`engine` must be one of {ENGINES}, got {self.engine!r}.")
        auto = "compiled" if self.is_on_cpu else "torch"
        return _KINDS[auto if self.engine == "auto" else self.engine]

    @property
    def uses_torch(self) -> bool:
        """Whether PyTorch computes, so that tensors stay where they are."""
        return self.kind.uses_torch

    def validate(self) -> None:
        """Raise an error that says what to change where this cannot be computed here."""
        if not self.is_on_cpu and not self.uses_torch:
            raise ValueError(
                f"`engine` must be 'auto' or 'torch' with device={self.device!r}, got "
                f"{self.engine!r}, which computes on the CPU. Leave it out, or pass device=None."
            )
        if self.memory_limit is not None and not self.kind.heeds_memory_limit:
            raise ValueError(
                f"`memory_limit` must be None with engine={self.engine!r}, got "
                f"{self.memory_limit!r}. Use engine='compiled', whose state can be measured and "
                "done without."
            )
        if self.uses_torch:
            check_device(self.device)

    @contextmanager
    def open(self) -> Iterator[Compute]:
        """Open engine and threads for the duration of a fit or a prediction."""
        self.validate()
        chunk_size = None if isinstance(self.chunk_size, str) else self.chunk_size
        memory = MemoryPlan(self.memory_limit)
        limits = LIMITS_OF_A_CPU if self.is_on_cpu else LIMITS_OF_A_GPU
        workers = Workers(1 if self.uses_torch else _openmp_effective_n_threads(self.n_jobs))
        with interruptible(), few_blas_threads() if self.uses_torch else workers.open():
            engine, device_samples = self.kind.make(self)
            yield Compute(engine, chunk_size, workers, memory, limits, self, device_samples)

    def predict(
        self, X: Any, cores: Cores, map_weights: NDArray[np.float64], layout: TensorLayout
    ) -> Any:
        """Return the response of every row of `X`, computed in one thread wherever this is."""
        with replace(self, n_jobs=1, memory_limit=None).open() as compute:
            return compute.predict(X, cores, map_weights, layout)


@dataclass(frozen=True)
class Compute:
    """An engine, the rows of a chunk, the threads that chunks are spread over, and memory.

    `device_samples` makes samples of rows on the engine's device, where it has one.
    """

    engine: Engine
    chunk_size: int | None = None
    workers: Workers = field(default_factory=Workers)
    memory: MemoryPlan = field(default_factory=MemoryPlan)
    limits: SearchLimits = LIMITS_OF_A_CPU
    spec: ComputeSpec = field(default_factory=ComputeSpec)
    device_samples: Callable[..., Samples] | None = None

    @contextmanager
    def open_threads(self) -> Iterator[Workers]:
        """Open threads for what the host does alone: those of chunks, or others beside a device."""
        if self.device_samples is None:
            yield self.workers
            return
        with Workers(_openmp_effective_n_threads(self.spec.n_jobs)).open() as workers:
            yield workers

    def samples(
        self, rows: Rows, layout: TensorLayout, see: Callable[[Rows], Rows] | None = None
    ) -> Samples:
        """Return the samples of one target's rows.

        Parameters
        ----------
        rows : Rows
            Arrays, or tensors where the engine takes them; scaled, unless `see` does that.
        layout : TensorLayout
            Which core sees what.
        see : callable, optional
            Returns rows in their own units as the fit sees them: all at once in memory, chunk
            by chunk on a device.
        """
        if not len(rows):
            raise explain_empty_part()
        if self.device_samples is not None:
            return self.device_samples(rows, layout, self.chunk_size, self.memory, see)
        rows = rows if see is None else see(rows)
        options = (self.chunk_size, self.workers, self.memory)
        return MemorySamples(self.engine, rows, layout, *options)

    def predict(
        self, X: Any, cores: Cores, map_weights: NDArray[np.float64], layout: TensorLayout
    ) -> Any:
        """Return the response of every row of `X`, an array or a tensor as `X` is one.

        Rows are computed in chunks over the threads, or in pieces that a device takes at once.
        A first core with a third axis stands for several targets that have all others in common;
        each has a column of responses then.
        """
        if cores[0].ndim == 3:
            return self._predict_several(X, cores, map_weights, layout)
        auto = PREDICTED_ROWS
        if not self.engine.takes_tensors:
            auto = auto_chunk_size(len(X), layout, cores[0].shape[1])
        products = _PREDICTED_PRODUCTS[self.engine.takes_tensors]
        auto = min(auto, max(_LEAST_PREDICTED, products // cores[0].shape[1]))
        parts = slices(len(X), self.chunk_size or auto)

        def predict(part: slice) -> Any:
            return self.engine.predict(X[part], cores, map_weights, layout)

        responses = self.workers.map(predict, parts)
        return array_namespace(X).concat(responses) if responses else np.empty(0)

    def _predict_several(
        self, X: Any, cores: Cores, map_weights: NDArray[np.float64], layout: TensorLayout
    ) -> Any:
        """Return a column of responses for each first core."""
        first, *others = cores
        if self.engine.takes_tensors or not layout.is_tabled:
            each = (np.ascontiguousarray(first[:, :, t]) for t in range(first.shape[2]))
            columns = [self.predict(X, [core, *others], map_weights, layout) for core in each]
            return array_namespace(X).stack(columns, axis=1)
        rank = first.shape[1]

        def predict(part: slice) -> NDArray[np.float64]:
            own, *features = layout.factors(X[part], layout.maps[0])
            Z = np.full((len(own), rank), map_weights[0])
            for psi, core in zip(features, others, strict=True):
                Z *= psi @ core
            # Σᵢ ψᵢ Σᵣ zᵣ aᵢᵣₜ, one function of the first input after the other.
            return np.asarray(sum(own[:, i, None] * (Z @ first[i]) for i in range(len(first))))

        parts = slices(len(X), max(1, _TOGETHER // rank))
        responses = self.workers.map(predict, parts)
        return np.concatenate(responses) if responses else np.empty((0, first.shape[2]))

    def leverage(
        self,
        X: Any,
        cores: Cores,
        map_weights: NDArray[np.float64],
        layout: TensorLayout,
        posterior: CorePosterior,
    ) -> Any:
        """Return what the posterior of a core leaves open of every row, in units of the noise."""
        most = _MET_BY_A_DEVICE if self.engine.takes_tensors else _MET
        parts = slices(len(X), max(posterior.met_together, most // posterior.width))

        def leverage(part: slice) -> Any:
            return self.engine.leverage(X[part], cores, map_weights, layout, posterior)

        found = self.workers.map(leverage, parts)
        return array_namespace(X).concat(found) if found else np.empty(0)

    def for_pieces(self) -> Compute:
        """Return what computes one piece of many: in one thread, keeping nothing."""
        if self.engine.takes_tensors:
            return self
        return replace(
            self, engine=self.engine.keeping(False), workers=Workers(), memory=MemoryPlan()
        )


@contextmanager
def interruptible() -> Iterator[None]:
    """Re-raise a KeyboardInterrupt that CPython wrapped in a SystemError.

    One that comes while compiled code hands its answer over is a call that succeeded with an
    exception set, which the interpreter calls a SystemError.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise


@contextmanager
def few_blas_threads() -> Iterator[None]:
    """Hold BLAS to a few threads while the host solves the small systems of a fit.

    With the 16 threads of a 16-core machine a system of 800 unknowns took 50 ms, with 4
    threads 10 ms: longer than the GPU takes for its part.
    """
    pools = thread_pools().select(user_api="blas")
    if max((pool["num_threads"] for pool in pools.info()), default=0) <= _SOLVING_THREADS:
        yield
        return
    with pools.limit(limits=_SOLVING_THREADS):
        yield


def check_device(device: str | None) -> None:
    """Raise an error that says what to install or change where torch cannot use `device`."""
    asked = "engine='torch'" if device is None else f"device={device!r}"
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"`{asked}` needs PyTorch, which is not installed. Install it with "
            'pip install "polyadic[gpu]", or leave it out to compute on the CPU without.'
        ) from error
    try:
        kind = torch.device(device or "cpu")
    except RuntimeError as error:
        raise ValueError(
            f"`device` must be None, 'cpu', or the name of a torch device such as 'cuda' or "
            f"'cuda:1', got {device!r}."
        ) from error
    if kind.type == "cuda" and (kind.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"`device={device!r}` needs an NVIDIA GPU that PyTorch {torch.__version__} can use, "
            f"and it finds {torch.cuda.device_count()}. Install a driver and a CUDA build of "
            "PyTorch (pytorch.org says which), or pass device=None to compute on the CPU."
        )
    try:
        _hold_a_number(kind)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise ValueError(
            f"`device={device!r}` must hold numbers in double precision with this PyTorch, "
            f"{torch.__version__}, but: {error}. Pass device='cuda' on a machine with an NVIDIA "
            "GPU, or device=None to compute on the CPU."
        ) from error


@cache
def _hold_a_number(device: Any) -> None:
    """Raise if a device cannot hold a double; one that can is tried only once."""
    import torch

    torch.ones(1, dtype=torch.float64, device=device).item()
