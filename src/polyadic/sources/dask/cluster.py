"""The driver's side of a cluster: where chunks are, how they are asked, what may go wrong.

Every chunk has a home, the worker that holds it and the state of the fit.  Its tasks run
there and nowhere else, since elsewhere the state would have to be made anew.

A chunk and an answer are each in one of four states:

    chunk     seen by the driver as             what happens
    -----     -----------------------           -----------------------------------------------
    loading   no present worker has it          wait: Dask loads it, again if its worker was lost
    moving    its home does not have it         wait: it is copied to its home
    at home   its home has it                   it can be asked
    failed    its future is in error            the fit ends with the error of loading it

    answer    seen by the driver as             what happens
    ------    -----------------------           -----------------------------------------------
    waiting   no result, all homes present      wait for another moment
    lost      no result, a home has gone        all chunks get new homes, all is asked once more
    done      a result                          it is added up
    failed    the task raised                   the fit ends with that error

Whatever a chunk is doing, the fit ends with a `ClusterError` when there are no workers for too
long, when the scheduler does not answer, or when the tasks were cancelled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any
from uuid import uuid4

import dask
import distributed
from dask.utils import parse_timedelta

from polyadic.sources.dask import worker
from polyadic.sources.dask.inputs import load_chunk

# How long a fit waits for workers when there are none, unless Dask's configuration has
# another value under "polyadic.no-workers-timeout".
NO_WORKERS_TIMEOUT = "60s"
# Seconds after which the driver looks whether the workers it waits for are still there.
_SLICE = 0.5
# Seconds between two releases of old answers.
_TIDY = 0.1

_RESUME = "With checkpoint=… the same call goes on from the last epoch."
_UNREACHABLE = (
    "The scheduler of the Dask cluster does not answer any more. Connect a new Client, and fit "
    f"again. {_RESUME}"
)
_CANCELLED = (
    "The tasks of this fit were cancelled: the cluster was restarted or closed, or data that was "
    f"scattered to it was lost. Fit again. {_RESUME}"
)


class ClusterError(RuntimeError):
    """The cluster cannot go on with a fit."""


class Cluster:
    """The chunks of a fit, one future a partition.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    partitions : iterable of (Delayed, Delayed, Delayed or None)
        Inputs, targets and weights of each.
    names : sequence of str
        Of the inputs, for error messages.
    gaps : bool
        Whether inputs may have gaps.
    """

    def __init__(
        self,
        client: Any,
        partitions: Iterable[tuple[Any, Any, Any]],
        names: Sequence[str],
        *,
        gaps: bool = False,
    ) -> None:
        self._client = client
        self._patience = parse_timedelta(
            dask.config.get("polyadic.no-workers-timeout", NO_WORKERS_TIMEOUT)
        )
        self._token, self._turns = uuid4().hex, count()
        self._last_seen = self._tidied = time.monotonic()
        self._most = 0
        self._lock = threading.Lock()
        load = dask.delayed(partial(load_chunk, gaps=gaps), pure=False)
        self._chunks: list[Any] = client.compute(
            [
                load(number, *parts, list(names), dask_key_name=self._key("load", number))
                for number, parts in enumerate(partitions)
            ]
        )
        self._homes: list[str] = []
        self._spent: list[Any] = []
        self._workers: dict[str, int] = {}
        try:
            self._place()
        except BaseException:
            self.release()
            raise

    @property
    def most_chunks(self) -> int:
        """The most chunks that share a worker."""
        return max(map(self._homes.count, self._homes))

    @property
    def largest_share(self) -> float:
        """The fraction of the chunks that the busiest worker has."""
        return self.most_chunks / len(self._homes)

    def release(self) -> None:
        """Release everything on the workers."""
        self._let_go(self._spent)
        self._let_go(self._chunks)

    def _tidy(self) -> None:
        """Release old answers now and then, while the workers are busy with the next ones.

        A client waits for ten milliseconds after each message, so that a message about what is
        over would hold up the next one that asks for something.
        """
        if time.monotonic() - self._tidied > _TIDY:
            self._let_go(self._spent)
            self._tidied = time.monotonic()

    @staticmethod
    def _let_go(futures: list[Any]) -> None:
        """Release futures at once: an exception that was caught may still refer to them."""
        while futures:
            futures.pop().release()

    def settle(self) -> None:
        """Assign chunks to workers again if workers came or went."""
        if self._present() != self._workers:
            self._place()

    def combine(
        self,
        name: str,
        task: Callable[..., Any],
        together: Callable[[Sequence[Any]], Any],
        **arguments: Any,
    ) -> Any:
        """Return the answers of all chunks, put together in the order of the partitions.

        They are put together a few at a time and always the same ones, so that neither timing
        nor the place of a chunk changes the last digit: on the workers until only a few are
        left, which come to the driver.
        """
        while True:
            if self._client.status == "closed":
                raise ClusterError(_CANCELLED)
            homes, chunks = self._homes, self._chunks
            futures = self._ask(name, partial(task, **arguments), together, homes, chunks)
            self._tidy()
            try:
                answers = self._answers(futures, set(homes))
            finally:
                self._spent.extend(futures)
            if answers is not None:
                return together(answers)
            self._place()

    def _ask(
        self,
        name: str,
        task: Callable[..., Any],
        together: Callable[[Sequence[Any]], Any],
        homes: list[str],
        chunks: list[Any],
    ) -> list[Any]:
        """Submit a task for every chunk at its home, all in one message."""
        ask, add = dask.delayed(task, pure=False), dask.delayed(together, pure=False)
        parts = []
        for index, (home, chunk) in enumerate(zip(homes, chunks, strict=True)):
            with dask.annotate(workers=[home]):
                parts.append(ask(chunk, dask_key_name=self._key(name, index)))
        while len(parts) > worker.FAN_IN:
            parts = [
                add(few, dask_key_name=self._key("sum", index))
                for index, few in enumerate(worker.batches(parts))
            ]
        return list(self._client.compute(parts, optimize_graph=False))

    def _key(self, name: str, index: int) -> str:
        """Return a key that the dashboard shows as its name."""
        return f"polyadic-{name}-{self._token}-{next(self._turns)}-{index}"

    def _answers(self, futures: list[Any], homes: set[str]) -> list[Any] | None:
        """Wait for answers; return None where a home was lost on the way."""
        answers: dict[str, Any] = {}
        limit = _SLICE
        while True:
            waiting = [future for future in futures if future.key not in answers]
            try:
                self._collect(waiting, answers, limit)
            except distributed.TimeoutError:
                if any(future.status == "error" for future in waiting):
                    raise  # the task itself raised a TimeoutError
                if all(future.status == "finished" for future in waiting):
                    limit *= 2  # the answers are there, but large ones take long to arrive
            if len(answers) == len(futures):
                return [answers[future.key] for future in futures]
            present = self._present()
            # Without any worker there is no other home: wait, until `_present` gives up.
            if present and not present.keys() >= homes:
                return None

    def _collect(self, waiting: list[Any], answers: dict[str, Any], limit: float) -> None:
        """Add answers as they come; raise what tasks raise, or TimeoutError."""
        try:
            with self._client.as_current():  # a thread of the driver may know no client
                done = distributed.as_completed(waiting, with_results=True, timeout=limit)
                for future, answer in done:
                    if future.status == "cancelled":
                        raise ClusterError(_CANCELLED)
                    answers[future.key] = answer
        except distributed.KilledWorker as error:
            raise _explain_killing(error) from error

    def _wait(self, futures: list[Any]) -> None:
        """Wait until futures are done, but no longer than a moment."""
        try:
            with self._client.as_current():
                distributed.wait(futures, timeout=_SLICE)
        except distributed.TimeoutError:
            pass
        except distributed.CancelledError as error:
            raise ClusterError(_CANCELLED) from error

    def _present(self) -> dict[str, int]:
        """Return the workers and their threads; raise when there were none for too long."""
        threads = dict(self._ask_scheduler(self._client.nthreads))
        self._most = max(self._most, len(threads))
        if threads:
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > self._patience:
            lost = f"all {self._most} were lost" if self._most else "none ever came"
            raise ClusterError(
                f"The Dask cluster has had no workers for {self._patience:g} s: {lost}. Start "
                f"workers, and fit again. {_RESUME}"
            )
        return threads

    def _ask_scheduler(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """Return what the scheduler answers."""
        try:
            return question(*arguments)
        except (OSError, RuntimeError, distributed.CancelledError) as error:
            raise ClusterError(_UNREACHABLE) from error

    def _place(self) -> None:
        """Give every chunk a home: a worker that has it, unless that has too many."""
        with self._lock:  # members of an ensemble may be fitted in several threads
            while True:
                holders, self._workers = self._holders()
                homes = spread(holders, self._workers)
                if all(home in held for home, held in zip(homes, holders, strict=True)):
                    self._homes = homes
                    return
                # Workers may come and go while chunks are moved, so look once more after it.
                self._chunks = [
                    chunk if home in held else self._move(chunk, home)
                    for chunk, home, held in zip(self._chunks, homes, holders, strict=True)
                ]

    def change(self, name: str, task: Callable[[Any], Any]) -> None:
        """Put what a task makes of each chunk, at its home, in its place."""
        pairs = zip(self._chunks, self._homes, strict=True)
        self._chunks = [
            self._client.submit(
                task,
                chunk,
                key=self._key(name, index),
                workers=[home],
                allow_other_workers=True,
            )
            for index, (chunk, home) in enumerate(pairs)
        ]
        self._place()

    def _move(self, chunk: Any, home: str) -> Any:
        """Have a chunk copied to a worker; the one it comes from is let go."""
        # Other workers are allowed in case this one dies before the chunk arrives.
        options = {"workers": [home], "allow_other_workers": True}
        return self._client.submit(worker.move, chunk, key=self._key("move", 0), **options)

    def _holders(self) -> tuple[list[set[str]], dict[str, int]]:
        """Return the workers that have each chunk, once all are there, and all workers."""
        while True:
            self._wait(self._chunks)
            for chunk in self._chunks:
                self._check(chunk)
            present, known = (
                self._present(),
                self._ask_scheduler(self._client.who_has, self._chunks),
            )
            holders = [present.keys() & known.get(chunk.key, ()) for chunk in self._chunks]
            if all(holders):
                return holders, present
            time.sleep(0.02)  # the client hears of a loss later than the scheduler

    def _check(self, chunk: Any) -> None:
        """Raise what loading a chunk raised."""
        if chunk.status == "error":
            error = chunk.exception()
            raise _explain_killing(error) if isinstance(error, distributed.KilledWorker) else error


def _explain_killing(error: Any) -> ClusterError:
    return ClusterError(
        f"A task of this fit ended several workers, one after the other ({error}). Most often "
        f"they run out of memory: use more or smaller partitions, or set memory_limit. {_RESUME}"
    )


def spread(holders: Sequence[Iterable[str]], threads: Mapping[str, int]) -> list[str]:
    """Return a home for every chunk: one of its holders, unless that has more than its share.

    The share of a worker is in proportion to its threads, rounded up.
    """
    total = sum(threads.values())
    room = {address: -(-len(holders) * n // total) for address, n in threads.items()}
    homes = [""] * len(holders)

    def settle(index: int, candidates: Iterable[str]) -> None:
        home = max(sorted(candidates), key=room.__getitem__)
        homes[index], room[home] = home, room[home] - 1

    for index, held in enumerate(holders):
        free = [address for address in held if room.get(address, 0) > 0]
        if free:
            settle(index, free)
    for index, home in enumerate(homes):
        if not home:
            settle(index, room)
    return homes
