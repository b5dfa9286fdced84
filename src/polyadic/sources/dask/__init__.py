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

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from operator import methodcaller
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from polyadic.compute import Compute
from polyadic.features import TensorLayout
from polyadic.model.als import Samples
from polyadic.model.conjugate import CoreSketch
from polyadic.model.cpd import Cores
from polyadic.model.normal import NormalEquations
from polyadic.rows.holdout import Part, explain_empty_part
from polyadic.rows.inputs import Inputs
from polyadic.rows.rows import Rows, concatenate_rows
from polyadic.rows.statistics import summarise
from polyadic.rows.view import Respond, View, usual_view
from polyadic.samples.placement import iterating_is_cheaper, parse_bytes
from polyadic.samples.workers import A
from polyadic.sources import Measure, Predicts
from polyadic.sources.arrays import ArrayStore, bring_few
from polyadic.sources.dask import worker
from polyadic.sources.dask.inputs import partitions
from polyadic.sources.dask.predictions import evaluate, predict_lazily
from polyadic.sources.dask.tables import LazyTable
from polyadic.sources.dask.worker import Setup, Stale, Step
from polyadic.sources.data import Data, PartStore, Store

__all__ = ["DaskSamples", "DaskSource", "DaskStore"]

# Seconds until a question is answered, about, and bytes of sums that travel a second.
_ROUND_TRIP, _SENT = 20e-3, 1e8


class DaskSource:
    """Dask arrays or data frames; a fit loads them on the workers of the current client.

    Parameters
    ----------
    X : Dask collection or LazyTable
        Inputs, or a table that they are made of, which rows to predict must be.
    y, sample_weight : Dask collections
        As users passed them; they may be arrays.
    inputs : Inputs
        What the inputs are.
    gaps : bool
        Whether they may have gaps.
    """

    def __init__(
        self, X: Any, y: Any, sample_weight: Any, inputs: Inputs, *, gaps: bool = False
    ) -> None:
        self._X, self._y, self._weight, self._inputs = X, y, sample_weight, inputs
        self._gaps = gaps

    def data(self, scale_inputs: bool = True, *, merge: bool = False) -> Data:
        """Load the rows on the workers, check them, and return them as training data.

        With `merge`, rows that are few are brought into memory and their copies merged.
        """
        X = self._X.inputs() if isinstance(self._X, LazyTable) else self._X
        parts = partitions(X, self._y, self._weight)
        store = DaskStore(_load(parts, self._inputs.names, gaps=self._gaps))
        try:
            statistics = store.reduce("statistics", summarise)
            view = usual_view(statistics, self._inputs, scale_inputs)
        except BaseException:
            store.close()
            raise
        store.n_targets, store.n_rows = len(statistics.targets.mean), statistics.n_rows
        data = Data(
            store,
            statistics,
            view,
            self._inputs,
            single_target=self._y.ndim == 1,
            in_memory=False,
            is_remote=True,
        )
        return bring_few(data, scale_inputs) if merge else data

    def predict(self, predictor: Predicts) -> Any:
        """Return the predictions as a Dask array; nothing is computed yet."""
        return predict_lazily(predictor.single_threaded(), self._X)

    def evaluate(self, predictor: Predicts, measure: Measure[A]) -> A:
        """Return how good the predictions are; tell once what the fit had not seen."""
        schema = self._X.schema
        tables = not schema.is_numeric
        parts = partitions(self._X.rows, self._y, self._weight, tables=tables)
        scored = evaluate(predictor.single_threaded(), measure, schema, parts)
        scored.surprises.warn(schema, stacklevel=4)
        return scored.value


def _load(parts: list[tuple[Any, Any, Any]], names: Sequence[str], *, gaps: bool) -> Any:
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
    return Cluster(client, parts, names, gaps=gaps)


class DaskStore(Store):
    """Rows of positive weight on a cluster, kept on the workers until `close`.

    Parameters
    ----------
    cluster : Cluster
        The chunks.
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster, self.n_targets, self.n_rows = cluster, 0, 0
        self._numbers = count()
        self._live: WeakSet[_Group] = WeakSet()

    def reduce(self, name: str, function: Callable[[Rows, int], A]) -> A:
        """Add what `function` makes of each chunk, on the workers."""
        total: A | None = self._cluster.combine(
            name, worker.apply_to_rows, worker.add_in_order, function=function
        )
        if total is None:
            raise self._explain_no_rows()
        return total

    def _explain_no_rows(self) -> ValueError:
        if self._cluster.combine("count", worker.count_given, sum):
            return ValueError(
                "`sample_weight` must have at least one positive entry, got none. "
                "Pass positive weights for the rows to learn from."
            )
        return ValueError("`X` must have at least one row, got none in any partition.")

    def samples(
        self, compute: Compute, layout: TensorLayout, part: Part | None, view: View
    ) -> list[Samples]:
        """Return the samples of each target."""
        spec = replace(compute.spec, n_jobs=1)
        if spec.memory_limit is not None:
            # The limit is that of a worker, whose chunks share it.
            limit = parse_bytes(spec.memory_limit) / self._cluster.most_chunks
            spec = replace(spec, memory_limit=limit)
        setup = Setup(view, part, layout, spec)
        group = _Group(next(self._numbers), setup, self._cluster, self._live)
        n_rows = round((1.0 if part is None else part.fraction) * self.n_rows)
        stateless = not compute.engine.keep
        targets = range(view.n_outputs(self.n_targets))
        return [DaskSamples(group, target, n_rows, stateless) for target in targets]

    def responder(self, compute: Compute) -> Respond:
        """Return what says, on the workers, how a model responds to rows."""
        return compute.spec.predict

    def restrict(self, part: Part) -> PartStore:
        """Return the rows of a part, which stay on the workers."""
        return PartStore(self, part)

    def gather(self, part: Part | None) -> ArrayStore:
        """Bring the rows of a part to this process."""
        rows = self._cluster.combine("gather", worker.take_part, concatenate_rows, part=part)
        return ArrayStore(rows)

    def numbered(self) -> DaskStore:
        """Give every row on the workers a number."""
        self._cluster.change("number", worker.number_chunk)
        return self

    def reserve_memory(self, compute: Compute) -> None:
        """Set nothing aside: the limit is that of a worker."""

    def close(self) -> None:
        """Release the rows and all state on the workers."""
        self._cluster.release()


class _Group:
    """The samples of all targets through one view; on the workers they share their rows."""

    def __init__(self, number: int, setup: Setup, cluster: Any, live: WeakSet[_Group]) -> None:
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
    n_rows : int
        How many rows to expect.
    stateless : bool
        Whether the engine keeps nothing between steps.
    """

    def __init__(self, group: _Group, target: int, n_rows: int, stateless: bool) -> None:
        self._group, self._target = group, target
        self._n_rows, self.stateless = n_rows, stateless
        self._cores: Cores = []
        self._version = 0
        self._before: int | None = None
        self._changes: list[tuple[int, NDArray[Any]]] = []

    def start(self, cores: Cores) -> None:
        """Have the next step rebuild the state of every chunk for these cores."""
        self._group.cluster.settle()
        self._cores, self._changes = list(cores), []
        self._version, self._before = self._version + 1, None

    def normal_equations(self, core: int, map_weights: NDArray[np.float64]) -> NormalEquations:
        """Return the sums for one core step."""
        question = methodcaller("normal_equations", core, map_weights)
        return self._sums("core-step", question, NormalEquations)

    def iterates(self, core: int) -> bool:
        """Whether conjugate gradients are the cheaper way to solve one core."""
        group = self._group
        return iterating_is_cheaper(
            group.setup.layout,
            core,
            self._cores[core].shape[1],
            self._n_rows * group.cluster.largest_share,
            _ROUND_TRIP,
            stateless=self.stateless,
            sending=8 / _SENT,
        )

    def core_sketch(self, core: int) -> CoreSketch:
        """Return the sums that conjugate gradients start from."""
        return self._sums("sketch", methodcaller("core_sketch", core), CoreSketch)

    def gram_product(self, core: int, value: NDArray[Any]) -> NDArray[np.float64]:
        """Return AᵀA v for v of the shape of one core."""
        question = methodcaller("gram_product", core, value)
        return self._sums("product", question, np.ndarray)

    def commit(self, core: int, value: NDArray[Any]) -> None:
        """Tell the chunks of one core with the next step."""
        self._cores[core] = value
        self._changes.append((core, value))
        self._version += 1

    def mixing_equations(self) -> NormalEquations:
        """Return the sums for the step of the feature weights."""
        name = "start" if self._before is None else "mixing-step"
        return self._sums(name, methodcaller("mixing_equations"), NormalEquations)

    def _sums(self, name: str, question: Callable[[Samples], Any], kind: type[A]) -> A:
        """Return the sum of what all chunks answer, which is of a kind."""
        ask = partial(self._ask, name, question)
        # Changes alone come first; all cores follow where a chunk has lost its state.
        answer = Stale() if self._before is None else ask(whole=False)
        if isinstance(answer, Stale):
            answer = ask(whole=True)
        if answer is None:
            raise explain_empty_part()
        assert isinstance(answer, kind)
        self._before, self._changes = self._version, []
        return answer

    def _ask(self, name: str, question: Callable[[Samples], Any], *, whole: bool) -> Any:
        """Have every chunk sum up; `whole` sends all it takes to make missing state."""
        group = self._group
        step = Step(
            group.number,
            self._target,
            group.live,
            -2 if self._before is None else self._before,
            self._version,
            tuple(self._changes),
            question,
            group.setup if whole else None,
            list(self._cores) if whole else None,
        )
        return group.cluster.combine(name, worker.sums, worker.add_in_order, step=step)
