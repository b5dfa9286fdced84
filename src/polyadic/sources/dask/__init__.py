"""Rows on a Dask cluster: chunks and their state stay on the workers, and only sums travel.

    driver                          workers
    ──────                          ───────
    one step ── cores that changed ──► chunk 0: sums ─┐
                                    ─► chunk 1: sums ─┼─► added in order ─► NormalEquations
                                    ─► chunk 2: sums ─┘                        │
    solve  ◄───────────────────────────────────────────────────────────────────┘

What is sent for a step does not depend on the number of rows.  Nothing but the public API of
Dask is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.holdout import Part, some
from polyadic.rows.rows import joined
from polyadic.rows.statistics import Statistics
from polyadic.rows.view import View, view_of
from polyadic.sources.dask import worker
from polyadic.sources.dask.inputs import partitions
from polyadic.sources.dask.predictions import predict_lazily, score
from polyadic.sources.dask.worker import Setup, Stale, Step
from polyadic.sources.data import ArrayData

if TYPE_CHECKING:
    from polyadic.sources.dask.cluster import Cluster

__all__ = ["DaskData", "DaskSamples", "dask_data", "predict_lazily", "score"]


def dask_data(
    X: Any, y: Any, sample_weight: Any, names: Sequence[str], scale_inputs: bool
) -> DaskData:
    """Load Dask arrays or data frames on the workers of the current client, and check them."""
    parts = partitions(X, y, sample_weight)
    cluster = _load(parts, names)
    try:
        known, n_given = cluster.combine("statistics", worker.statistics, worker.total_statistics)
        if known is None:
            raise _nothing_to_learn_from(n_given)
        view = view_of(known, names, scale_inputs)
    except BaseException:
        cluster.release()
        raise
    return DaskData(cluster, known, view, single_target=y.ndim == 1)


def _load(parts: list[tuple[Any, Any, Any]], names: Sequence[str]) -> Cluster:
    """Load partitions on the workers of the client of the process."""
    try:
        import distributed

        from polyadic.sources.dask.cluster import Cluster
    except ImportError as error:
        raise ImportError(
            "A fit to Dask collections needs distributed, which is not installed. Install it with "
            'pip install "polyadic[dask]".'
        ) from error
    try:
        client = distributed.get_client()
    except ValueError as error:
        raise ValueError(
            "A fit to Dask collections needs a client, and there is none. Create one first: "
            "`from dask.distributed import Client; client = Client()` starts workers on this "
            "machine, Client(address) connects to a cluster."
        ) from error
    if client.asynchronous:
        raise ValueError(
            "A fit to Dask collections waits for its answers, but the client is asynchronous. "
            "Create a Client without asynchronous=True."
        )
    return Cluster(client, parts, names)


def _nothing_to_learn_from(n_given: int) -> ValueError:
    if n_given:
        return ValueError(
            "`sample_weight` must have at least one positive entry, got none. "
            "Pass positive weights for the rows to learn from."
        )
    return ValueError("`X` must have at least one row, got none in any partition.")


class DaskData:
    """Training rows on a cluster, loaded once and kept on the workers until `close`.

    Parameters
    ----------
    cluster : Cluster
        The chunks.
    statistics : Statistics
        Of all rows.
    view : View
        How a fit usually sees them.
    single_target : bool
        Whether targets are a vector.
    """

    n_dropped = 0

    def __init__(
        self, cluster: Cluster, statistics: Statistics, view: View, single_target: bool
    ) -> None:
        self._cluster, self._statistics = cluster, statistics
        self.view, self.single_target = view, single_target
        self._numbers = count()
        self._live: WeakSet[_Group] = WeakSet()

    @property
    def n_rows(self) -> int:
        """Number of rows of positive weight."""
        return self._statistics.n_rows

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return len(self._statistics.targets.mean)

    @property
    def total(self) -> float:
        """Sum of their weights."""
        return self._statistics.targets.weight

    def content(self) -> int:
        """Return a number that says which rows these are, and in which partitions."""
        return int(self._cluster.combine("content", worker.content, sum)) % 2**64

    def hashes(self, seed: int) -> NDArray[np.uint64]:
        """Return the hash of every row."""
        found = self._cluster.combine("hashes", worker.hashes, np.concatenate, seed=seed)
        return np.asarray(found)

    def taken(self, most: int, seed: int) -> ArrayData:
        """Bring about `most` rows to the driver."""
        part = some(self.n_rows, most, seed)
        rows = self._cluster.combine("take", worker.taken, joined, part=part)
        return ArrayData(rows.X, rows.y, rows.weight, self.view, self.single_target)

    def samples(
        self,
        compute: Compute,
        layout: TensorLayout,
        part: Part | None = None,
        view: View | None = None,
    ) -> list[Samples]:
        """Return the samples of each target."""
        limit = compute.memory.limit
        setup = Setup(
            view or self.view,
            part,
            layout,
            compute.engine,
            compute.chunk_size,
            # The limit is that of a worker, whose chunks share it.
            None if limit is None else limit / self._cluster.most_chunks,
        )
        group = _Group(next(self._numbers), setup, self._cluster, self._live)
        return [DaskSamples(group, target) for target in range(self.n_targets)]

    def close(self) -> None:
        """Let go of the rows and all state on the workers."""
        self._cluster.release()


class _Group:
    """The samples of all targets through one view; on the workers they share their rows."""

    def __init__(self, number: int, setup: Setup, cluster: Cluster, live: WeakSet[_Group]) -> None:
        self.number, self.setup, self.cluster = number, setup, cluster
        self._live = live
        live.add(self)

    @property
    def live(self) -> frozenset[int]:
        """The groups that are in use, whose state the workers keep."""
        return frozenset(group.number for group in list(self._live))


class DaskSamples:
    """The rows of one target on a cluster.

    Parameters
    ----------
    group : _Group
        What its chunks are.
    target : int
        Which one of the targets.
    """

    def __init__(self, group: _Group, target: int) -> None:
        self._group, self._target = group, target
        self._cores: Cores = []
        self._version = 0
        self._before: int | None = None
        self._changes: list[tuple[int, NDArray[Any]]] = []

    @property
    def stateless(self) -> bool:
        """Whether the engine keeps nothing between steps."""
        return not self._group.setup.engine.keep

    def start(self, cores: Cores) -> None:
        """Have the next step make the state of every chunk anew for these cores."""
        self._group.cluster.settle()
        self._cores, self._changes = list(cores), []
        self._version, self._before = self._version + 1, None

    def normal_equations(self, core: int, weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums for one core step."""
        return self._sums("core-step", core, weights)

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Tell the chunks of one core with the next step."""
        self._cores[core] = value
        self._changes.append((core, value))
        self._version += 1

    def mixing_equations(self) -> NormalEquations:
        """Return the sums for the step of the feature weights."""
        return self._sums("start" if self._before is None else "mixing-step", None, None)

    def _sums(
        self, name: str, core: int | None, weights: NDArray[np.float64] | None
    ) -> NormalEquations:
        answer = Stale() if self._before is None else self._ask(name, core, weights, whole=False)
        if isinstance(answer, Stale):
            answer = self._ask(name, core, weights, whole=True)
        if answer is None:
            raise ValueError(
                "A part of the rows has none in it. Raise `subsample` or `validation_fraction`."
            )
        assert isinstance(answer, NormalEquations)
        self._before, self._changes = self._version, []
        return answer

    def _ask(
        self, name: str, core: int | None, weights: NDArray[np.float64] | None, *, whole: bool
    ) -> NormalEquations | Stale | None:
        """Have every chunk sum up; `whole` sends all it takes to make missing state."""
        group = self._group
        step = Step(
            group.number,
            self._target,
            group.live,
            -2 if self._before is None else self._before,
            self._version,
            tuple(self._changes),
            core,
            weights,
            group.setup if whole else None,
            list(self._cores) if whole else None,
        )
        answer: NormalEquations | Stale | None = group.cluster.combine(
            name, worker.sums, worker.total, step=step
        )
        return answer
