"""Batches that are read ahead, in a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing
from queue import SimpleQueue
from typing import Any, TypeVar

S = TypeVar("S")

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
                    slots.acquire()  # waits while `depth` items have not been asked for
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
        # The thread may be waiting for a slot; it gets one, and sees that it should stop.
        stop.set()
        slots.release()
        thread.join()
