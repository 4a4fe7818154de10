"""A full, limited or read-only disk under every option that writes: one sentence, exit code 2, nothing left.

`CASES` holds a call for every option that names a file or folder to write. The size of files is limited to
one byte, as a quota would do it, so that every writer fails although its folder takes a new file; where Linux
lets a process mount, the same calls meet a disk that is full and one that is read-only.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.conftest import Truerank
from tests.models.slow.server import serving
from truerank.cli.main import run, whole_command

resource = pytest.importorskip("resource", reason="limits of file sizes are those of Unix")

SHOWN = (".json", ".csv", ".md", ".tex", ".txt")
TABLES = (".parquet", ".csv", ".tsv")
EVALUATE = ("evaluate", "EVENTS", "--model", "popularity", "--metrics", "mrr")
PRECISE = ("--metrics", "recall@5", "--precision", "0.1", "--proxy", "popularity")
AGREEMENT = (
    *(
        "agreement",
        "EVENTS",
        "--strategies",
        "random-user",
        "--fractions",
        "0.5",
        "--models",
        "popularity,bias-only",
    ),
    *("--seeds", "1", "--resamples", "50"),
)
STUDY = ("study", "EVENTS", "--model", "popularity", "--repeats", "2", "--cutoffs", "1-3", "--no-posterior")
COMPARE = ("compare", "RANKS", "OTHER", "--metrics", "mrr", "--n-items", "200", "--resamples", "200")
DECIDE = (
    *("compare", "--data", "EVENTS", "--model", "SERVICE", "--model", "popularity", "--decide"),
    *("--metrics", "recall@5", "--proxy", "popularity"),
)
SUBSAMPLE = ("--strategy", "random-user", "--fraction", "0.5")
#: (command, option) -> the call without the option, and what the name of the file may end in ("": a folder)
CASES: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {
    ("evaluate", "--out"): (EVALUATE, SHOWN),
    ("evaluate", "--ranks-out"): (EVALUATE, (".parquet", ".csv")),
    ("evaluate", "--report"): (EVALUATE, (".html",)),
    ("evaluate", "--scores"): (("evaluate", "EVENTS", "--model", "SERVICE", *PRECISE), (".db",)),
    ("evaluate", "--work-dir"): ((*EVALUATE, "--engine", "local(threads=1)"), ("",)),
    ("sample", "--out"): (("sample", "EVENTS", "--model", "popularity"), TABLES),
    ("estimate", "--out"): (("estimate", "PILOT", "--no-bounds", "--estimator", "naive"), SHOWN[:1]),
    ("estimate", "--report"): (("estimate", "PILOT", "--no-bounds", "--estimator", "naive"), (".html",)),
    ("compare", "--out"): (COMPARE, SHOWN[:1]),
    ("compare", "--report"): (COMPARE, (".html",)),
    ("compare", "--scores"): (DECIDE, (".db",)),
    ("plan", "--out"): (("plan", "--scale", "1e3x1e4"), SHOWN[:1]),
    ("fit", "--out"): (("fit", "EVENTS", "--model", "popularity"), (".truerank",)),
    ("study", "--keep"): (STUDY, ("",)),
    ("study", "--out"): (STUDY, SHOWN[:1]),
    ("study", "--report"): (STUDY, (".html",)),
    ("subsample", "--out"): (("subsample", "EVENTS", *SUBSAMPLE), TABLES),
    ("subsample", "--work-dir"): (("subsample", "FOLDER", *SUBSAMPLE, "--out", "ELSEWHERE"), ("",)),
    ("agreement", "--keep"): (AGREEMENT, ("",)),
    ("agreement", "--out"): (AGREEMENT, SHOWN[:1]),
    ("agreement", "--report"): (AGREEMENT, (".html",)),
    ("list", "--out"): (("list", "models"), SHOWN),
    ("trec", "--out"): (("trec", "RUN", "QRELS", "--metrics", "mrr"), SHOWN[:1]),
    ("data list", "--out"): (("data", "list"), SHOWN[:1]),
    ("data describe", "--out"): (("data", "describe", "ml-1m"), SHOWN[:1]),
    ("paper list", "--out"): (("paper", "list"), SHOWN[:1]),
    ("paper run", "--out"): (("paper", "run", "r19.figure1", "--fresh"), ("",)),
    ("paper run", "--report"): (("paper", "run", "r19.table1", "--fresh"), (".html",)),
    ("paper run", "--keep"): (("paper", "run", "r19.table1"), ("",)),
}
#: options whose help or type speaks of files and which write none
READING = {
    ("evaluate", "--test"),
    ("compare", "--test"),
    ("plan", "--pilot"),
    ("paper list", "--keep"),
    ("subsample", "--split"),
    ("subsample", "--gather"),
    ("subsample", "--engine"),
}
CALLS = [
    *((call, option, suffix) for (_, option), (call, suffixes) in CASES.items() for suffix in suffixes),
    (("subsample", "FOLDER", *SUBSAMPLE), "--out", ""),
]


def options_of(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all options below a command, each with the words that call its command."""
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            yield from options_of(one, f"{path} {name}".strip())
    else:
        yield from ((path, one) for one in command.params if hasattr(one, "is_flag") and not one.is_flag)


def test_every_option_that_writes_has_a_case() -> None:
    """A new option of a path, or whose help speaks of writing, needs a case here or a place in READING."""
    found = {
        (command, max(one.opts, key=len))
        for command, one in options_of(whole_command())
        if "Path" in str(one.type_descriptor.annotation)
        or re.search(r"\b(re)?writes?\b|\bfolder\b", one.help or "", re.IGNORECASE)
    }
    assert found == set(CASES) | READING


@pytest.fixture
def places(files: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """The files that calls read, a service, and a folder for what they write beside the option."""
    folder, other = tmp_path / "folder", tmp_path / "other.csv"
    folder.mkdir()
    pl.read_csv(files["EVENTS"]).write_parquet(folder / "one.parquet")
    pl.read_csv(files["RANKS"]).with_columns(rank=1 + pl.col("rank") // 2).write_csv(other)
    with serving(lambda users, items: [float(len(item)) for item in items]) as server:
        yield {
            **files,
            "FOLDER": str(folder),
            "OTHER": str(other),
            "ELSEWHERE": str(tmp_path / "elsewhere"),
            "SERVICE": f"http(url={server.url}, version=1)",
        }


def arguments(call: tuple[str, ...], option: str, path: Path, places: dict[str, str]) -> list[str]:
    return ["-q", *(places.get(one, one) for one in call), option, str(path)]


def prepared(folder: Path, call: tuple[str, ...], option: str, suffix: str) -> Path:
    """Return where to write: over an earlier file, or into a folder that is new where it may be."""
    path = folder / f"there{suffix}"
    if suffix == ".db":
        path.touch()  # scores are added to what is there, and nothing but nothing can be
    elif suffix:
        path.write_text("earlier")
    elif (*call[:2], option) == ("paper", "run", "--out"):
        path.mkdir()
    return path


def before_it(suffix: str) -> dict[str, str]:
    """What `left_in` finds where nothing was written."""
    return {f"there{suffix}": "" if suffix == ".db" else "earlier"} if suffix else {}


def left_in(folder: Path) -> dict[str, str]:
    """Return what all files below a folder hold, hidden ones too."""
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: path.read_bytes().decode(errors="replace") for name, path in found.items()}


def refusal(said: str, reason: str) -> str:
    """Return the path in the sentence that is all that was said, or nothing."""
    told = re.fullmatch(
        r"truerank: .*? must be written to '(.*)', but that failed \((.*)\)\. [^.]*\.\n", said
    )
    return told[1] if told is not None and told[2] == reason and "Traceback" not in said else ""


@contextmanager
def limited(size: int) -> Iterator[None]:
    """No file of this process may become longer than ``size`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "option", "suffix"), CALLS, ids=lambda one: one if isinstance(one, str) else " ".join(one[:2])
)
def test_quota(
    truerank: Truerank,
    places: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: tuple[str, ...],
    option: str,
    suffix: str,
) -> None:
    """Folders take new files, but none of more than a byte: every writer fails at the end of the work."""
    roomy, small = tmp_path / "roomy", tmp_path / "small"
    for folder in (roomy, small):
        folder.mkdir()
    path = prepared(roomy, call, option, suffix)
    done = truerank(*arguments(call, option, path, {**places, "ELSEWHERE": str(roomy / "elsewhere")}))
    assert done.code == 0, done.err
    assert path.read_bytes() not in (b"earlier", b"") if suffix else any(path.rglob("*"))
    monkeypatch.setattr(tempfile, "tempdir", str(small))  # a work folder without a name lies there
    path = prepared(small, call, option, suffix)
    with limited(1):
        done = truerank(*arguments(call, option, path, places))
    assert done.code == 2 and refusal(done.err, "File too large").startswith(str(small)), done.err
    assert left_in(small) == before_it(suffix)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", [("list", "models"), ("--version",)])
def test_full_stdout(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "truerank", *command], stdout=full, stderr=subprocess.PIPE, text=True
        )
    sentence = (
        "truerank: the output must be written, but that failed (No space left on device). Make room for it."
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, sentence)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_full_stderr() -> None:
    """Nothing can be said then; the exit code says it."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "truerank", "evaluate", "none.csv", "--model", "popularity"], stderr=full
        )
    assert done.returncode == 2


DISKS = """\
mount -t tmpfs -o size=16k none "$1" && mount -t tmpfs -o size=64k none "$2" && shift 2 && exec "$@"
"""


@pytest.mark.slow
def test_full_and_read_only_disks(places: dict[str, str], tmp_path: Path) -> None:
    """Real ones, in a mount namespace of a process of its own."""
    disks = [tmp_path / "full", tmp_path / "locked"]
    for disk in disks:
        disk.mkdir()
    spaced = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", DISKS, "sh", *map(str, disks)]
    if shutil.which("unshare") is None or subprocess.run([*spaced, "true"], capture_output=True).returncode:
        pytest.skip("this system lets no process mount a disk of its own")
    told = json.dumps({"disks": list(map(str, disks)), "places": places})
    done = subprocess.run(
        [*spaced, sys.executable, "-m", "tests.cli.test_disk", told], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) == 2 * len(CALLS)
    for disk, call, option, suffix, code, said, left in rows:
        reason = {"full": "No space left on device", "locked": "Read-only file system"}[disk]
        assert (code, bool(refusal(said, reason))) == (2, True), (disk, call, option, said)
        assert left == before_it(suffix), (disk, call, option)


def attempt_all(disks: list[str], places: dict[str, str]) -> None:
    """Print as JSON what each call does on a full and on a read-only disk."""
    rows = []
    for disk in map(Path, disks):
        for call, option, suffix in CALLS:
            path = prepared(disk, call, option, suffix)
            if disk.name == "full":
                fill(disk / "filler")
            else:
                subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            code, said = run_quietly(arguments(call, option, path, places))
            subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
            (disk / "filler").unlink(missing_ok=True)
            rows.append((disk.name, call, option, suffix, code, said, left_in(disk)))
            for one in disk.iterdir():
                one.rmdir() if one.is_dir() else one.unlink()
    print(json.dumps(rows))


def fill(path: Path) -> None:
    """Make a disk full."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))


def run_quietly(arguments: list[str]) -> tuple[int, str]:
    """Run the command line; return its exit code and what it said."""
    sys.argv, said = ["truerank", *arguments], io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        try:
            run()
        except SystemExit as stopped:
            return int(stopped.code or 0), said.getvalue()
    return 0, said.getvalue()


if __name__ == "__main__":
    attempt_all(**json.loads(sys.argv[1]))
