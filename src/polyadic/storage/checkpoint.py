"""Checkpoints: a fit under way, in a file, so that no interruption costs more than an epoch.

A checkpoint maps names to values: seeds, members' fits so far, results of a search.  It is
written whole, beside the old one, which it then replaces; a process that dies in between
leaves the old one.  It says which data and parameters it belongs to, and is refused with
any other.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from polyadic.features import FeatureMap
from polyadic.model import als
from polyadic.storage.atomic import remove_leftovers, replacing
from polyadic.storage.container import Container
from polyadic.storage.values import Decoder, Encoder, ModelFileError

T = TypeVar("T")

# Spend at most this fraction of the run time on writing checkpoints.
_FRACTION_OF_TIME = 0.05
# Inside an epoch that takes long, a checkpoint is written so often.
_SECONDS_INSIDE_AN_EPOCH = 120.0

_CONTAINER = Container(
    "polyadic checkpoint", "checkpoint", version=1, remedy="Delete it, and fit anew."
)


class CheckpointError(ValueError):
    """A checkpoint cannot be read, or belongs to another fit."""


class Checkpoint:
    """Named values of a fit under way; kept in memory alone where there is no path.

    As a context it is written when the fit ends early, for whatever reason, and removed when
    the fit succeeds.

    Parameters
    ----------
    path : path, optional
        The file.
    identity : dict
        What the fit depends on; a checkpoint with another identity is refused.
    feature_maps : iterable of FeatureMap
        Those of the fit, so that a user's own can be read back.
    defaults : dict, optional
        What `identity` would have been for names that a file of an older version lacks.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        identity: dict[str, Any],
        feature_maps: Iterable[FeatureMap] = (),
        defaults: dict[str, Any] | None = None,
    ) -> None:
        self._path = None if path is None else Path(path)
        self._values: dict[str, Any] = {}
        self._identity, self._defaults = identity, defaults or {}
        self._lock = threading.RLock()
        self._written, self._duration = -float("inf"), 0.0
        self._pending = False
        if self._path is not None and self._path.exists():
            self._values = self._read(self._path, {type(m) for m in feature_maps})

    @property
    def is_kept(self) -> bool:
        """Whether there is a file."""
        return self._path is not None

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, or what is given for one that is not there."""
        return self._values.get(name, default)

    def put(self, name: str, value: Any) -> None:
        """Set a value, and write the file unless that was done a moment ago."""
        with self._lock:
            self._values[name] = value
            if self._path is None:
                return
            self._pending = True
            if time.monotonic() - self._written > self._duration / _FRACTION_OF_TIME:
                self.write()

    def write(self) -> None:
        """Write the file now."""
        with self._lock:
            if self._path is None or not self._pending:
                return
            began = time.monotonic()
            encoder = Encoder()
            description = {
                "identity": self._identity,
                "values": encoder.encode(self._values, "checkpoint"),
            }
            content = _CONTAINER.pack(description, encoder.arrays)
            try:
                with replacing(self._path) as file:
                    file.write(content)
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"The checkpoint {self._path} could not be written ({error.strerror}); the one "
                    "written before is as it was. Make room or choose another path, and fit "
                    "again to go on from it",
                ) from error
            self._pending, self._written = False, time.monotonic()
            self._duration = self._written - began

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._remove()
        elif not isinstance(error, OSError):  # a full disk is full for this file too
            self.write()

    def _remove(self) -> None:
        """Remove the file, and what processes left that were killed while they wrote it."""
        if self._path is None:
            return
        Path(os.path.realpath(self._path)).unlink(missing_ok=True)
        remove_leftovers(self._path)

    def _read(self, path: Path, maps: set[type[FeatureMap]]) -> dict[str, Any]:
        try:
            description, arrays = _CONTAINER.unpack(path.read_bytes())
            self._check(path, description["identity"])
            values: dict[str, Any] = Decoder(arrays, maps).decode(description["values"])
        except ModelFileError as error:
            raise CheckpointError(f"`checkpoint` {path}: {error}") from None
        except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise CheckpointError(
                f"`checkpoint` {path}: this checkpoint is inconsistent ({error!r}). Delete it, "
                "and fit anew."
            ) from None
        return values

    def _check(self, path: Path, other: dict[str, Any]) -> None:
        """Raise unless the file is of this very fit."""
        names = [*self._identity, *(name for name in other if name not in self._identity)]
        for name in names:
            was, now = other.get(name, self._defaults.get(name)), self._identity.get(name)
            if was != now:
                shown = "" if name == "data" else f" (it has {was!r}, this fit has {now!r})"
                raise CheckpointError(
                    f"`checkpoint` {path} is of another fit: its {name} differs{shown}. Go on "
                    "with what it was begun with, or delete it, or choose another path."
                )


class Journal(Generic[T]):
    """The results of a computation, in order: those of the checkpoint first, then new ones.

    A computation whose every long step goes through its journal, and which is deterministic
    between them, runs again up to where it was interrupted in no time.
    """

    def __init__(self, checkpoint: Checkpoint, name: str) -> None:
        self._checkpoint, self._name = checkpoint, name
        self._known: list[T] = list(checkpoint.get(name, ()))
        self._turn = 0

    def result(self, compute: Callable[[], T]) -> T:
        """Return the next result."""
        if not self._checkpoint.is_kept:
            return compute()
        if self._turn == len(self._known):
            self._known.append(compute())
            self._checkpoint.put(self._name, list(self._known))
        self._turn += 1
        return self._known[self._turn - 1]


class MemberCheckpoint(als.Keeper):
    """One member's fit so far, in a checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint
        Keeps the fit under `name`.
    name : str
        Of the member.
    on_epoch : callable, optional
        Hears of the fit after each epoch, when it is safe.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        name: str,
        on_epoch: Callable[[als.Fit], bool | None] | None = None,
    ) -> None:
        self._checkpoint, self._name, self._tell = checkpoint, name, on_epoch
        self.so_far: als.Fit | None
        self.under_way: als.Sweep | None
        self.so_far, self.under_way = checkpoint.get(name, (None, None))
        self._written = time.monotonic()

    def on_epoch(self, fit: als.Fit) -> bool | None:
        """Keep the fit after an epoch, and tell."""
        self.so_far = fit
        self._put(None)
        return None if self._tell is None else self._tell(fit)

    def on_step(self, sweep: als.Sweep) -> None:
        """Keep the fit inside an epoch that takes long."""
        if time.monotonic() - self._written > _SECONDS_INSIDE_AN_EPOCH:
            self._put(sweep)

    def _put(self, under_way: als.Sweep | None) -> None:
        self._checkpoint.put(self._name, (self.so_far, under_way))
        self._written = time.monotonic()
