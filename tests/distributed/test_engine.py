"""The contract of engines, on threads and on engines that misbehave."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.cluster import CallOnce
from tests.distributed.jobs import Alone, Failing, Square, expected, squares
from truerank.core.checkpoint import Store
from truerank.core.errors import InvalidData, InvalidParameter, JobFailed, UnknownName
from truerank.distributed.engine import ENGINES, Engine, EngineTask, Failure, Job, TaskOutcome
from truerank.distributed.local import Local


@dataclass(frozen=True)
class Scripted(Engine):
    """Yields given outcomes."""

    script: tuple[TaskOutcome, ...] = ()

    def outcomes(self, job: Job, tasks: Sequence[EngineTask]) -> Generator[TaskOutcome, None, None]:
        yield from self.script


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_partials_come_in_the_order_of_the_tasks(threads: int) -> None:
    found = Local(threads).map(Square(), squares(30))
    assert found == expected(30)
    assert list(found) == [f"t{number}" for number in range(30)]


def test_no_tasks() -> None:
    assert Local().map(Square(), []) == {}


def test_a_task_counts_once() -> None:
    script = (TaskOutcome("t1", b"first"), TaskOutcome("t0", b"zero"), TaskOutcome("t1", b"second"))
    rows = CallOnce(lambda: None)
    found = Scripted(script=script).map(Square(), squares(2), progress=rows)
    assert found == {"t0": b"zero", "t1": b"first"}
    assert rows.rows == 2


def test_a_missing_task_is_an_error() -> None:
    with pytest.raises(JobFailed, match=r"2 of 3 returned none, such as t0\. Run it again"):
        Scripted(script=(TaskOutcome("t1", b"one"),)).map(Square(), squares(3))


def test_ids_must_differ() -> None:
    with pytest.raises(InvalidParameter, match="task ids must be unique within a job"):
        Local().map(Square(), [EngineTask("a"), EngineTask("a")])


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        (
            Failure("InvalidData", "Scores must be numbers.", "host, process 7"),
            InvalidData,
            "raised on host, pro",
        ),
        (
            Failure("KeyError", "'x'", "host, process 7"),
            JobFailed,
            "t0 failed on host, process 7 with KeyError",
        ),
        (
            Failure("JobFailed", "Versions differ.", "host, process 7"),
            JobFailed,
            r"^Versions differ\. \(raised",
        ),
        (Failure("suggestion", "a function of errors", "host"), JobFailed, "with suggestion"),
    ],
)
def test_failures_keep_their_words(failure: Failure, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        Scripted(script=(TaskOutcome("t0", failure=failure),)).map(Square(), squares(1))


def test_local_errors_are_those_of_the_task() -> None:
    with pytest.raises(InvalidData, match=r"^payloads must not be 3\.$"):
        Local(2).map(Failing(name="data"), squares(9))
    with pytest.raises(ZeroDivisionError, match="three is not allowed"):
        Local(2).map(Failing(), squares(9))


def test_finished_tasks_are_kept(tmp_path: Path) -> None:
    """A job that fails at task 3 and is run again does the tasks that are missing, and no others."""
    store, runs = Store(tmp_path / "kept"), tmp_path / "runs"
    runs.mkdir()
    job = Failing(str(runs), name="data")
    with pytest.raises(InvalidData):
        Local(1).map(job, squares(6), store=store)
    assert sorted(path.name.split(".")[0] for path in runs.glob("run-*")) == ["run-t0", "run-t1", "run-t2"]
    rows = CallOnce(lambda: None)
    again = Square(str(runs), name="data")
    assert Local(1).map(again, squares(6), store=Store(tmp_path / "kept"), progress=rows) == expected(6)
    names = [path.name.split(".")[0] for path in runs.glob("run-*")]
    assert sorted(names) == [f"run-t{number}" for number in range(6)]
    assert rows.rows == 6


def test_a_store_knows_the_job(tmp_path: Path) -> None:
    store = Store(tmp_path)
    Local(1).map(Square(name="one"), squares(2), store=store)
    fails = Failing(name="zero")
    with pytest.raises(ZeroDivisionError):
        Local(1).map(fails, squares(4), store=store)


def test_a_process_opens_a_job_once(tmp_path: Path) -> None:
    Local(4).map(Square(str(tmp_path), seconds=0.001), squares(20))
    assert len(list(tmp_path.glob("open.*"))) == 1


def test_jobs_that_must_run_alone(tmp_path: Path) -> None:
    assert set(Local(4).map(Alone(str(tmp_path)), squares(8)).values()) == {b"1"}


def test_an_interrupt_drops_what_has_not_begun(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Local(2).map(Square(str(tmp_path), seconds=0.02), squares(200), progress=CallOnce(interrupt))
    begun = len(list(tmp_path.glob("run-*")))
    time.sleep(0.1)
    assert begun == len(list(tmp_path.glob("run-*"))) < 20
    assert threading.active_count() < 20


@pytest.mark.parametrize(
    "spec",
    [
        "local",
        "local(threads=3)",
        "dask",
        "dask(address=tcp://10.0.0.1:8786)",
        "dask(workers=4, threads=2)",
        "spark(master=yarn)",
        "spark(master='local[2]')",
        "spark(master=sc://127.0.0.1:15002)",
    ],
)
def test_spec_strings(spec: str) -> None:
    engine = ENGINES.make(spec)
    assert str(engine) == spec
    assert ENGINES.make(str(engine)) == engine


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ("locl", UnknownName, "Did you mean 'local'"),
        ("local(threads=0)", InvalidParameter, "threads must be at least 1"),
        ("local(thread=1)", InvalidParameter, "Did you mean 'threads'"),
        ("dask(address=tcp://a:1, workers=2)", InvalidParameter, "only without an address"),
        ("dask(timeout=0)", InvalidParameter, "timeout must be greater than 0"),
        ("spark(waves=0)", InvalidParameter, "waves must be at least 1"),
    ],
)
def test_bad_specs(spec: str, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        ENGINES.make(spec)


def test_engines_are_described() -> None:
    assert {entry.name for entry in ENGINES.entries()} >= {"local", "dask", "spark"}
    assert all(entry.summary for entry in ENGINES.entries())
