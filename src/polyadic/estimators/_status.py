"""A line on a terminal or in a notebook that says what a fit does and how long it may take.

It appears after two seconds, is written anew in its place, and is wiped at the end.  In a notebook
it is an output that changes, so that a notebook which is stored does not fill up with lines.  Where
the standard error is a file or a pipe, nothing is written.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
import uuid
from typing import Any, Self

_DELAY = 2.0  # seconds of silence: a fit that is over by then needs no line
_PAUSE = 0.5
_one_at_a_time = threading.Lock()  # fits inside fits, or side by side, share one terminal


class StatusLine:
    """What a fit is doing, shown while it runs; as a context it shows nothing unless asked to.

    Parameters
    ----------
    shown : bool
        Whether there may be a line at all.
    """

    def __init__(self, shown: bool) -> None:
        self._screen: _Terminal | _Notebook = _Notebook() if _in_notebook() else _Terminal()
        self._shown = shown and is_watched()
        self._began = time.monotonic()
        self._what, self._fractions = "reading and checking the rows", dict[int, float]()
        self._count = 1
        self._stop = threading.Event()

    def tell(self, what: str, index: int = 0, fraction: float = 0.0, count: int = 1) -> None:
        """Say what is being done, and which fraction of part `index` of `count` is done."""
        self._what, self._count = what, count
        self._fractions[index] = fraction

    def __enter__(self) -> Self:
        self._shown = self._shown and _one_at_a_time.acquire(blocking=False)
        if self._shown:
            self._compilation = _Compilation()
            self._thread = threading.Thread(target=self._show, name="polyadic-status", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if not self._shown:
            return
        self._stop.set()
        self._thread.join()
        self._compilation.close()
        self._screen.wipe()
        _one_at_a_time.release()

    def _show(self) -> None:
        """Write the line now and then until the fit is over."""
        if self._stop.wait(_DELAY):
            return
        while True:
            self._screen.write(self._line())
            if self._stop.wait(_PAUSE):
                return

    def _line(self) -> str:
        elapsed = time.monotonic() - self._began
        parts = [f"polyadic: {self._what}", f"{elapsed:.0f} s"]
        if self._compilation.is_running:
            parts.insert(1, "compiling (once after an installation)")
        done = sum(self._fractions.values()) / self._count
        if 0.02 < done < 1:
            parts.append(f"about {_duration(elapsed * (1 - done) / done)} left")
        return ", ".join(parts)


class _Terminal:
    """A line that is written over."""

    def __init__(self) -> None:
        self._width = 0

    def write(self, line: str) -> None:
        """Replace the line."""
        line = line[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write(f"\r{line.ljust(self._width)}")
        sys.stderr.flush()
        self._width = len(line)

    def wipe(self) -> None:
        """Leave nothing of the line, if there was one."""
        if self._width:
            self.write("")
            sys.stderr.write("\r")
            sys.stderr.flush()


class _Notebook:
    """An output of a notebook's cell that changes."""

    def __init__(self) -> None:
        self._name: str | None = None

    def write(self, line: str) -> None:
        """Replace the output."""
        from IPython.display import display

        is_new = self._name is None
        self._name = self._name or uuid.uuid4().hex
        content = {"text/plain": line}
        display(content, raw=True, display_id=self._name, update=not is_new)

    def wipe(self) -> None:
        """Leave nothing of the output, if there was one."""
        if self._name is not None:
            self.write("")


class _Compilation:
    """Knows whether numba is compiling."""

    def __init__(self) -> None:
        from numba.core import event

        self._running = 0
        listener = type("Listener", (event.Listener,), {"on_start": self._up, "on_end": self._down})
        self._listener: Any = listener()
        event.register("numba:compile", self._listener)  # type: ignore[no-untyped-call]

    def _up(self, *_: Any) -> None:
        self._running += 1

    def _down(self, *_: Any) -> None:
        self._running -= 1

    @property
    def is_running(self) -> bool:
        """Whether a kernel is being compiled now."""
        return self._running > 0

    def close(self) -> None:
        """Stop listening."""
        from numba.core import event

        event.unregister("numba:compile", self._listener)  # type: ignore[no-untyped-call]


def is_watched() -> bool:
    """Whether somebody sees the standard error: on a terminal, or in a notebook."""
    return _in_notebook() or bool(getattr(sys.stderr, "isatty", lambda: False)())


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules and "IPython" in sys.modules


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
