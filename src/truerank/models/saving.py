"""One file of named arrays and a JSON header.

A zip archive, not compressed: one ``.npy`` member per array, then ``header.json`` with the name and version
of the format, a digest of every array, and what the writer adds. Equal content gives equal bytes.

Vocabularies as arrays: numbers as they are, text as UTF-8 bytes with the ends of the ids.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from truerank.core.checkpoint import replace_file
from truerank.core.errors import InvalidData
from truerank.core.interactions import Vocabulary
from truerank.core.types import AnyArray, frozen
from truerank.version import __version__

FORMAT, VERSION = "truerank model", 1
WHAT = "the model file"
_HEADER = "header.json"
_LARGEST_HEADER = 1 << 24
_DAMAGED = (
    *(ValueError, KeyError, TypeError, EOFError, OSError, NotImplementedError, RecursionError),
    *(zipfile.BadZipFile, zlib.error),
)
_START = (1980, 1, 1, 0, 0, 0)  # the first date a zip archive knows: the time of writing is not content


def write_container(path: Path, fields: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    """Write arrays and header fields to a new file that takes the place of ``path`` in one step.

    Raises
    ------
    InvalidData
        When an array holds Python objects.
    InvalidParameter
        When the path cannot be written; what was there stays.
    """
    for name, array in arrays.items():
        if array.dtype.hasobject or array.dtype.names is not None:
            raise InvalidData(f"array {name!r} must hold numbers or text to be saved, got {array.dtype}.")
    replace_file(path, lambda part: _write(part, fields, arrays), WHAT)


def read_container(path: Path) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return header and arrays (read-only), or raise the sentence that says why the file is refused.

    Raises
    ------
    InvalidData
        When the file is missing, foreign, of a later version, truncated or damaged.
    """
    if path.is_dir():
        raise InvalidData(f"a model file must be a file, but '{path}' is a folder.")
    if not path.exists():
        raise InvalidData(f"there is no model file '{path}'. Check the path.")
    if not zipfile.is_zipfile(path):
        raise _refused(path, "it is not one of truerank's, or its end is missing")
    try:
        with zipfile.ZipFile(path) as archive:
            header = _read_header(path, archive)
            return header, {
                name: _read_array(path, archive, name, written) for name, written in header["arrays"].items()
            }
    except _DAMAGED as error:
        if isinstance(error, InvalidData):
            raise
        raise _refused(path, f"it is damaged: {error}") from None


def _write(part: Path, fields: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    written = {}
    with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _START), "w", force_zip64=True) as stream:
                digest = _Digest(stream)
                np.lib.format.write_array(cast(IO[bytes], digest), array, allow_pickle=False)
            written[name] = {
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "blake2b": digest.hexdigest(),
            }
        header = {"format": FORMAT, "version": VERSION, "truerank": __version__, **fields, "arrays": written}
        text = json.dumps(header, indent=1, ensure_ascii=False, allow_nan=False)
        archive.writestr(zipfile.ZipInfo(_HEADER, _START), text.encode())


def _read_header(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    if _HEADER not in archive.namelist():
        raise _refused(path, "it is not one of truerank's")
    if archive.getinfo(_HEADER).file_size > _LARGEST_HEADER:
        raise _refused(path, "its header is too long")
    header = json.loads(archive.read(_HEADER))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _refused(path, "it is not one of truerank's")
    version = header.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise InvalidData(
            f"model file '{path}' has version {version} of its format (written by truerank "
            f"{header.get('truerank')}), but this truerank reads up to {VERSION}. Update truerank."
        )
    if not isinstance(header.get("arrays"), dict):
        raise _refused(path, "it is damaged: its header lists no arrays")
    names = {f"{name}.npy" for name in header["arrays"]}
    if names | {_HEADER} != set(archive.namelist()):
        raise _refused(path, "it is damaged: its arrays are not those its header lists")
    return header


def _read_array(path: Path, archive: zipfile.ZipFile, name: str, written: Mapping[str, Any]) -> AnyArray:
    with archive.open(f"{name}.npy") as stream:
        _check_size(path, name, stream, written)
    with archive.open(f"{name}.npy") as stream:
        digest = _Digest(stream)
        array = np.lib.format.read_array(cast(IO[bytes], digest), allow_pickle=False)
        digest.read()  # what lies behind the array belongs to the digest too
    if digest.hexdigest() != written["blake2b"]:
        raise _refused(path, f"it is damaged: array {name!r} is not what was written")
    return frozen(array)


def _check_size(path: Path, name: str, stream: IO[bytes], written: Mapping[str, Any]) -> None:
    """Raise unless the array is what the header says and fits into the file, before memory is taken."""
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise _refused(path, f"it is damaged: array {name!r} is in an unknown form")
    shape, _, dtype = readers[version](stream)
    if dtype.hasobject:
        raise _refused(path, f"array {name!r} holds Python objects")
    if dtype.str != written["dtype"] or list(shape) != written["shape"]:
        raise _refused(path, f"it is damaged: array {name!r} has another shape than its header says")
    if math.prod(shape) * dtype.itemsize > path.stat().st_size:
        raise _refused(path, f"it is damaged: array {name!r} is larger than the file")


def _refused(path: Path, reason: str) -> InvalidData:
    return InvalidData(f"'{path}' must be a model file of truerank, but {reason}. Save the model again.")


class _Digest:
    """A stream that takes a digest of all that passes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.digest = stream, hashlib.blake2b(digest_size=16)

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self.stream.write(data)

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        self.digest.update(data)
        return data

    def hexdigest(self) -> str:
        return self.digest.hexdigest()


def pack_ids(vocabulary: Vocabulary, prefix: str) -> dict[str, AnyArray]:
    """Return the arrays of a vocabulary.

    Examples
    --------
    >>> {name: array.tolist() for name, array in pack_ids(Vocabulary.of(["a", "bc"]), "user").items()}
    {'user_text': [97, 98, 99], 'user_ends': [1, 3]}
    """
    import polars as pl

    if vocabulary.ids.dtype != pl.String:
        return {f"{prefix}_ids": vocabulary.ids.to_numpy()}
    encoded = [text.encode() for text in vocabulary.ids.to_list()]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {
        f"{prefix}_text": np.frombuffer(b"".join(encoded), np.uint8),
        f"{prefix}_ends": ends,
    }


def unpack_ids(arrays: Mapping[str, AnyArray], prefix: str) -> Vocabulary | None:
    """Return the vocabulary, None when there is none.

    Raises
    ------
    InvalidData
        When the ids are damaged, repeated or not sorted.
    """
    import polars as pl

    names = {name.removeprefix(f"{prefix}_") for name in arrays if name.startswith(f"{prefix}_")}
    if not names:
        return None
    if names == {"ids"} and arrays[f"{prefix}_ids"].dtype.kind in "iu" and arrays[f"{prefix}_ids"].ndim == 1:
        ids = pl.Series("id", np.array(arrays[f"{prefix}_ids"]))
    elif names == {"text", "ends"}:
        text, ends = arrays[f"{prefix}_text"].tobytes(), arrays[f"{prefix}_ends"].tolist()
        try:
            ids = pl.Series(
                "id",
                [text[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)],
                dtype=pl.String,
            )
        except UnicodeDecodeError:
            raise _broken(prefix) from None
        if ends and ends[-1] != len(text):
            raise _broken(prefix)
    else:
        raise _broken(prefix)
    if ids.n_unique() != len(ids) or not ids.is_sorted():
        raise _broken(prefix)
    return Vocabulary(ids)


def _broken(prefix: str) -> InvalidData:
    return InvalidData(f"the {prefix} ids of the model file are broken. Save the model again.")
