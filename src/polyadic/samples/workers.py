"""Threads that chunks are spread over, and the number of threads BLAS may take itself."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol, Self, TypeVar

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
        """Hold the threads for the length of a fit."""
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

    def sum(self, function: Callable[[S], A], items: Sequence[S]) -> A:
        """Add the answers for all items, always in the order of the items.

        An answer waits only for those before it, so few are alive at a time.  They are
        added in the memory of the first, so `function` returns one of its own.
        """
        if len(items) == 1:
            return function(items[0])
        lock, waiting = threading.Lock(), dict[int, A]()
        total: list[A] = []
        added = 0

        def work(index: int) -> None:
            nonlocal added
            answer = function(items[index])
            with lock:
                waiting[index] = answer
                while added in waiting:
                    answer = waiting.pop(added)
                    if total:
                        total[0] += answer
                    else:
                        total.append(answer)
                    added += 1

        self._run(work, len(items))
        return total[0]

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
            todo.clear()
            for future in futures:
                future.result()
