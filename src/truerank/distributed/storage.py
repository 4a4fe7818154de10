"""Places that the driver and all workers can read: folders, and what fsspec opens (``s3://``, ``gs://``).

Partials: a few named arrays and facts as bytes that do not depend on time or place.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import numpy as np

from truerank.core.digest import content_digest
from truerank.core.errors import InvalidData, InvalidParameter, MissingDependency
from truerank.core.types import AnyArray

#: What reading a file raises when it is not there, not allowed or damaged.
UNREADABLE = (OSError, ValueError, EOFError)

_READ_BY_POLARS = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "adl", "http", "https", "file")


def is_remote(place: str) -> bool:
    """Whether a place is a URL rather than a path.

    Examples
    --------
    >>> is_remote("s3://bucket/users"), is_remote("data/users")
    (True, False)
    """
    return "://" in place


def join(place: str, name: str) -> str:
    """Return a name within a place."""
    return f"{place.rstrip('/')}/{name}" if is_remote(place) else str(Path(place) / name)


def parquet_files(place: str) -> list[str]:
    """Return the Parquet files at a place, sorted: a file, all files of a folder, or those of a pattern."""
    if is_remote(place):
        system, path = _remote(place)
        pattern = path if has_magic(path) or path.endswith(".parquet") else f"{path.rstrip('/')}/**/*.parquet"
        found = sorted(system.unstrip_protocol(one) for one in system.glob(pattern))
    elif Path(place).is_dir():
        found = sorted(str(path.resolve()) for path in Path(place).rglob("*.parquet"))
    else:
        found = sorted(str(Path(path).resolve()) for path in glob(place))  # noqa: PTH207 - a pattern, not a path
    if not found:
        raise InvalidData(f"there must be Parquet files at '{place}', but there are none. Check the path.")
    return found


def for_polars(place: str) -> str:
    """Return what polars opens: the place itself where it has a reader, otherwise a copy on this machine."""
    scheme = place.partition("://")[0] if is_remote(place) else ""
    return place if scheme in ("", *_READ_BY_POLARS) else _here(place)


def stamp(place: str) -> str:
    """Return what changes when a file does: its size and time."""
    try:
        if is_remote(place):
            system, path = _remote(place)
            about = system.info(path)
            when = next((about[key] for key in ("ETag", "etag", "mtime", "LastModified") if key in about), "")
            return f"{about['size']}/{when}"
        status = Path(place).stat()
        return f"{status.st_size}/{status.st_mtime_ns}"
    except UNREADABLE as error:
        raise unreadable(place, error) from None


def names_in(place: str) -> list[str]:
    """Return the names of what lies in a folder, sorted; none where there is no such folder."""
    if is_remote(place):
        system, path = _remote(place)
        try:
            found = system.ls(path, detail=False)
        except FileNotFoundError:
            return []
        return sorted(one.rstrip("/").rpartition("/")[2] for one in found)
    return sorted(one.name for one in Path(place).iterdir()) if Path(place).is_dir() else []


def exists(place: str) -> bool:
    """Whether a file is there."""
    if is_remote(place):
        system, path = _remote(place)
        return bool(system.exists(path))
    return Path(place).is_file()


def write_bytes(place: str, data: bytes, *, what: str = "the work folder") -> None:
    """Write a file, with its folder, in one step; messages call the folder ``what``."""
    try:
        if is_remote(place):
            system, path = _remote(place)
            system.makedirs(path.rpartition("/")[0], exist_ok=True)
            with system.open(path, "wb") as file:
                file.write(data)
            return
        target = Path(place)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
        part.write_bytes(data)
        part.replace(target)
    except OSError as error:
        raise InvalidParameter(
            f"{what} must be writable, but '{place}' is not ({_reason(error)}). Choose another one."
        ) from None


def write_array(place: str, array: AnyArray) -> None:
    """Write an array as .npy."""
    held = io.BytesIO()
    np.save(held, array)
    write_bytes(place, held.getvalue())


def fetch_bytes(place: str) -> bytes:
    """Return the contents of a file that is read once; nothing stays on this machine."""
    try:
        if is_remote(place):
            system, path = _remote(place)
            return bytes(system.cat_file(path))
        return Path(place).read_bytes()
    except UNREADABLE as error:
        raise unreadable(place, error) from None


def read_bytes(place: str) -> bytes:
    """Return the contents of a file."""
    try:
        return Path(_here(place)).read_bytes()
    except UNREADABLE as error:
        raise unreadable(place, error) from None


def map_array(place: str) -> AnyArray:
    """Return a .npy file as a memory map; a remote one is copied to this machine once."""
    try:
        found: AnyArray = np.load(_here(place), mmap_mode="r", allow_pickle=False)
    except UNREADABLE as error:
        raise unreadable(place, error) from None
    return found


@contextmanager
def work_folder(given: str | Path | None) -> Iterator[str]:
    """Give the work folder under its full name; None takes one of this machine and removes it."""
    if given is not None:
        yield str(given) if is_remote(str(given)) else str(Path(given).resolve())
        return
    with tempfile.TemporaryDirectory(prefix="truerank-work-") as folder:
        yield folder


def unreadable(place: str, error: Exception) -> InvalidData:
    """Return the error for a file that a process cannot read."""
    return InvalidData(
        f"every worker must be able to read '{place}', but this one cannot ({_reason(error)}). "
        "Put it, or the work folder, where all workers see it."
    )


def _reason(error: Exception) -> str:
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return text.strip().splitlines()[0][:200].rstrip(".")


def _here(place: str) -> str:
    """Return a path on this machine with the contents of a place."""
    if not is_remote(place):
        return place
    system, path = _remote(place)
    digest = content_digest([f"{place}\n{stamp(place)}"], size=12)
    copy = Path(tempfile.gettempdir()) / f"truerank-{digest}{Path(path).suffix}"
    if not copy.is_file():
        part = copy.with_name(f"{copy.name}.{os.getpid()}")
        system.get_file(path, str(part))
        part.replace(copy)
    return str(copy)


def _remote(place: str) -> tuple[Any, str]:
    try:
        fsspec = importlib.import_module("fsspec")
        system, path = fsspec.core.url_to_fs(place)
    except ImportError as error:
        library = "fsspec" if "fsspec" in str(error) else str(error)
        raise MissingDependency(f"reading '{place}'", library, extra="dask") from None
    except ValueError as error:
        raise InvalidParameter(f"'{place}' must be a path or a URL that fsspec knows ({error}).") from None
    return system, str(path)


@dataclass(frozen=True, eq=False)
class Partial:
    """What one task found.

    Parameters
    ----------
    arrays : flat arrays by name
    facts : what JSON can hold

    Examples
    --------
    >>> found = Partial.unpack(Partial({"rank": np.array([3, 1])}, {"n_users": 2}).pack())
    >>> found.arrays["rank"].tolist(), found.facts
    ([3, 1], {'n_users': 2})
    """

    arrays: Mapping[str, AnyArray] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Return the bytes: a line of JSON, then the arrays one after the other."""
        stored = {name: _narrowed(array) for name, array in self.arrays.items()}
        layout = [
            [name, array.dtype.str, len(array), len(self.arrays[name])] for name, array in stored.items()
        ]
        head = json.dumps({"arrays": layout, "facts": dict(self.facts)}, sort_keys=True, allow_nan=False)
        return b"".join([head.encode(), b"\n", *(array.tobytes() for array in stored.values())])

    @classmethod
    def unpack(cls, packed: bytes) -> Partial:
        """Read what ``pack`` returned; integers come back as int64."""
        head, _, body = packed.partition(b"\n")
        described = json.loads(head)
        arrays, start = {}, 0
        for name, dtype, n_stored, length in described["arrays"]:
            array = np.frombuffer(body, dtype, n_stored, start)
            start += array.nbytes
            array = array.astype(np.int64) if array.dtype.kind in "iu" else array
            arrays[name] = array if n_stored == length else np.repeat(array, length)
        return cls(arrays, described["facts"])


def _narrowed(array: AnyArray) -> AnyArray:
    """Return integers in the narrowest type that holds them, and a constant column as one entry."""
    if array.dtype.kind not in "iu" or len(array) == 0:
        return np.ascontiguousarray(array)
    low, high = int(array.min()), int(array.max())
    types = (
        (np.uint8, np.uint16, np.uint32, np.int64) if low >= 0 else (np.int8, np.int16, np.int32, np.int64)
    )
    dtype = next(one for one in types if np.iinfo(one).min <= low and high <= np.iinfo(one).max)
    return np.ascontiguousarray(array[:1] if low == high else array, dtype=dtype)
