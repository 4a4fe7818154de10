"""Downloads: over https, checked, recorded, unpacked with limits; every failure is a sentence."""

from __future__ import annotations

import builtins
import errno
import hashlib
import io
import os
import ssl
import stat
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from truerank.core import checkpoint
from truerank.core.errors import InvalidData, InvalidParameter, MissingDependency
from truerank.data import catalogue
from truerank.data import download as download_module
from truerank.data.catalogue import fetch, load
from truerank.data.datasets import Dataset, RemoteFile, datasets
from truerank.data.download import check_address, unpack_member

CERTIFICATE = Path(__file__).with_name("loopback.pem")


class Server(SimpleHTTPRequestHandler):
    """A quiet server; below /moved/ it leads to its own file, below /plain/ to one without https."""

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        first, _, rest = self.path.strip("/").partition("/")
        port = self.server.server_port  # type: ignore[attr-defined]
        if first in ("moved", "plain"):
            self.send_response(302)
            self.send_header(
                "Location", f"/{rest}" if first == "moved" else f"http://127.0.0.1:{port}/{rest}"
            )
            self.end_headers()
        elif first == "short":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"user,item\n")
        else:
            super().do_GET()


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder and the address under which it is served, with a certificate that is trusted."""
    folder = tmp_path / "web"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=str(folder)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield folder, f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def nothing_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_folders", list)


def register(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    entry = Dataset(**{"name": "toy", "description": "", "homepage": "", "licence": "", **fields})
    monkeypatch.setitem(datasets(), entry.name, entry)


def zipped(member: str, text: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, text)
    return packed.getvalue()


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_zip(web: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, address = web
    packed = zipped("toy/ratings.dat", "1::10::5::100\n2::20::4::200\n")
    (folder / "toy.zip").write_bytes(packed)
    file = RemoteFile(f"{address}/toy.zip", "md5:" + hashlib.md5(packed).hexdigest(), "toy/ratings.dat")
    register(monkeypatch, files=(file,))
    cache = tmp_path / "cache"
    (path,) = fetch("toy", folder=cache)
    assert path == cache / "toy" / "ratings.dat"
    assert len(load("toy", folder=cache)) == 2
    (folder / "toy.zip").unlink()
    assert fetch("toy", folder=cache) == [path], "a file with the right checksum is not downloaded again"
    assert names_in(cache) == ["ratings.dat", "toy.zip"]
    for changed in ("1::10::5::100\n2::20::4::999\n", "short"):
        path.write_text(changed)
        assert len(load("toy", folder=cache)) == 2, "a member that was changed is unpacked anew"


def test_parts(web: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several files become one data set with a label column."""
    folder, address = web
    (folder / "toy.train.rating").write_text("0\t1\t1\t0\n0\t2\t1\t0\n")
    (folder / "toy.test.rating").write_text("0\t3\t1\t0\n")
    files = tuple(RemoteFile(f"{address}/toy.{part}.rating", part=part) for part in ("train", "test"))
    columns = {"user": "1", "item": "2", "rating": "", "timestamp": ""}
    register(monkeypatch, files=files, part_column="ncf_split", columns=columns)
    events = load("toy", folder=tmp_path / "cache", keep=["ncf_split"])
    assert events.labels["ncf_split"].tolist() == ["train", "train", "test"]
    assert events.time is None
    assert len(names_in(tmp_path / "cache")) == 4, "each with its record"


def test_progress(web: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, address = web
    (folder / "toy.csv").write_text("user,item\n1,2\n")
    register(monkeypatch, files=(RemoteFile(f"{address}/toy.csv"),))
    seen: list[str | int] = []

    class Recorder:
        def task(self, label: str, total: int | None = None) -> Recorder:
            seen.append(label)
            return self

        def advance(self, steps: int = 1) -> None:
            seen.append(steps)

        def done(self, task: object) -> None:
            seen.append("done")

    fetch("toy", folder=tmp_path, progress=Recorder())
    assert seen == ["downloading toy.csv", 14, "done"]


def test_the_first_download_is_recorded(
    web: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a known checksum that of the first download holds: a change of the source is refused."""
    folder, address = web
    first, second = b"user,item\n1,2\n", b"user,item\n1,3\n"
    (folder / "toy.csv").write_bytes(first)
    register(monkeypatch, files=(RemoteFile(f"{address}/toy.csv"),))
    cache = tmp_path / "cache"
    said: list[str] = []
    (path,) = fetch("toy", folder=cache, tell=said.append)
    record = path.with_name("toy.csv.sha256")
    assert record.read_text() == f"{hashlib.sha256(first).hexdigest()}  toy.csv\n"
    assert said == [
        f"No checksum of {address}/toy.csv is known: {sha256(first)} is recorded in '{record}', and later "
        "downloads must have it."
    ]
    (folder / "toy.csv").write_bytes(second)
    assert fetch("toy", folder=cache, tell=said.append) == [path] and len(said) == 1
    path.unlink()
    changed = (
        rf"toy.csv must be what was downloaded first \({sha256(first)} in '.*toy.csv.sha256'\), but what "
        rf"came has {sha256(second)}. Remove that file if you trust the new one"
    )
    with pytest.raises(InvalidData, match=changed):
        fetch("toy", folder=cache)
    assert names_in(cache) == ["toy.csv.sha256"], "nothing of the new file is left"
    record.unlink()
    assert fetch("toy", folder=cache)[0].read_bytes() == second


def test_damaged_files_are_downloaded_again(
    web: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = web
    whole = b"user,item\n1,2\n"
    (folder / "toy.csv").write_bytes(whole)
    cache, said = tmp_path / "cache", list[str]()
    for checksum in ("", sha256(whole)):
        register(monkeypatch, files=(RemoteFile(f"{address}/toy.csv", checksum),))
        (path,) = fetch("toy", folder=cache)
        path.write_bytes(whole[:-1])
        assert fetch("toy", folder=cache, tell=said.append)[0].read_bytes() == whole
        assert said.pop() == f"'{path}' does not have the checksum {sha256(whole)}; it is downloaded again."


def test_an_earlier_file_without_a_record_gets_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, files=(RemoteFile("https://127.0.0.1:9/toy.csv"),))
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "toy.csv").write_text("user,item\n1,2\n")
    assert len(load("toy", folder=tmp_path)) == 1
    assert names_in(tmp_path) == ["toy.csv", "toy.csv.sha256"]


def test_a_damaged_record_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, files=(RemoteFile("https://127.0.0.1:9/toy.csv"),))
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "toy.csv.sha256").write_bytes(b"\xff")
    with pytest.raises(InvalidData, match=r"toy.csv.sha256' must hold the checksum of the first download"):
        fetch("toy", folder=tmp_path)


@pytest.mark.parametrize(
    ("content", "place", "file", "sentence"),
    [
        (
            b"x",
            "toy.zip",
            {"checksum": "md5:" + "0" * 32},
            "must have the checksum md5:0+, but what came has md5:9dd4e461268c8034f5c8564e155c67a6: the",
        ),
        (
            None,
            "toy.zip",
            {},
            r"cannot be downloaded from .*toy.zip \(the server answers 404\).*put 'toy.zip' as 'toy.zip'",
        ),
        (b"x", "plain/toy.zip", {}, r"data must be downloaded over https, but the address is http://127"),
        (b"x", "short/toy.zip", {}, r"cannot be downloaded from .*toy.zip \(the connection broke\)"),
        (b"no zip", "toy.zip", {"member": "ratings.csv"}, "with 'ratings.csv' inside, but it is not"),
        (
            zipped("other.csv", ""),
            "toy.zip",
            {"member": "ratings.csv"},
            "must be a zip archive with 'ratings.csv' inside, but it is not .*no item named",
        ),
    ],
)
def test_failed_downloads(
    web: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    content: bytes | None, place: str, file: dict[str, str], sentence: str,
) -> None:  # fmt: skip
    folder, address = web
    if content is not None:
        (folder / "toy.zip").write_bytes(content)
    register(monkeypatch, files=(RemoteFile(f"{address}/{place}", **file),))
    with pytest.raises(InvalidData, match=sentence):
        fetch("toy", folder=tmp_path / "cache")
    assert names_in(tmp_path / "cache") == (["toy.zip", "toy.zip.sha256"] if "member" in file else [])


def test_redirects_within_https(
    web: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = web
    (folder / "toy.csv").write_text("user,item\n1,2\n")
    register(monkeypatch, files=(RemoteFile(f"{address}/moved/toy.csv"),))
    assert len(load("toy", folder=tmp_path / "cache")) == 1


def test_strangers_are_not_trusted(
    web: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = web
    (folder / "toy.csv").write_text("user,item\n1,2\n")
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    register(monkeypatch, files=(RemoteFile(f"{address}/toy.csv"),))
    with pytest.raises(InvalidData, match=r"\(the certificate of the server is not trusted\)"):
        fetch("toy", folder=tmp_path / "cache")


@pytest.mark.parametrize("url", ["http://x.org/a.csv", "ftp://x.org/a.csv", "file:///etc/passwd", "a.csv"])
def test_other_schemes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    with pytest.raises(InvalidData, match="must be downloaded over https"):
        check_address(url)
    register(monkeypatch, files=(RemoteFile(url),))
    with pytest.raises(InvalidData, match="must be downloaded over https"):
        fetch("toy", folder=tmp_path)
    assert names_in(tmp_path) == []


def test_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    register(monkeypatch, files=(RemoteFile("https://127.0.0.1:9/toy.zip", member="toy/ratings.csv"),))
    with pytest.raises(
        InvalidData, match=r"\(no connection\). Try again later, or put 'ratings.csv' as 'toy.csv'"
    ):
        fetch("toy", folder=tmp_path)


def test_endless_answers(web: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, address = web
    (folder / "toy.csv").write_bytes(bytes(2000))
    monkeypatch.setattr(download_module, "MOST_BYTES", 1000)
    register(monkeypatch, files=(RemoteFile(f"{address}/toy.csv"),))
    with pytest.raises(InvalidData, match=r"toy\.csv must have at most 1,000 bytes, but more came"):
        fetch("toy", folder=tmp_path / "cache")
    assert names_in(tmp_path / "cache") == []


def test_a_full_disk(web: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, address = web
    (folder / "toy.csv").write_bytes(bytes(100_000))
    register(monkeypatch, files=(RemoteFile(f"{address}/toy.csv"),))

    def full(part: Any, data: bytes) -> int:
        part.failure = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise part.failure

    monkeypatch.setattr(checkpoint._PartFile, "write", full)
    with pytest.raises(InvalidParameter, match=r"the downloaded file must be .* \(No space left on device\)"):
        fetch("toy", folder=tmp_path / "cache")
    assert names_in(tmp_path / "cache") == []


def archive_of(path: Path, *members: tuple[zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for about, content in members:
            archive.writestr(about, content, zipfile.ZIP_DEFLATED)
    return path


def test_hostile_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links, folders, bombs, wrong lengths and paths that lead elsewhere: refused, or unpacked beside it."""
    link = zipfile.ZipInfo("ratings.csv")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    cases = {
        "link": ((link, b"/etc/passwd"), "ratings.csv", "the member is not a file"),
        "folder": ((zipfile.ZipInfo("ratings/"), b""), "ratings/", "the member is not a file"),
        "bomb": ((zipfile.ZipInfo("ratings.csv"), bytes(10**6)), "ratings.csv", "would unpack to 1,000,000"),
    }
    monkeypatch.setattr(download_module, "MOST_UNPACKED", 1000)
    for name, (member, asked, reason) in cases.items():
        place = tmp_path / name
        place.mkdir()
        archive = archive_of(place / "toy.zip", member)
        with pytest.raises(InvalidData, match=f"must be a zip archive with '{asked}' inside, .*{reason}"):
            unpack_member(archive, asked)
        assert names_in(place) == ["toy.zip"]
    place = tmp_path / "inner"
    place.mkdir()
    archive = archive_of(place / "toy.zip", (zipfile.ZipInfo("../../ratings.csv"), b"1,2"))
    assert unpack_member(archive, "../../ratings.csv") == place / "ratings.csv"
    assert names_in(tmp_path).count("ratings.csv") == 1


@pytest.mark.slow
def test_changed_archives_are_refused(tmp_path: Path) -> None:
    """Bytes changed, one at a time: the member is what it was, or nothing is unpacked."""
    text = b"1::10::5::100\n2::20::4::200\n" * 3
    archive = archive_of(tmp_path / "toy.zip", (zipfile.ZipInfo("ratings.dat"), text))
    whole, target = archive.read_bytes(), tmp_path / "ratings.dat"
    n_refused = 0
    for at in range(len(whole)):
        archive.write_bytes(whole[:at] + bytes([whole[at] ^ 0x11]) + whole[at + 1 :])
        try:
            assert unpack_member(archive, "ratings.dat").read_bytes() == text
        except InvalidData:
            n_refused += 1
            assert not target.exists()
        target.unlink(missing_ok=True)
    assert n_refused > len(whole) / 3


def test_without_pooch(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name == "pooch":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(
        MissingDependency, match=r"downloading data needs pooch. .*pip install 'truerank\[data\]'"
    ):
        fetch("ml-20m")
