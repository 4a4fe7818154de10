"""Reading and writing files by path or URL, and the bytes in which tasks return their results.

A URL is anything fsspec opens (``s3://``, ``gs://``). Copies of remote files lie in a folder that only this
process and its user can enter, and go with the process at the latest. A file may be opened with its seal, the
digest of its contents: what has another one is refused. A `PartialResult` is packed into the same bytes on
every machine and at every time.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import numpy as np

from truerank.core.checkpoint import make_folder, polars_path, remove_parts, replace_bytes
from truerank.core.digest import content_digest, file_hash
from truerank.core.errors import InvalidData, InvalidParameter, MissingDependency
from truerank.core.types import AnyArray
from truerank.data.table import is_hidden, parquet_parts
from truerank.distributed.lifetime import ScratchFolder, scratch_folder

#: What reading a file raises when it is not there, not allowed or damaged.
UNREADABLE = (OSError, ValueError, EOFError)

_READ_BY_POLARS = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "adl", "http", "https", "file")


def is_remote(path_or_url: str) -> bool:
    """Whether this is a URL rather than a path.

    Examples
    --------
    >>> is_remote("s3://bucket/users"), is_remote("data/users")
    (True, False)
    """
    return "://" in path_or_url


def join(path_or_url: str, name: str) -> str:
    """Return the path or URL of a name within a folder."""
    return f"{path_or_url.rstrip('/')}/{name}" if is_remote(path_or_url) else str(Path(path_or_url) / name)


def parquet_files(path_or_url: str) -> list[str]:
    """Return Parquet files, sorted: one file, all files below a folder, or those that match a pattern."""
    if is_remote(path_or_url):
        with _answering(path_or_url) as (system, path):
            is_named = has_magic(path) or path.endswith(".parquet")
            below = 0 if is_named else len(path.rstrip("/"))
            found = system.glob(path if is_named else f"{path.rstrip('/')}/**/*.parquet")
            shown = [one for one in found if not (below and is_hidden(one[below:].lstrip("/")))]
            files = sorted(system.unstrip_protocol(one) for one in shown)
    elif Path(path_or_url).is_dir():
        files = sorted(str(path.resolve()) for path in parquet_parts(Path(path_or_url)))
    else:
        files = sorted(str(Path(path).resolve()) for path in glob(path_or_url))  # noqa: PTH207 - a pattern, not a path
    if not files:
        raise InvalidData(
            f"there must be Parquet files at '{path_or_url}', but there are none. Check the path."
        )
    return files


def for_polars(path_or_url: str, seal: str | None = None) -> str:
    """Return what polars can open: the URL itself where it has a reader, otherwise a copy on this machine.

    A file with a seal is copied in any case, because it must be read as a whole to be checked.
    """
    scheme = path_or_url.partition("://")[0] if is_remote(path_or_url) else ""
    if seal is None and scheme in ("", *_READ_BY_POLARS):
        return polars_path(path_or_url)
    return polars_path(checked(path_or_url, seal))


def version_stamp(path_or_url: str) -> str:
    """Return size and time of a file, which change when the file does."""
    if is_remote(path_or_url):
        with _answering(path_or_url) as (system, path):
            about = system.info(path)
            when = next((about[key] for key in ("ETag", "etag", "mtime", "LastModified") if key in about), "")
            return f"{about['size']}/{when}"
    try:
        status = Path(path_or_url).stat()
        return f"{status.st_size}/{status.st_mtime_ns}"
    except UNREADABLE as error:
        raise unreadable_file(path_or_url, error) from None


def list_names(path_or_url: str) -> list[str]:
    """Return the names in a folder, sorted; none if there is no such folder."""
    if is_remote(path_or_url):
        with _answering(path_or_url) as (system, path):
            try:
                paths = system.ls(path, detail=False)
            except FileNotFoundError:
                return []
            return sorted(one.rstrip("/").rpartition("/")[2] for one in paths)
    return sorted(one.name for one in Path(path_or_url).iterdir()) if Path(path_or_url).is_dir() else []


def exists(path_or_url: str) -> bool:
    """Whether a file exists."""
    if is_remote(path_or_url):
        with _answering(path_or_url) as (system, path):
            try:
                return bool(system.info(path))  # ``exists`` would take a store that fails for one without it
            except FileNotFoundError:
                return False
    return Path(path_or_url).is_file()


def write_bytes(path_or_url: str, data: bytes, *, what: str = "files of the work folder") -> None:
    """Write a file atomically, making its folder if needed; messages call it ``what``."""
    if not is_remote(path_or_url):
        make_folder(Path(path_or_url).parent, what)
        replace_bytes(Path(path_or_url), data, what, through_links=False)
        return
    system, path = _remote(path_or_url)
    if "file" in system.protocol:
        write_bytes(path, data, what=what)
        return
    try:
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        system.pipe_file(path, data)  # in one step: a stream that fails would be closed, and so be there
    except Exception as error:  # each store has its own
        raise InvalidParameter(
            f"{what} must be written to '{path_or_url}', but that failed ({_reason(error)}). "
            "Choose another place."
        ) from None


def remove_folder(path_or_url: str) -> None:
    """Remove a remote folder with all that is in it, if it is there."""
    with _answering(path_or_url) as (system, path):
        if system.exists(path):
            system.rm(path, recursive=True)


def array_bytes(array: AnyArray) -> bytes:
    """Return an array as the contents of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def seal_of(data: bytes) -> str:
    """Return the digest of the contents of a file, by which it is known again."""
    return content_digest([data])


def is_intact(path_or_url: str, seal: str) -> bool:
    """Whether a file is there and has the contents that its seal tells."""
    try:
        if is_remote(path_or_url):
            return seal_of(fetch_bytes(path_or_url)) == seal
        return file_hash(Path(path_or_url)) == seal
    except (OSError, InvalidData):
        return False


def fetch_bytes(path_or_url: str) -> bytes:
    """Return the contents of a file that is read once; no copy is kept on this machine."""
    if is_remote(path_or_url):
        with _answering(path_or_url) as (system, path):
            return bytes(system.cat_file(path))
    try:
        return Path(path_or_url).read_bytes()
    except UNREADABLE as error:
        raise unreadable_file(path_or_url, error) from None


def map_array(path_or_url: str, seal: str | None = None) -> AnyArray:
    """Return a .npy file as a memory map; a remote one is copied to this machine once."""
    try:
        array: AnyArray = np.load(checked(path_or_url, seal), mmap_mode="r", allow_pickle=False)
    except UNREADABLE as error:
        raise unreadable_file(path_or_url, error) from None
    return array


_checked: dict[tuple[str, str], tuple[int, ...]] = {}


def checked(path_or_url: str, seal: str | None) -> str:
    """Return a path on this machine with the contents of a file, which must be those that its seal tells.

    A file is read once per process for that, and again when it has changed.

    Raises
    ------
    InvalidData
        When the contents are others.
    """
    try:
        here = _here(path_or_url)
        if seal is None:
            return here
        state = _state_of(here)
        if _checked.get((here, seal)) == state:
            return here
        is_right = file_hash(Path(here)) == seal and _state_of(here) == state
    except UNREADABLE as error:
        raise unreadable_file(path_or_url, error) from None
    if not is_right:
        raise changed_file(path_or_url)
    _checked[here, seal] = state
    return here


def _state_of(path: str) -> tuple[int, ...]:
    """Return what changes with every change of a file; the time of its last change cannot be set back."""
    status = Path(path).stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@contextmanager
def work_folder(given: str | Path | None) -> Iterator[str]:
    """Yield the full name of the work folder; None makes a temporary one on this machine."""
    try:
        if given is not None:
            if is_remote(str(given)):
                _remote(str(given))
                yield str(given)
                return
            place = Path(given).resolve()
            for pattern in ("", "truerank-*/**/"):
                remove_parts(place, pattern=pattern)
            yield str(place)
            return
        with scratch_folder("work") as folder:
            yield folder
    finally:
        drop_copies()


def changed_file(path_or_url: str) -> InvalidData:
    """Return the error to raise for a file that has other contents than its seal tells."""
    return InvalidData(
        f"'{path_or_url}' must hold what this run wrote or found intact, but it was changed since. Use a "
        "work folder that only you can write to, and run again."
    )


def unreadable_file(path_or_url: str, error: Exception) -> InvalidData:
    """Return the error to raise for a file that this process cannot read; one that says so stays."""
    if isinstance(error, InvalidData):
        return error
    return InvalidData(
        f"every worker must be able to read '{path_or_url}', but this one cannot ({_reason(error)}). "
        "Put it, or the work folder, where all workers can read it."
    )


def _reason(error: Exception) -> str:
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return text.strip().splitlines()[0][:200].rstrip(".")


def _here(path_or_url: str) -> str:
    """Return a path on this machine with the contents of a path or URL."""
    if not is_remote(path_or_url):
        return path_or_url
    digest = content_digest([f"{path_or_url}\n{version_stamp(path_or_url)}"], size=12)
    with _copying, _answering(path_or_url) as (system, path):
        copy = _copies_folder() / f"{digest}{Path(path).suffix}"
        if not copy.is_file():
            part = copy.with_name(f"{copy.name}.part")
            system.get_file(path, str(part))
            part.replace(copy)
    return str(copy)


_copying = threading.Lock()
_copies: dict[int, ScratchFolder] = {}


def _copies_folder() -> Path:
    """Return the folder with copies of this process, which is removed with it; a fork makes its own."""
    if os.getpid() not in _copies:
        _copies[os.getpid()] = ScratchFolder("copies")
    return Path(_copies[os.getpid()].path)


def drop_copies() -> None:
    """Remove the copies of remote files; arrays that are mapped stay readable."""
    with _copying:
        folder = _copies.pop(os.getpid(), None)
        if folder is not None:
            folder.close()


@contextmanager
def _answering(path_or_url: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a URL, and the path there; whatever it raises becomes one sentence.

    What it remembers of listings is dropped, because other processes write there.
    """
    system, path = _remote(path_or_url)
    system.invalidate_cache()
    try:
        yield system, path
    except Exception as error:  # each store has its own
        raise unreadable_file(path_or_url, error) from None


# A store that is silent is asked again for two minutes, and not for half an hour as by default: so many times
# by s3fs, each time so often by the library below it. The configuration of fsspec has precedence.
_TRIES = 2
_PATIENCE: dict[str, Any] = {
    "config_kwargs": {"connect_timeout": 10, "read_timeout": 20, "retries": {"total_max_attempts": 3}}
}


def _remote(path_or_url: str) -> tuple[Any, str]:
    scheme, _, place = path_or_url.partition("://")
    if not scheme or not place.strip("/") or "::" in path_or_url:
        raise InvalidParameter(
            f"a URL must be one scheme and one place, such as s3://bucket/folder, got '{path_or_url}'."
        )
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        raise MissingDependency(f"reading '{path_or_url}'", "fsspec", extra="dask") from None
    try:
        is_told = "config_kwargs" in fsspec.config.conf.get("s3", {})
        options = _PATIENCE if scheme in ("s3", "s3a") and not is_told else {}
        system, path = fsspec.core.url_to_fs(path_or_url, **options)
        if options:
            system.retries = _TRIES
    except ImportError:
        known = importlib.import_module("fsspec.registry").known_implementations
        reader = known[scheme]["class"].partition(".")[0]
        raise MissingDependency(f"reading '{path_or_url}'", reader) from None
    except ValueError as error:
        raise InvalidParameter(
            f"'{path_or_url}' must be a path or a URL that fsspec knows ({error})."
        ) from None
    except OSError as error:
        raise InvalidParameter(
            f"'{path_or_url}' must be a URL that can be reached, but it cannot ({_reason(error)})."
        ) from None
    return system, str(path)


@dataclass(frozen=True, eq=False)
class PartialResult:
    """The result of one task.

    Parameters
    ----------
    arrays : flat arrays by name
    facts : further results that JSON can hold

    Examples
    --------
    >>> found = PartialResult.unpack(PartialResult({"rank": np.array([3, 1])}, {"n_users": 2}).pack())
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
    def unpack(cls, packed: bytes) -> PartialResult:
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
