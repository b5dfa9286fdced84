"""Files of JSON and arrays with a checksum; models and checkpoints are such files.

    8 bytes         header length
    header          JSON: where each array lies, and the metadata
                      format   what kind of file it is
                      version  of its layout
                      sha256   of the whole file, with 64 zeros in this place
                      model    JSON: the description
    arrays          the bytes of the numbers, bit for bit

This is a safetensors file, so that any safetensors reader can look inside.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from polyadic.storage.values import ModelFileError

_NO_CHECKSUM = "0" * 64


@dataclass(frozen=True)
class Container:
    """One kind of file.

    Parameters
    ----------
    format : str
        What the file calls its kind.
    noun : str
        What an error calls it.
    version : int
        Of the layout that is written; newer ones are refused.
    remedy : str
        What to do about a damaged file.
    """

    format: str
    noun: str
    version: int
    remedy: str

    def pack(self, description: Any, arrays: dict[str, NDArray[Any]]) -> bytes:
        """Return the bytes of a file."""
        from safetensors.numpy import save

        metadata = {
            "format": self.format,
            "version": str(self.version),
            "sha256": _NO_CHECKSUM,
            "model": json.dumps(description),
        }
        content = _sort_header(bytes(save(arrays, metadata=metadata)))
        start = self._checksum_place(content)
        checksum = hashlib.sha256(content).hexdigest().encode()
        return content[:start] + checksum + content[start + 64 :]

    def unpack(self, content: bytes) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Return the description and the arrays of a file whose checksum is right."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        metadata = self._metadata(content)
        if not isinstance(metadata, dict) or metadata.get("format") != self.format:
            raise ModelFileError(f"this is not a {self.noun} of polyadic.")
        version = metadata.get("version")
        if not (isinstance(version, str) and version.isdecimal()):
            raise self._explain_damage("it has no version")
        if int(version[:9]) > self.version:
            raise ModelFileError(
                f"this {self.noun} has version {version[:9]} and this polyadic reads version "
                f"{self.version}. Upgrade polyadic."
            )
        start = self._checksum_place(content)
        blank = content[:start] + _NO_CHECKSUM.encode() + content[start + 64 :]
        if hashlib.sha256(blank).hexdigest().encode() != content[start : start + 64]:
            raise ModelFileError(f"this {self.noun} was changed after it was saved. {self.remedy}")
        try:
            return json.loads(metadata["model"]), load(content)
        except SafetensorError as error:
            raise self._explain_damage(str(error)) from None

    def _metadata(self, content: bytes) -> Any:
        """Return the metadata in the header, or None where there is no such thing."""
        length = int.from_bytes(content[:8], "little")
        if len(content) < 8 or length > len(content) - 8:
            raise ModelFileError(f"this is not a {self.noun} of polyadic, or its end is missing.")
        try:
            header = json.loads(content[8 : 8 + length].decode("utf-8"))
        except (ValueError, RecursionError):
            return None
        return header.get("__metadata__") if isinstance(header, dict) else None

    def _checksum_place(self, content: bytes) -> int:
        """Return where the 64 digits of the checksum begin."""
        mark = b'"sha256":"'
        length = int.from_bytes(content[:8], "little")
        if content.count(mark, 8, 8 + length) != 1:
            raise self._explain_damage("it has no checksum")
        return content.index(mark, 8, 8 + length) + len(mark)

    def _explain_damage(self, why: str) -> ModelFileError:
        return ModelFileError(f"this {self.noun} is damaged: {why}. {self.remedy}")


def _sort_header(content: bytes) -> bytes:
    """Return the file with its header in a fixed order: equal content makes equal files."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # the arrays begin at a multiple of 8
    return len(text).to_bytes(8, "little") + text + content[8 + length :]
