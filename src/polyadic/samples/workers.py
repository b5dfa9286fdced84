"""Threads that chunks are spread over, sums in a fixed order, and the threads BLAS may take."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from operator import length_hint
from typing import Any, Generic, Protocol, Self, TypeVar

from threadpoolctl import ThreadpoolController

S = TypeVar("S")
T = TypeVar("T")


class _Addable(Protocol):
    def __add__(self, other: Self, /) -> Self: ...


A = TypeVar("A", bound=_Addable)


@cache
def thread_pools() -> ThreadpoolController:
    """Return the libraries with threads of their own; finding them takes as long as a small fit."""
    return ThreadpoolController()


class _SingleThreadedBlas:
    """Holds BLAS to one thread while any fit of the process runs.

    The setting belongs to the process.  Fits in several threads of it are counted, so
    that the first one sets and the last one restores.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all fits, those of a parent process that this one was forked from."""
        self._lock = threading.Lock()
        self._count = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._limit = thread_pools().limit(limits=1, user_api="blas")
                self._limit.__enter__()

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                self._limit.__exit__(None, None, None)


_single_threaded_blas = _SingleThreadedBlas()
if hasattr(os, "register_at_fork"):
    # A child forked in the middle of a fit inherits its count, and maybe a locked lock.
    os.register_at_fork(after_in_child=_single_threaded_blas.reset)


class Workers:
    """A pool of `n_jobs` threads, the caller's among them.

    BLAS is held to one thread each while they work, so that `n_jobs` is the number of
    threads there are.
    """

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def open(self) -> Iterator[Workers]:
        """Open the threads for the duration of a fit."""
        with _single_threaded_blas:
            if self.n_jobs == 1:
                yield self
                return
            with ThreadPoolExecutor(self.n_jobs - 1) as self._pool:
                try:
                    yield self
                finally:
                    self._pool = None

    def map(self, function: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Apply `function` to each item, answers in the order of the items."""
        items = list(items)
        answers: list[Any] = [None] * len(items)

        def work(index: int) -> None:
            answers[index] = function(items[index])

        self._run(work, len(items))
        return answers

    def sum(self, function: Callable[[S], A | None], items: Iterable[S]) -> A | None:
        """Add up `function` of all items, in their order, whichever thread computes it.

        Few items and answers are alive at a time: an item is taken when a thread is free, and
        no thread runs far ahead of the sum.  An answer of None is left out.
        """
        n_threads = min(self.n_jobs, length_hint(items, self.n_jobs))
        if self._pool is None or n_threads <= 1:
            return add_up(map(function, items))
        adding = _OrderedSum(function, iter(items), 2 * n_threads)
        self.map(adding.drain, range(n_threads))
        return adding.total

    def _run(self, work: Callable[[int], None], count: int) -> None:
        """Call `work` with 0 … count − 1, in the caller's thread and those of the pool."""
        helpers = min(self.n_jobs, count) - 1
        if self._pool is None or helpers < 1:
            for index in range(count):
                work(index)
            return
        todo = deque(range(count))

        def drain() -> None:
            while todo:
                try:
                    index = todo.popleft()
                except IndexError:  # another thread took the last one
                    return
                work(index)

        futures = [self._pool.submit(drain) for _ in range(helpers)]
        try:
            drain()
        finally:
            # After an error nothing new is begun, but what runs must end before the caller goes on.
            todo.clear()
            for future in futures:
                future.result()


def add_up(answers: Iterable[A | None]) -> A | None:
    """Add answers in their order, in memory of the sum's own; None is left out."""
    total = _Total[A]()
    for answer in answers:
        total.add(answer)
    return total.value


class _Total(Generic[A]):
    """A sum so far; it changes no summand, since others may hold those too."""

    def __init__(self) -> None:
        self.value: A | None = None
        self._is_own = False

    def add(self, answer: A | None) -> None:
        if answer is None:
            return
        if self.value is None:
            self.value = answer
        elif self._is_own:
            self.value += answer  # in place: fresh memory would cost as much as the sum
        else:
            self.value, self._is_own = self.value + answer, True


class _OrderedSum(Generic[A]):
    """The shared state of the threads of one sum."""

    def __init__(
        self, function: Callable[[Any], A | None], items: Iterator[Any], most: int
    ) -> None:
        self._function, self._items, self._most = function, enumerate(items), most
        self._changed = threading.Condition()
        self._taking = threading.Lock()  # the items are an iterator of one caller at a time
        self._waiting: dict[int, A | None] = {}
        self._added, self._ended = 0, False
        self._total = _Total[A]()

    @property
    def total(self) -> A | None:
        """The sum of what has been added."""
        return self._total.value

    def drain(self, _: int) -> None:
        """Compute and add items until there is none left."""
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
            # Answers wait to be added in order: one slow item must not let them pile up.
            while entry[0] >= self._added + self._most and not self._ended:
                self._changed.wait()
        return entry

    def _add(self, index: int, answer: A | None) -> None:
        with self._changed:
            self._waiting[index] = answer
            while self._added in self._waiting:
                self._total.add(self._waiting.pop(self._added))
                self._added += 1
            self._changed.notify_all()

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
