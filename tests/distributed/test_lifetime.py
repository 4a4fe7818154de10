"""What is left when a driver is killed, and what a driver says that has lost all its workers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.distributed.cluster import ROOT, kill, needs_spark
from tests.distributed.driver import N_TASKS
from truerank.data.demo import demo
from truerank.distributed.lifetime import (
    ScratchFolder,
    is_abandoned_name,
    remote_scratch_name,
    remove_abandoned,
    scratch_folder,
)
from truerank.subsampling.subsample import write_events

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks are those of POSIX")

#: Starting an engine on a busy machine may take so long; it is no promise.
START_SECONDS = 300.0
#: What docs/cluster.md promises.
PROMISED_SECONDS = 60.0


def wait_until(what: Callable[[], bool], seconds: float, trouble: Callable[[], object]) -> float:
    """Wait for an event and return the seconds until it came."""
    begun = time.monotonic()
    while not what():
        assert time.monotonic() - begun < seconds, trouble()
        time.sleep(0.05)
    return time.monotonic() - begun


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def descendants(pid: int) -> set[int]:
    """Return the processes that a process has started, and those that these have."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(place.parent.name)] = int(place.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, before = {pid}, set[int]()
    while found != before:
        before = set(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found - {pid}


class Driver:
    """A driver process whose temporary files lie in a folder of its own."""

    def __init__(self, place: Path, engine: str, command: Sequence[str] = ()) -> None:
        self.runs, self.kept, self.temporary = place / "runs", place / "kept", place / "tmp"
        for folder in (self.runs, self.temporary):
            folder.mkdir()
        search = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        own = ["tests.distributed.driver", engine, str(self.runs), str(self.kept)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", *(command or own)],
            env=os.environ | {"PYTHONPATH": search, "TMPDIR": str(self.temporary)},
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def workers(self) -> set[int]:
        """Return the processes that have begun a task."""
        return {int(path.name.split(".")[1]) for path in self.runs.glob("run-*")}

    def wait_for_work(self, n_kept: int = 1) -> None:
        """Wait until some tasks are finished."""

        def is_at_work() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            finished = [*self.kept.glob("*.npz"), *self.temporary.glob("truerank-work-*/*.npz")]
            return len(finished) >= n_kept

        wait_until(is_at_work, START_SECONDS, lambda: "no task was finished")

    def left(self) -> list[str]:
        """Return what lies in the folder of temporary files."""
        return sorted(path.name for path in self.temporary.iterdir())


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    begun: list[Driver] = []

    def start(engine: str, *options: str) -> Driver:
        begun.append(Driver(tmp_path, engine, agreement(tmp_path, *options) if engine == PROCESSES else ()))
        return begun[-1]

    yield start
    for one in begun:
        for pid in descendants(one.process.pid) | {one.process.pid}:
            if is_alive(pid):
                kill(pid)
        one.process.communicate()


PROCESSES = "agreement --workers 2"


def agreement(place: Path, *options: str) -> list[str]:
    """Return a command that has finished four sub-samples soon and then fits models for minutes."""
    data = place / "demo.csv"
    write_events(data, demo(n_users=150, n_items=200))
    asked = ["--strategies", "random,head-user", "--fractions", "0.5,0.2", "--seeds", "1", "--workers", "2"]
    long = "mf(epochs=100000, patience=100000)"
    models = ["--models", f"popularity,{long}", "--scenario", "implicit(metrics=ndcg@10)"]
    return ["truerank", "agreement", str(data), *asked, *models, *options]


ENGINES_OF_PROCESSES = [
    PROCESSES,
    pytest.param("dask(workers=2)", marks=pytest.mark.cluster),
    pytest.param("spark(master='local[2]', waves=300)", marks=[pytest.mark.cluster, needs_spark]),
]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local(threads=1)", *ENGINES_OF_PROCESSES])
def test_a_killed_driver_leaves_no_process_and_no_folder(driver: Callable[..., Driver], engine: str) -> None:
    one = driver(engine)
    one.wait_for_work()
    assert one.left()
    begun = (descendants(one.process.pid) | one.workers()) - {one.process.pid}
    kill(one.process.pid)
    one.process.wait()

    def is_gone() -> bool:
        return not (one.left() or any(map(is_alive, begun)))

    seconds = wait_until(is_gone, PROMISED_SECONDS, lambda: (one.left(), [p for p in begun if is_alive(p)]))
    print(f"{engine}: nothing left {seconds:.1f} s after the driver was killed")


@pytest.mark.slow
@pytest.mark.cluster
def test_all_workers_of_dask_lost(driver: Callable[..., Driver]) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    one = driver("dask(workers=2)")
    one.wait_for_work(2)
    begun = time.monotonic()
    for pid in one.workers():
        kill(pid)
    _, said = one.process.communicate(timeout=2 * PROMISED_SECONDS)
    print(f"said {time.monotonic() - begun:.1f} s after the workers were killed: {said}")
    n_kept = len(list(one.kept.glob("*.npz")))
    assert one.process.returncode == 2
    assert f"all were lost after {n_kept} of {N_TASKS} tasks and none came back within 30 s" in said
    assert said.count("\n") == 1
    assert one.left() == []


@pytest.mark.slow
def test_worker_processes_lost_again_and_again(driver: Callable[..., Driver], tmp_path: Path) -> None:
    one = driver(PROCESSES, "--keep", str(tmp_path / "kept"))
    one.wait_for_work(5)  # four are sub-samples, whose workers may have ended; these fit models
    begun = time.monotonic()

    def is_given_up() -> bool:
        for pid in descendants(one.process.pid):
            with suppress(OSError):  # it has ended
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    kill(pid)
        return one.process.poll() is not None

    wait_until(is_given_up, 2 * PROMISED_SECONDS, lambda: "workers are started for ever")
    _, said = one.process.communicate()
    print(f"said {time.monotonic() - begun:.1f} s after the workers were killed: {said}")
    assert one.process.returncode == 2
    assert said.count("note: a worker process ended before its task was finished") >= 2
    assert "truerank: a worker process ended before its task was finished, 3 times in a row" in said
    assert "Traceback" not in said
    assert len(list(one.kept.glob("*.npz"))) >= 2
    assert one.left() == []


def test_folders_of_killed_processes_are_removed_by_the_next(tmp_path: Path) -> None:
    lost = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, sys\nfrom truerank.distributed import lifetime\n"
            "lifetime._tell_remover = lambda *_: None  # as if it was killed, too\n"
            "print(lifetime.ScratchFolder('work', sys.argv[1]).path)\n"
            "sys.stdout.flush(); os.kill(os.getpid(), 9)",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    left = Path(lost.stdout.strip())
    assert (lost.returncode, left.is_dir()) == (-9, True)
    mine, other = ScratchFolder("work", tmp_path), tmp_path / "truerank-work-of-somebody"
    other.mkdir()
    assert not left.exists()
    with scratch_folder("work", tmp_path) as third:
        assert Path(mine.path).is_dir()  # it is held
        assert Path(third).stat().st_mode & 0o777 == 0o700
    mine.close()
    assert list(tmp_path.iterdir()) == [other]


def test_folders_that_are_not_taken_for_abandoned(tmp_path: Path) -> None:
    """A new one that is not locked yet, a link, and one of another machine."""
    with scratch_folder("work", tmp_path) as made:
        name = Path(made).name
        marked = tmp_path / f"{name}-new"
        marked.mkdir()
        (tmp_path / f"{name}-link").symlink_to(marked)
        other = tmp_path / "truerank-work-000000-abcdefgh"
        other.mkdir()
        (other / "truerank.lock").touch()
        assert remove_abandoned(tmp_path, "work") == []
        (marked / "late.parquet").touch()  # of a task that outlived its driver
        os.utime(marked, (0, 0))
        assert remove_abandoned(tmp_path, "work") == [marked.name]
        assert other.is_dir()


def test_names_in_stores_without_locks() -> None:
    mine = remote_scratch_name("private")
    assert not is_abandoned_name(mine, "private")
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True)
    assert is_abandoned_name(mine.replace(f"-{os.getpid()}-", f"-{int(ended.stdout)}-"), "private")
    for name in ("truerank-private-0-1-2", mine.replace(f"-{os.getpid()}-", f"-{10**30}-"), "users"):
        assert not is_abandoned_name(name, "private")
