"""Safe files: damaged input gets a sentence, output is whole or absent, and a store lets experiments resume.

Files are written under a temporary name, put on the disk and renamed: no half-written one is ever left, and
what a name held before stays until then. A temporary file that a killed process has left is removed by the
next one that writes there. Inside ``whole_or_nothing`` Ctrl-C discards an unfinished training instead of
keeping its best epoch, because a piece that is kept under the name of a whole one must be whole.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import platform
import re
import secrets
import stat
import struct
import sys
import tempfile
import threading
import time
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, TruerankError
from truerank.version import __version__

if TYPE_CHECKING:
    import polars as pl


@contextmanager
def readable(where: str, form: str) -> Iterator[None]:
    """Turn what polars, zlib and the system raise on a file that cannot be read into `InvalidData`.

    Parameters
    ----------
    where : how the message calls the file, in quotes
    form : what the file must be, such as ``csv file``
    """
    import polars as pl

    try:
        with _without_panics():
            yield
    except TruerankError:
        raise
    except (
        *(pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError, zlib.error),
        *(ValueError, OverflowError, MemoryError),
    ) as error:
        told = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        reason = told.splitlines()[0].rstrip(". ")
        if "more fields" in reason:
            reason = "a line has more fields than the first one"
        elif isinstance(error, pl.exceptions.PanicException):
            reason = "its bytes contradict each other"
        raise InvalidData(
            f"{where} must be a complete {form}, but it cannot be read ({reason}). "
            f"Write or download it again, or name another format."
        ) from None


_HOLDING = threading.Lock()


@contextmanager
def _without_panics() -> Iterator[None]:
    """Hold back what is written to stderr, and pass it on at the end unless polars panicked.

    What Rust prints of a panic goes to the stream of the process before the exception comes. Where another
    thread is reading, nothing is held back.
    """
    if not _HOLDING.acquire(blocking=False):
        yield
        return
    try:
        with ExitStack() as stack:
            try:
                sys.stderr.flush()
                held = stack.enter_context(tempfile.TemporaryFile())
                shown = os.dup(2)
            except (OSError, ValueError, AttributeError):  # no stream, or no room for what is held
                yield
                return
            os.dup2(held.fileno(), 2)
            is_panic = False
            try:
                yield
            except BaseException as error:
                is_panic = type(error).__name__ == "PanicException"
                raise
            finally:
                with suppress(OSError, ValueError, AttributeError):
                    sys.stderr.flush()
                os.dup2(shown, 2)
                os.close(shown)
                held.seek(0)
                with suppress(OSError):
                    os.write(2, b"" if is_panic else held.read())
    finally:
        _HOLDING.release()


def polars_path(path: str | Path) -> str:
    """Return a path as polars takes it, which is as UTF-8 whatever the language of the system.

    Raises
    ------
    InvalidData
        When the name is not UTF-8.

    Examples
    --------
    >>> polars_path(Path("folder") / "events.csv")
    'folder/events.csv'
    """
    try:
        return os.fsencode(path).decode("utf-8")
    except UnicodeError:
        shown = str(path).encode("ascii", "backslashreplace").decode()
        raise InvalidData(f"the name of a file must be UTF-8, but '{shown}' is not. Rename it.") from None


def check_input(path: str | Path, what: str, *, pipes: bool = False) -> None:
    """Raise where ``path`` is no file but may never end or begin; what does not exist is left to readers.

    Parameters
    ----------
    path : what shall be read
    what : how messages call it, such as ``a model file``
    pipes : whether a pipe will do, as a shell makes one of ``<(zcat run.gz)``

    Raises
    ------
    InvalidData
        When the path is a folder, a device, a socket or a pipe.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - one call for all kinds
    except (OSError, ValueError):
        return
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    kinds |= {stat.S_IFSOCK: "a socket"} | ({} if pipes else {stat.S_IFIFO: "a pipe"})
    if stat.S_IFMT(mode) in kinds:
        raise InvalidData(f"{what} must be a file, but '{path}' is {kinds[stat.S_IFMT(mode)]}. Name a file.")


def check_output(path: Path, what: str) -> None:
    """Raise unless a file can be put at ``path``; call it before any long work starts.

    A file of one byte is written beside it and removed, because only this finds a full disk or a quota.

    Parameters
    ----------
    path : where the file shall lie
    what : how messages call the file, such as ``the report``

    Raises
    ------
    InvalidParameter
        When the path is a folder or a device, may not be written, or its folder does not exist or takes no
        file.
    """
    with _named_failure(path, what):
        folder = _checked_target(path, what).parent
        _try_folder(folder)
        remove_parts(folder)


def replace_file(
    path: Path, write: Callable[[BinaryIO], object], what: str, *, through_links: bool = True
) -> None:
    """Let ``write`` fill a new file in the same folder, which then takes the place of ``path`` in one step.

    The file is on the disk before it takes its place. An existing file keeps its mode and, where that is
    allowed, its owner; a new one follows the umask. Every file of truerank is written here.

    Parameters
    ----------
    path : where the file shall lie
    write : gets the open file, in which it may seek
    what : how messages call the file
    through_links : whether a link at ``path`` stays, and the file that it names is replaced; otherwise the
        link itself is, as it must be in folders where others may have put it

    Raises
    ------
    InvalidParameter
        When the path cannot be written; what was there stays.
    """
    with _named_failure(path, what):
        target = _checked_target(path, what) if through_links else path
        raw = _PartFile.beside(target)
        part = Path(raw.name)
        try:
            raw.fill(write, like=target if through_links else None)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
            os.close(raw.lock)


def replace_bytes(path: Path, data: bytes, what: str, *, through_links: bool = True) -> None:
    """Write all bytes to ``path``, or leave what was there untouched."""
    replace_file(path, lambda part: part.write(data), what, through_links=through_links)


def replace_text(path: Path, text: str, what: str) -> None:
    """Write the whole text to ``path``, in UTF-8, or leave what was there untouched."""
    replace_bytes(path, text.encode("utf-8", errors="replace"), what)


def replace_table(
    path: Path, frame: pl.DataFrame, what: str, *, metadata: dict[str, str] | None = None
) -> None:
    """Write a table to a .parquet, .tsv or .csv file; Parquet files hold the metadata too."""
    suffix = path.suffix.lower()

    def write(part: BinaryIO) -> None:
        if suffix == ".parquet":
            frame.write_parquet(part, metadata=metadata)
        else:
            frame.write_csv(part, separator="\t" if suffix == ".tsv" else ",")

    replace_file(path, write, what)


def make_folder(path: Path, what: str, *, mode: int = 0o777) -> None:
    """Make a folder that takes files, with those above it; raise and leave none behind where that fails."""
    with _named_failure(path, what):
        if path.is_dir():
            return
        made = [one for one in (path, *path.parents) if not one.exists()]
        try:
            path.mkdir(mode, parents=True, exist_ok=True)
            _try_folder(path)
        except OSError:
            for one in made:
                with suppress(OSError):
                    one.rmdir()
            raise


_PART = ".truerank-"  # readers of folders pass over what begins with a dot
_PART_NAME = re.compile(r"\.truerank-([0-9a-f]{6})-[0-9a-f]{16}(\.[^.]*)?")
#: Temporary files of another machine, whose locks may not be seen here, are left alone for so long.
OLD_SECONDS = 86_400.0


def remove_parts(folder: Path, *, pattern: str = "") -> list[str]:
    """Remove the temporary files that killed processes have left in a folder, and return their names.

    Parameters
    ----------
    folder : where they lie
    pattern : of the folders within it where they lie, such as ``work-*/**/``; empty for itself
    """
    removed = []
    for part in folder.glob(f"{pattern}{_PART}*"):
        named = _PART_NAME.fullmatch(part.name)
        with suppress(OSError):  # it is gone, or of somebody else
            if named is not None and _is_abandoned(part, is_ours=named[1] == machine_code()):
                part.unlink()
                removed.append(part.name)
    return removed


def _is_abandoned(part: Path, *, is_ours: bool) -> bool:
    """Whether no process writes a file, as far as this machine can tell."""
    file = os.open(part, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        is_old = time.time() - os.fstat(file).st_mtime > OLD_SECONDS
        return (is_ours or is_old) and lock_file(file) is True
    finally:
        os.close(file)


class _PartFile(io.FileIO):
    """A file that is being written, and why it could not be: some libraries do not pass the reason on.

    It is locked until ``lock`` is closed, so that others can tell it from what a killed process has left.
    """

    failure: OSError | None = None
    lock: int

    @classmethod
    def beside(cls, path: Path) -> _PartFile:
        """Open a new file in the folder of ``path``, under a name that nobody can know."""
        while True:
            name = f"{_PART}{machine_code()}-{secrets.token_hex(8)}{path.suffix}"
            made = cls(path.with_name(name), "x")
            file = io.FileIO.fileno(made)
            if lock_file(file) is not False and os.fstat(file).st_nlink:
                made.lock = os.dup(file)
                return made
            made.close()  # somebody took it for abandoned before it was locked

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise

    def fileno(self) -> int:
        """Make libraries call ``write``."""
        raise io.UnsupportedOperation("fileno")

    def fill(self, write: Callable[[BinaryIO], object], *, like: Path | None) -> None:
        """Write the contents to the disk and close; the mode is that of the file ``like``, if it exists."""
        stream = io.BufferedWriter(self)
        try:
            write(stream)
            stream.flush()
            if like is not None and like.exists():
                _take_mode(super().fileno(), like.stat())
            os.fsync(super().fileno())
        except KeyboardInterrupt:
            raise
        except BaseException:  # polars raises errors and panics of its own
            if self.failure is not None:
                raise self.failure from None
            raise
        finally:
            self.close()  # before the stream is, which would write again what could not be written


def _take_mode(file: int, like: os.stat_result) -> None:
    if not hasattr(os, "fchmod"):  # no such modes on Windows
        return
    mine = os.fstat(file)
    if (mine.st_uid, mine.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):
            os.fchown(file, like.st_uid, like.st_gid)
    os.fchmod(file, like.st_mode & 0o777)


def _checked_target(path: Path, what: str) -> Path:
    """Return the file that a path names, behind links; raise unless a file may be put there."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if target.exists():
        if not target.is_file():
            raise InvalidParameter(f"{what} must be a file, but '{path}' is not one. Add a file name.")
        os.close(os.open(target, os.O_WRONLY))  # raises where the file may not be written
    if not target.parent.is_dir():
        raise InvalidParameter(
            f"{what} needs an existing folder, but '{target.parent}' is none. Create it first."
        )
    return target


def _try_folder(folder: Path) -> None:
    """Raise what the system says against a new file in a folder."""
    raw = _PartFile.beside(folder / "any")
    try:
        with raw:
            raw.write(b"\n")
    finally:
        Path(raw.name).unlink(missing_ok=True)
        os.close(raw.lock)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def _named_failure(path: Path, what: str) -> Iterator[None]:
    try:
        if not _is_name(path):
            raise OSError(errno.EINVAL, "no file can have this name")
        yield
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        advice = "Make room, or choose another path" if error.errno in _FULL else "Choose another path"
        raise InvalidParameter(
            f"{what} must be written to '{path}', but that failed ({reason}). {advice}."
        ) from None


def _is_name(path: Path) -> bool:
    with suppress(UnicodeError):
        return b"\0" not in os.fsencode(path)
    return False


_WHOLE: ContextVar[bool] = ContextVar("whole", default=False)


@contextmanager
def whole_or_nothing() -> Iterator[None]:
    """All-or-nothing section: Ctrl-C inside it discards the unfinished training.

    Outside such a section an interrupted training ends early and keeps its best epoch so far.

    Examples
    --------
    >>> with whole_or_nothing():
    ...     must_be_whole()
    True
    >>> must_be_whole()
    False
    """
    token = _WHOLE.set(True)
    try:
        yield
    finally:
        _WHOLE.reset(token)


def must_be_whole() -> bool:
    """Whether the current code runs inside an all-or-nothing section."""
    return _WHOLE.get()


class Store:
    """Results by key: computed once, written in one step when finished, and read from then on.

    The key must say everything that the result depends on; the version of truerank is added. Each file holds
    a digest of its contents; what cannot be read or has another digest (a damaged file) is computed again,
    with a `DataWarning`. What is interrupted is not kept.

    Parameters
    ----------
    folder : where results are kept; None keeps them in memory only

    Examples
    --------
    >>> store = Store()
    >>> store.value("two", lambda: 1 + 1), store.value("two", lambda: 1 / 0)
    (2, 2)
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        folder = None if folder is None else Path(folder)
        if folder is not None:
            make_folder(folder, "finished results")
            remove_parts(folder)
        self.folder = folder
        self._held: dict[str, Any] = {}

    def value(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return a result that JSON can hold; floats come back to the digit."""
        if key not in self._held:
            value = self._read(key, ".json", _read_json)
            if value is None:
                with whole_or_nothing():
                    value = json.loads(json.dumps(compute()))
                path = self.path_of(key, ".json")
                if path is not None:
                    told = {"key": key, "value": value, "blake2b": _value_digest(key, value)}
                    replace_bytes(path, json.dumps(told).encode(), "a finished result", through_links=False)
            self._held[key] = value
        return self._held[key]

    def arrays(
        self, key: str, compute: Callable[[], Mapping[str, np.ndarray]], *, hold: bool = True
    ) -> Mapping[str, np.ndarray]:
        """Return named arrays; with ``hold`` they stay in memory too."""
        if key in self._held:
            held: Mapping[str, np.ndarray] = self._held[key]
            return held
        arrays: Mapping[str, np.ndarray] | None = self._read(key, ".npz", _read_arrays)
        if arrays is None:
            with whole_or_nothing():
                arrays = dict(compute())
            path = self.path_of(key, ".npz")
            if path is not None:
                digest = _arrays_digest(key, arrays)
                named: dict[str, Any] = {**arrays, "key": np.array(key), "blake2b": np.array(digest)}
                replace_file(
                    path, lambda part: np.savez(part, **named), "a finished result", through_links=False
                )
        if hold:
            self._held[key] = arrays
        return arrays

    def path_of(self, key: str, suffix: str) -> Path | None:
        """Return the file of a key, None without a folder."""
        if self.folder is None:
            return None
        digest = hashlib.blake2b(f"{__version__}\n{key}".encode(), digest_size=8).hexdigest()
        readable = re.sub(r"[^a-z0-9]+", "-", key.lower()).strip("-")[:80]
        return self.folder / f"{readable}-{digest}{suffix}"

    def kept_file(self, key: str, suffix: str) -> Path | None:
        """Return the file of a key where there is one; what else lies in its place is removed or refused."""
        path = self.path_of(key, suffix)
        if path is not None and clear_place(path):
            tell_damaged(path)
        return path if path is not None and path.is_file() else None

    def _read(self, key: str, suffix: str, read: Callable[[Path, str], Any]) -> Any:
        path = self.kept_file(key, suffix)
        if path is None:
            return None
        found = read(path, key)
        if found is None:
            tell_damaged(path)
        return found


def clear_place(path: Path) -> bool:
    """Remove a folder from the place of a kept file and return whether there was one; refuse a full one."""
    if not path.is_dir() or path.is_symlink():
        return False
    try:
        path.rmdir()
    except OSError as error:
        raise InvalidParameter(
            f"finished results are kept as files, but '{path}' is a folder that cannot be removed "
            f"({error.strerror or error}). Move it away, or keep results in another folder."
        ) from None
    return True


def tell_damaged(path: Path) -> None:
    """Warn that a kept file is not as it was written, so that its contents are computed again."""
    warnings.warn(f"'{path}' is damaged, or of other work, and is computed again.", DataWarning, stacklevel=4)


#: An archive of arrays may unpack to so many bytes, or to so many times its own length if that is more.
MOST_UNPACKED, MOST_RATIO = 1 << 28, 100

#: What reading a damaged file raises, in JSON and in archives of arrays.
DAMAGED = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError, SyntaxError, OverflowError),
    *(MemoryError, UserWarning, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)


def _read_json(path: Path, key: str) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        is_whole = content["key"] == key and content["blake2b"] == _value_digest(key, content["value"])
        return content["value"] if is_whole else None
    except DAMAGED:
        return None


def _read_arrays(path: Path, key: str) -> dict[str, np.ndarray] | None:
    try:
        arrays = read_archive(path)
        digest = str(arrays.pop("blake2b"))
        is_whole = str(arrays.pop("key")) == key and digest == _arrays_digest(key, arrays)
        return arrays if is_whole else None
    except DAMAGED:
        return None


def read_archive(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` archive; raise one of `DAMAGED` before a false size takes memory.

    An archive may unpack to ``MOST_UNPACKED`` bytes, or to ``MOST_RATIO`` times its own length.
    """
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        size = sum(one.file_size for one in members)
        most = max(MOST_UNPACKED, MOST_RATIO * path.stat().st_size)
        if size > most:
            raise ValueError(f"it would unpack to {size:,} bytes, and at most {most:,} are allowed")
        for member in members:
            member_type(archive, member)
        return {one.filename.removesuffix(".npy"): _read_member(archive, one) for one in members}


def member_type(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.dtype:
    """Return the type of an array in an archive; raise unless its member is as large as its header says."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    name = member.filename.removesuffix(".npy")
    with archive.open(member) as stream, warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy repairs headers of Python 2 with a warning
        version = np.lib.format.read_magic(stream)
        if version not in readers:
            raise ValueError(f"array {name!r} is in an unknown form")
        shape, _, dtype = readers[version](stream)
        if dtype.hasobject:
            raise ValueError(f"array {name!r} holds {dtype} instead of numbers")
        if stream.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError(f"array {name!r} is not as large as it says")
    return dtype


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def as_store(given: Store | str | Path | None) -> Store | None:
    """Return a store as it is, or the store in a folder.

    Examples
    --------
    >>> as_store(None) is None
    True
    """
    return given if given is None or isinstance(given, Store) else Store(given)


def _value_digest(key: str, value: Any) -> str:
    """Return a digest of key and value as JSON writes them; floats are written to the digit."""
    return hashlib.blake2b(json.dumps([key, value]).encode(), digest_size=16).hexdigest()


def _arrays_digest(key: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Return a digest of the key, and of names, types, shapes and contents of arrays."""
    state = hashlib.blake2b(key.encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        state.update(f";{name} {array.dtype.str} {array.shape};".encode())
        state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return state.hexdigest()


def lock_file(descriptor: int) -> bool | None:
    """Lock an open file until it is closed; False if another process holds it, None if it cannot be locked.

    The system drops the lock of a process that is killed.
    """
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # no locks on this system, or in this file system
        return None
    return True


def machine_code() -> str:
    """Return six letters that tell this machine from others, for names of temporary files."""
    return hashlib.blake2b(platform.node().encode(), digest_size=3).hexdigest()
