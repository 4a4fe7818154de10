"""Downloads of the catalogue: over https only, checked by a checksum, and unpacked with limits.

A file must have the checksum that the catalogue states. Where none is known, that of the first download is
recorded beside the file, as ``sha256sum`` writes it, and later downloads must have it. A file takes its place
only after it was checked, so that what lies there is whole.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

from truerank.core.checkpoint import MOST_RATIO, MOST_UNPACKED, make_folder, replace_file, replace_text
from truerank.core.errors import InvalidData, MissingDependency
from truerank.core.progress import SILENT, Progress, ProgressTask, tracked
from truerank.data.datasets import RemoteFile

#: No file of the catalogue has as many bytes; a server that sends more is not listened to.
MOST_BYTES = 1 << 35
_CHUNK = 1 << 16
_WHAT = "the downloaded file"


def download(
    file: RemoteFile,
    *,
    name: str,
    folder: str | Path | None = None,
    progress: Progress = SILENT,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Download a file of the catalogue and return its path (that of the member, if it is an archive).

    An existing file with the right checksum is not downloaded again. No partial file is left behind.

    Parameters
    ----------
    file : what to download
    name : the data set, for its folder and for messages
    folder : where to put it; by default the user's cache (see ``pooch.os_cache``)
    progress : where the download is shown
    tell : gets a sentence when a checksum is recorded, and when a damaged file is downloaded again

    Raises
    ------
    MissingDependency
        Without pooch.
    InvalidData
        When there is no connection, the server refuses or leads to an address without https, or the file has
        another checksum than the catalogue or the first download.
    InvalidParameter
        When the file cannot be written.
    """
    try:
        import pooch
    except ImportError:
        raise MissingDependency("downloading data", "pooch", extra="data") from None
    target = (Path(folder) if folder is not None else Path(pooch.os_cache("truerank"))) / name
    path = target / file.url.rsplit("/", 1)[-1]
    record = path.with_name(f"{path.name}.sha256")
    expected = file.checksum or _recorded(record)
    tell = tell or _ignore
    if path.is_file() and expected and _checksum(path, expected) != expected:
        tell(f"'{path}' does not have the checksum {expected}; it is downloaded again.")
        is_here = False
    else:
        is_here = path.is_file()
    if not is_here:
        check_address(file.url)
        make_folder(target, _WHAT)
        with tracked(progress, f"downloading {path.name}") as task:
            replace_file(path, _Transfer(file, name, expected, record, task).fill, _WHAT)
    if not expected:
        found = _checksum(path, "sha256:")
        replace_text(record, f"{found.removeprefix('sha256:')}  {path.name}\n", "the checksum")
        tell(
            f"No checksum of {file.url} is known: {found} is recorded in '{record}', and later downloads "
            "must have it."
        )
    return unpack_member(path, file.member) if file.member else path


def check_address(url: str) -> None:
    """Raise unless an address is one of https, which nobody on the way can change.

    Examples
    --------
    >>> check_address("https://example.org/ratings.csv")
    """
    if urlsplit(url).scheme != "https":
        raise InvalidData(
            f"data must be downloaded over https, but the address is {url}. Download it by hand if you trust "
            "the way."
        )


class _Transfer:
    """A download as pooch writes it: counted, hashed, and refused at its end where it is another file."""

    def __init__(self, file: RemoteFile, name: str, expected: str, record: Path, task: ProgressTask) -> None:
        self.file, self.name, self.expected, self.record, self.task = file, name, expected, record, task
        self.hash = hashlib.new(_algorithm(expected))
        self.size = 0
        self.part: BinaryIO

    def fill(self, part: BinaryIO) -> None:
        """Download into an open file."""
        import pooch
        import requests

        self.part = part
        answers: list[Any] = []
        # the bytes as they lie on the server: what is sent compressed has another length than is announced
        options = {"headers": {"Accept-Encoding": "identity"}, "hooks": {"response": [_noted(answers)]}}
        try:
            pooch.HTTPDownloader(chunk_size=_CHUNK, timeout=30, **options)(self.file.url, self, None)
        except requests.RequestException as error:
            raise _sentence(self.file, self.name, error) from None
        finally:
            for answer in answers:
                answer.close()
        found = f"{_algorithm(self.expected)}:{self.hash.hexdigest()}"
        if self.expected and found != self.expected:
            raise self._changed(found)

    def write(self, data: bytes) -> None:
        """Take some bytes."""
        self.size += len(data)
        if self.size > MOST_BYTES:
            raise InvalidData(
                f"{self.file.url} must have at most {MOST_BYTES:,} bytes, but more came. Try again later."
            )
        self.hash.update(data)
        self.part.write(data)
        self.task.advance(len(data))

    def flush(self) -> None:
        """Do nothing; the file is put on the disk at its end."""

    def _changed(self, found: str) -> InvalidData:
        if self.file.checksum:
            return InvalidData(
                f"{self.file.url} must have the checksum {self.expected}, but what came has {found}: the "
                "source has changed or the transfer failed. Try again later."
            )
        return InvalidData(
            f"{self.file.url} must be what was downloaded first ({self.expected} in '{self.record}'), but "
            f"what came has {found}. Remove that file if you trust the new one."
        )


def _noted(answers: list[Any]) -> Callable[..., None]:
    """Return what requests shall do with each answer of a server: keep it, and refuse to leave https."""

    def note(response: Any, **_: Any) -> None:
        answers.append(response)
        if response.is_redirect:
            check_address(urljoin(response.url, response.headers["location"]))

    return note


def _sentence(file: RemoteFile, name: str, error: Exception) -> InvalidData:
    source = Path(file.member or file.url.rsplit("/", 1)[-1])
    return InvalidData(
        f"{name!r} cannot be downloaded from {file.url} ({_reason(error)}). Try again later, or put "
        f"{source.name!r} as {name + ''.join(source.suffixes)!r} into the folder $TRUERANK_DATA."
    )


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    kind = type(error).__name__
    if response is not None and "HTTP" in kind:
        return f"the server answers {response.status_code}"
    if kind == "SSLError":
        return "the certificate of the server is not trusted"
    if kind == "ChunkedEncodingError":
        return "the connection broke"
    return "no connection" if "Connect" in kind else kind


def _ignore(_: str) -> None:
    """Tell nobody."""


def _algorithm(checksum: str) -> str:
    return checksum.partition(":")[0] or "sha256"


def _checksum(path: Path, like: str) -> str:
    """Return the checksum of a file in the form of another one."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, _algorithm(like))
    return f"{_algorithm(like)}:{digest.hexdigest()}"


def _recorded(record: Path) -> str:
    """Return the checksum that the first download had, nothing before it."""
    if not record.is_file():
        return ""
    match = re.match(r"([0-9a-f]{64})\s", record.read_text(encoding="utf-8", errors="replace"))
    if match is None:
        raise InvalidData(
            f"'{record}' must hold the checksum of the first download, as sha256sum writes it, but it does "
            "not. Remove it, and the file beside it if you do not trust that."
        )
    return f"sha256:{match[1]}"


def unpack_member(archive: Path, member: str) -> Path:
    """Unpack one member of a zip archive into the same folder, and return its path.

    A file that is there already must have the length and the CRC that the archive tells; otherwise it is
    unpacked anew. No other path than that of the member's own name is ever written.

    Raises
    ------
    InvalidData
        When this is no whole archive, or the member is missing, encrypted, a link or a folder, or would
        unpack to more than ``MOST_UNPACKED`` bytes and ``MOST_RATIO`` times its packed length.
    """
    target = archive.parent / Path(member).name
    try:
        with zipfile.ZipFile(archive) as packed:
            about = packed.getinfo(member)
            _check_member(about)
            if target.is_file() and _is_as_packed(target, about):
                return target
            replace_file(target, lambda part: _unpack(packed, about, part), "the unpacked file")
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, RuntimeError, zlib.error) as error:
        if isinstance(error, InvalidData):
            raise
        raise InvalidData(
            f"'{archive}' must be a zip archive with {member!r} inside, but it is not ({_told(error)}). "
            "Remove it and download it again."
        ) from None
    return target


def _unpack(packed: zipfile.ZipFile, about: zipfile.ZipInfo, part: BinaryIO) -> None:
    with packed.open(about) as source:  # checks the CRC at its end
        shutil.copyfileobj(source, part, 1 << 20)
    if part.tell() != about.file_size:
        raise zipfile.BadZipFile("the member is not as long as it says")


def _told(error: Exception) -> str:
    return str(error.args[0] if error.args else type(error).__name__).strip(".")


def _check_member(about: zipfile.ZipInfo) -> None:
    mode = about.external_attr >> 16
    if about.is_dir() or (mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode)):
        raise zipfile.BadZipFile("the member is not a file")
    most = max(MOST_UNPACKED, MOST_RATIO * about.compress_size)
    if about.file_size > most:
        raise zipfile.BadZipFile(
            f"the member would unpack to {about.file_size:,} bytes, and at most {most:,} are allowed"
        )


def _is_as_packed(path: Path, about: zipfile.ZipInfo) -> bool:
    """Whether a file has the length and the CRC of a member."""
    if path.stat().st_size != about.file_size:
        return False
    found = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found = zlib.crc32(block, found)
    return found == about.CRC
