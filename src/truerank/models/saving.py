"""Model files: an uncompressed ``.npz`` archive of named arrays with a JSON header, and ids as arrays.

The archive is what ``np.savez`` writes. One array, ``header``, holds JSON text as bytes: name and version of
the format, the version of truerank, a digest of all other arrays, and what the writer adds. Equal content
gives equal bytes. Reading runs no code (``allow_pickle=False``) and takes no more memory than the file is
long: the archive may not be compressed, and the size that each array declares must be that of its member.

Vocabularies are stored as arrays too: numbers as they are, text as UTF-8 bytes with the end of each id.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from truerank.core.checkpoint import DAMAGED, check_input, member_type, read_archive, replace_file
from truerank.core.digest import content_digest
from truerank.core.errors import InvalidData
from truerank.core.interactions import Vocabulary
from truerank.core.types import AnyArray, frozen
from truerank.version import __version__

FORMAT, VERSION = "truerank model", 2
_OLD_HEADER = "header.json"  # in the archives of version 1
_NUMBERS = "biuf"


def write_arrays(path: Path, fields: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
    """Write arrays and header fields to a new file that takes the place of ``path`` in one step.

    Raises
    ------
    InvalidData
        When an array holds something other than numbers.
    InvalidParameter
        When the path cannot be written; what was there stays.
    """
    text = _header_text(fields, arrays)
    named: dict[str, Any] = {"header": np.frombuffer(text, np.uint8), **arrays}
    replace_file(path, lambda part: np.savez(part, **named), "the model file")


def archive_bytes(fields: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> bytes:
    """Return what ``write_arrays`` writes, for places that are no paths."""
    text, stream = _header_text(fields, arrays), io.BytesIO()
    np.savez(stream, header=np.frombuffer(text, np.uint8), **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _header_text(fields: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> bytes:
    for name, array in arrays.items():
        if array.dtype.kind not in _NUMBERS:
            raise InvalidData(f"array {name!r} must hold numbers to be saved, got {array.dtype}.")
    header = {"format": FORMAT, "version": VERSION, "truerank": __version__, **fields}
    header["blake2b"] = _digest(arrays)
    return json.dumps(header, ensure_ascii=False, allow_nan=False).encode()


def read_arrays(path: Path) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return header and arrays (read-only), or raise the sentence that says why the file is refused.

    Raises
    ------
    InvalidData
        When the file is missing, foreign, of another version, truncated or damaged.
    """
    try:
        check_input(path, "a model file")
        if not path.exists():
            raise InvalidData(f"there is no model file '{path}'. Check the path.")
        with path.open("rb") as stream:
            is_archive = stream.read(4) == b"PK\x03\x04" and zipfile.is_zipfile(stream)
        if not is_archive:
            raise _refused(path, "it is not one, or its end is missing")
        with zipfile.ZipFile(path) as archive:
            _check_members(path, archive)
        arrays = {name: frozen(array) for name, array in read_archive(path).items()}
        header = _parse_header(path, arrays.pop("header"))
        if header.get("blake2b") != _digest(arrays):
            raise _refused(path, "it is damaged: its arrays are not those that were written")
    except InvalidData:
        raise
    except DAMAGED as error:
        raise _refused(path, f"it is damaged ({error})") from None
    return header, arrays


def _check_members(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise unless all members are plain arrays of numbers that fit into the file, before memory is taken."""
    members = archive.infolist()
    names = [member.filename for member in members]
    if _OLD_HEADER in names:
        raise InvalidData(
            f"'{path}' is a model file of version 1, and this truerank reads version {VERSION}. "
            "Fit the model again, or load it with the truerank that wrote it."
        )
    if "header.npy" not in names:
        raise _refused(path, "it is another archive")
    if len(set(names)) < len(names) or not all(name.endswith(".npy") for name in names):
        raise _refused(path, "it is damaged: its members are not arrays with different names")
    is_compressed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    if is_compressed or sum(member.file_size for member in members) > path.stat().st_size:
        raise _refused(path, "it is compressed or claims to be larger than it is")
    for member in members:
        dtype = member_type(archive, member)
        if dtype.kind not in _NUMBERS:
            name = member.filename.removesuffix(".npy")
            raise _refused(path, f"array {name!r} holds {dtype} instead of numbers")


def _parse_header(path: Path, text: AnyArray) -> dict[str, Any]:
    header = json.loads(text.tobytes())
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _refused(path, "it is another archive")
    version = header.get("version")
    if not isinstance(version, int) or version != VERSION:
        raise InvalidData(
            f"model file '{path}' has version {version} of its format (written by truerank "
            f"{header.get('truerank')}), but this truerank reads version {VERSION}. Update truerank."
        )
    return header


def _digest(arrays: Mapping[str, AnyArray]) -> str:
    """Return a digest of names, types, shapes and content."""
    described = (
        (f"{name} {array.dtype.str} {array.shape};", array) for name, array in sorted(arrays.items())
    )
    return content_digest(chain.from_iterable(described))


def _refused(path: Path, reason: str) -> InvalidData:
    return InvalidData(f"'{path}' must be a model file of truerank, but {reason}. Save the model again.")


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
        text, ends = arrays[f"{prefix}_text"].tobytes(), arrays[f"{prefix}_ends"]
        starts = np.concatenate([[0], ends.ravel()[:-1]])
        # ends must ascend: ids that overlap could take any amount of memory
        if ends.ndim != 1 or ends.dtype.kind != "i" or (ends < starts[: len(ends)]).any():
            raise _broken(prefix)
        if len(ends) and ends[-1] != len(text):
            raise _broken(prefix)
        pieces = [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=False)]
        try:
            ids = pl.Series("id", [piece.decode() for piece in pieces], dtype=pl.String)
        except UnicodeDecodeError:
            raise _broken(prefix) from None
    else:
        raise _broken(prefix)
    if ids.n_unique() != len(ids) or not ids.is_sorted():
        raise _broken(prefix)
    return Vocabulary(ids)


def _broken(prefix: str) -> InvalidData:
    return InvalidData(f"the {prefix} ids of the model file are broken. Save the model again.")
