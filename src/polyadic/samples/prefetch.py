"""A stream of batches: read ahead in a thread, computed in several, added in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from queue import SimpleQueue
from typing import Any, TypeVar

from polyadic.samples.workers import Workers

S = TypeVar("S")
A = TypeVar("A")

# Batches that are read before anyone asks for them.
AHEAD = 2


def read_ahead(items: Generator[S], depth: int = AHEAD) -> Generator[S]:
    """Yield `items`, made in a thread of their own, `depth` of them before they are asked for.

    The thread ends, and `items` is closed, with the last item, an error, or when the caller
    lets go of this generator.
    """
    made: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
    slots, stop = threading.Semaphore(depth), threading.Event()

    def make() -> None:
        try:
            with closing(items):
                for item in items:
                    made.put((True, item))
                    slots.acquire()
                    if stop.is_set():
                        return
            made.put((False, None))
        except BaseException as error:  # whatever it is, it belongs to the caller
            made.put((False, error))

    thread = threading.Thread(target=make, name="polyadic-reader", daemon=True)
    thread.start()
    try:
        while True:
            more, item = made.get()
            if not more:
                break
            yield item
            del item  # not held while waiting for the next one
            slots.release()
        if item is not None:
            raise item
    finally:
        stop.set()
        slots.release()
        thread.join()


def ordered_sum(
    workers: Workers, function: Callable[[S], A | None], items: Generator[S]
) -> A | None:
    """Add what `function` makes of the items, in their order, whoever makes it.

    Few items and answers are alive at a time: an item is taken when a thread is free, and no
    thread runs far ahead of the sum.  An answer of None is left out.
    """
    adding = _Sum(function, enumerate(items), 2 * workers.n_jobs)
    with closing(items):
        workers.map(adding.drain, range(workers.n_jobs))
    total: A | None = adding.total
    return total


class _Sum:
    """The shared state of the threads of one `ordered_sum`."""

    def __init__(
        self, function: Callable[[Any], Any], items: Iterator[tuple[int, Any]], most: int
    ) -> None:
        self._function, self._items, self._most = function, items, most
        self._changed = threading.Condition()
        self._taking = threading.Lock()  # the items are an iterator of one caller at a time
        self._waiting: dict[int, Any] = {}
        self._added, self._ended = 0, False
        self.total: Any = None

    def drain(self, _: int) -> None:
        """Work until there is no item left."""
        try:
            while (taken := self._take()) is not None:
                index, item = taken
                answer = self._function(item)
                del item, taken
                self._add(index, answer)
        except BaseException:
            self._end()  # the other threads have no more to do
            raise

    def _take(self) -> tuple[int, Any] | None:
        with self._taking:
            if self._ended:
                return None
            entry = next(self._items, None)
        if entry is None:
            self._end()
            return None
        with self._changed:
            while entry[0] >= self._added + self._most and not self._ended:
                self._changed.wait()
        return entry

    def _add(self, index: int, answer: Any) -> None:
        with self._changed:
            self._waiting[index] = answer
            while self._added in self._waiting:
                answer = self._waiting.pop(self._added)
                self._added += 1
                if self.total is None:
                    self.total = answer
                elif answer is not None:
                    self.total += answer  # in the memory of the first
            self._changed.notify_all()

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
