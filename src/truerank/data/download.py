"""Download a file of the catalogue into the user's cache."""

from __future__ import annotations

import logging
import shutil
import zipfile
from pathlib import Path

from truerank.core.errors import InvalidData, MissingDependency
from truerank.core.progress import SILENT, Progress, Task, tracked
from truerank.data.dataset import RemoteFile


def download(
    file: RemoteFile, *, name: str, folder: str | Path | None = None, progress: Progress = SILENT
) -> Path:
    """Return the path of the downloaded file (the member, if the file is an archive).

    A file that is already there with the right checksum is not downloaded again. Nothing half-written is
    left behind.

    Parameters
    ----------
    file : what to download
    name : the data set, for its folder and for messages
    folder : where to put it; by default the user's cache (see ``pooch.os_cache``)

    Raises
    ------
    MissingDependency
        Without pooch.
    InvalidData
        When there is no connection, the server refuses, or the checksum differs.
    """
    try:
        import pooch
    except ImportError:
        raise MissingDependency("downloading data", "pooch", extra="data") from None
    target = Path(folder) if folder is not None else Path(pooch.os_cache("truerank"))
    target = target / name
    filename = file.url.rsplit("/", 1)[-1]
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with tracked(progress, f"downloading {filename}") as task:
            downloader = pooch.HTTPDownloader(progressbar=_Bar(task), chunk_size=1 << 16, timeout=30)
            path = pooch.retrieve(
                file.url, file.checksum or None, fname=filename, path=target, downloader=downloader
            )
    except (OSError, ValueError) as error:  # requests' errors are OSError, pooch's checksum a ValueError
        raise _sentence(file, name, error) from None
    finally:
        logger.setLevel(level)
    return _member(Path(path), file) if file.member else Path(path)


def _member(archive: Path, file: RemoteFile) -> Path:
    """Unpack one member of a zip archive beside it."""
    target = archive.parent / Path(file.member).name
    if target.exists() and target.stat().st_mtime >= archive.stat().st_mtime:
        return target
    try:
        with zipfile.ZipFile(archive) as packed, packed.open(file.member) as source:
            unfinished = target.with_name(target.name + ".part")
            with unfinished.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
            unfinished.replace(target)
    except (zipfile.BadZipFile, KeyError):
        raise InvalidData(
            f"'{archive}' must be a zip archive with {file.member!r} inside, but it is not. Remove it and "
            f"download it again."
        ) from None
    return target


def _sentence(file: RemoteFile, name: str, error: Exception) -> InvalidData:
    if isinstance(error, ValueError) and "hash" in str(error).lower():
        return InvalidData(
            f"{file.url} must have the checksum {file.checksum}, but what came has another: the source has "
            f"changed or the transfer failed. Try again later."
        )
    source = Path(file.member or file.url.rsplit("/", 1)[-1])
    return InvalidData(
        f"{name!r} cannot be downloaded from {file.url} ({_reason(error)}). Try again later, or put "
        f"{source.name!r} as {name + ''.join(source.suffixes)!r} into the folder $TRUERANK_DATA."
    )


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answers {response.status_code}"
    if isinstance(error, OSError) and "Connection" in type(error).__name__:
        return "no connection"
    return type(error).__name__


class _Bar:
    """What pooch calls a progress bar, in terms of a task."""

    total: int = 0

    def __init__(self, task: Task) -> None:
        self._task = task

    def update(self, size: int) -> None:
        self._task.advance(size)

    def reset(self) -> None:
        self._task = _Finished()

    def close(self) -> None:
        pass


class _Finished:
    def advance(self, steps: int = 1) -> None:
        """Ignore what pooch reports again at the end."""
