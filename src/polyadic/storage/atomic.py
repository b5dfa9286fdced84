"""Files that appear whole or not at all.

    .model.polyadic.3f9c01ab-4711-5d0a7e44.polyadic-tmp     while model.polyadic is written

The name says which machine and process writes, so that nobody takes it for theirs and what a
killed process left can be told from what is being written.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_LONGEST_NAME = 180  # bytes; file systems have 255, and the temporary name is longer


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the place of `path` when all went well.

    A process that dies half-way leaves what was at `path` before.  A file that is there keeps
    its mode, a link stays a link to the file that is replaced, and a device or a pipe is
    written to as it is.

    Raises
    ------
    OSError
        With `path` as its file name, whatever file the trouble was with.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(target, path)
    if mode is not None and not stat.S_ISREG(mode):
        with open(target, "wb") as file:
            yield file
        return
    writer = f"{_place()}-{os.getpid()}-{secrets.token_hex(4)}"
    temporary = target.with_name(f".{_label(target)}.{writer}.polyadic-tmp")
    try:
        with open(temporary, "xb", opener=_opener(mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            raise _error_about(path, error) from error
        raise


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files of processes that were killed while they wrote `path`.

    Only those are removed that bear this very name and whose process ran on this machine and
    is gone; anything in doubt stays.
    """
    target = Path(os.path.realpath(path))
    pattern = rf"\.{re.escape(_label(target))}\.{_place()}-(\d+)-[0-9a-f]{{8}}\.polyadic-tmp"
    for other in target.parent.iterdir():
        written = re.fullmatch(pattern, other.name)
        if written and other.is_file() and not _is_running(int(written[1])):
            other.unlink(missing_ok=True)


def _mode(target: Path, path: str | os.PathLike[str]) -> int | None:
    """Return the mode of the file that is there; None where there is none."""
    try:
        mode = target.stat().st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "It is a folder; name a file in it", os.fspath(path))
    return mode


def _opener(mode: int | None) -> Callable[[str, int], int]:
    """Return an opener whose file nobody can read who could not read the one before."""
    allowed = 0o666 if mode is None else stat.S_IMODE(mode)
    return lambda name, flags: os.open(name, flags, allowed)


def _error_about(path: str | os.PathLike[str], error: OSError) -> OSError:
    """Return the error in terms of the file that the user named."""
    if error.errno is None:
        return error
    reason, folder = error.strerror, os.path.dirname(os.path.realpath(path))
    if isinstance(error, FileNotFoundError):
        reason = f"The folder {folder} does not exist; create it first"
    return OSError(error.errno, reason, os.fspath(path))


def _label(target: Path) -> str:
    """Return the name of a file, or a digest of one that leaves no room for more."""
    name = os.fsencode(target.name)
    return target.name if len(name) <= _LONGEST_NAME else hashlib.sha256(name).hexdigest()


def _place() -> str:
    """Return what tells apart machines, and containers on one, that may share a folder."""
    namespace = 0
    with suppress(OSError):
        namespace = os.stat("/proc/self/ns/pid").st_ino
    return hashlib.sha256(f"{platform.node()} {namespace}".encode()).hexdigest()[:8]


def _is_running(process: int) -> bool:
    """Whether a process runs, or may run."""
    if os.name == "nt":
        return True  # there a signal, even none, would end it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is somebody else's
    return True
