"""Where compiled kernels are kept: a folder for each state of the sources they are made of.

    NUMBA_CACHE_DIR, the user's cache, or beside the package: the first that can be written
      polyadic-kernels/
        0.1.0-6f0c2a91b4d35e78/     version and digest of the sources

Numba's own cache looks at the file of a kernel alone, but a kernel holds functions of other
files too: after an upgrade the old ones would go on computing.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from polyadic._version import __version__

# Every folder that has kernels, or functions that kernels call.
SOURCES = ("model", "engines/compiled")
_PACKAGE = Path(__file__).resolve().parents[1]
_PROBE_BYTES = 4_000_000  # about what the kernels take, so that a full disk is noticed here
_UNUSED_SECONDS = 60 * 86_400.0


def user_cache() -> Path:
    """Return the package's folder in the user's cache."""
    if sys.platform == "win32" and "LOCALAPPDATA" in os.environ:
        return Path(os.environ["LOCALAPPDATA"]) / "polyadic"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "polyadic"


def source_digest() -> str:
    """Return 16 digits that are others if one byte of the kernels' sources is another."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((_PACKAGE / folder).glob("*.py")):
            digest.update(f"{folder}/{path.name}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def places(numba_folder: str) -> Iterator[Path]:
    """Yield the folders that may hold kernels, the user's own choice first."""
    if numba_folder:
        yield Path(numba_folder)
    with suppress(RuntimeError):  # a user without a home
        yield user_cache()
    yield _PACKAGE / "__pycache__"


def kernel_folder(numba_folder: str = "") -> Path | None:
    """Return the folder for kernels of these very sources; None where none can be written.

    Parameters
    ----------
    numba_folder : str
        What the user set as ``NUMBA_CACHE_DIR``.
    """
    for place in places(numba_folder):
        folder = place / "polyadic-kernels" / f"{__version__}-{source_digest()}"
        if _is_writable(folder):
            return folder
    return None


def _is_writable(folder: Path) -> bool:
    """Whether kernels can be written to a folder, which is made for the purpose."""
    try:
        is_new = not folder.is_dir()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_PROBE_BYTES if is_new else 1))
        os.utime(folder)  # says that the folder is in use
        if is_new:
            _remove_unused(folder.parent)
    except OSError:
        return False
    return True


def _remove_unused(root: Path) -> None:
    """Remove the kernels of other versions and sources that no process has used for months."""
    for folder in root.iterdir():
        is_ours = re.fullmatch(r"\d+\.\w[\w.+]*-[0-9a-f]{16}", folder.name)
        if is_ours and time.time() - folder.stat().st_mtime > _UNUSED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
