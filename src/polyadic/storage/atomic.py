"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path` that takes its place when all went well.

    A process that dies half-way leaves what was at `path` before.
    """
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp makes files that only the owner may read
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def leftovers(path: Path) -> list[Path]:
    """Return the temporary files of processes that were killed while they wrote `path`."""
    return [other for other in path.parent.iterdir() if other.name.startswith(f".{path.name}.")]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
