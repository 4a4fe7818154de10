"""Dask on a real scheduler and real workers; workers and schedulers are killed on the way."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.cluster import ROOT, CallOnce, kill, loopback
from tests.distributed.jobs import Failing, Square, expected, squares
from truerank.core.checkpoint import Store
from truerank.core.errors import InvalidData, JobFailed, MissingDependency
from truerank.distributed import dask as dask_engine
from truerank.distributed.dask import Dask, subprocess_cluster
from truerank.distributed.engine import ENGINES, started

pytestmark = pytest.mark.cluster
pytest.importorskip("distributed", reason="distributed is not installed")


def test_partials_are_those_of_threads(dask: Any, tmp_path: Path) -> None:
    rows = CallOnce(lambda: None)
    job = Square(str(tmp_path), seconds=0.01)
    assert Dask(dask.scheduler_address).map(job, squares(40), progress=rows) == expected(40)
    assert rows.rows == 40
    assert len(list(tmp_path.glob("run-*"))) == 40
    opened = [path.name.split(".")[1] for path in tmp_path.glob("open.*")]
    assert len(opened) == len(set(opened)) == 2  # once in each process


def test_a_failing_worker_is_quoted(dask: Any) -> None:
    with pytest.raises(
        InvalidData, match=r"^payloads must not be 3\. \(raised on .*, process \d+ in task t3\)"
    ):
        Dask(dask.scheduler_address).map(Failing(name="data"), squares(6))
    with pytest.raises(JobFailed, match=r"t3 failed on .* with ZeroDivisionError: three is not allowed"):
        Dask(dask.scheduler_address).map(Failing(), squares(6))


def test_versions_must_match(dask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_engine, "__version__", "99.1")
    with pytest.raises(
        JobFailed, match=r"must have truerank 99\.1 like the driver, but tcp://.* has truerank"
    ):
        Dask(dask.scheduler_address).map(Square(), squares(2))


def test_an_interrupt_cancels_the_tasks(dask: Any, tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Dask(dask.scheduler_address).map(
            Square(str(tmp_path), seconds=0.05), squares(200), progress=CallOnce(interrupt)
        )
    time.sleep(0.5)
    begun = len(list(tmp_path.glob("run-*")))
    time.sleep(0.5)
    assert begun == len(list(tmp_path.glob("run-*"))) < 100


def test_a_killed_worker_changes_nothing(tmp_path: Path) -> None:
    """The tasks and results of a worker that is killed in the middle are made again by the other one."""
    with loopback() as cluster:
        job = Square(str(tmp_path), seconds=0.03)

        def workers_that_ran() -> set[int]:
            return {int(path.name.split(".")[1]) for path in tmp_path.glob("run-*")}

        rows = CallOnce(lambda: kill(min(workers_that_ran())))
        assert Dask(cluster.scheduler_address).map(job, squares(60), progress=rows) == expected(60)
        assert rows.rows == 60
        assert workers_that_ran() == {worker.process.pid for worker in cluster.workers.values()}


def test_a_killed_scheduler_ends_the_job_and_finished_tasks_are_kept(tmp_path: Path) -> None:
    kept = Store(tmp_path / "kept")
    with loopback() as cluster:
        engine = Dask(cluster.scheduler_address, timeout=5)
        rows = CallOnce(lambda: kill(cluster.scheduler.process.pid))
        with pytest.raises(
            JobFailed, match=r"scheduler at tcp://.* was lost after \d+ of 300 tasks\. Start it"
        ):
            engine.map(Square(seconds=0.03), squares(300), progress=rows, store=kept)
    done = len(list((tmp_path / "kept").iterdir()))
    assert 1 <= done < 300
    assert ENGINES.make("local").map(Square(), squares(300), store=kept) == expected(300)


def test_a_scheduler_that_is_not_there() -> None:
    with pytest.raises(JobFailed, match=r"must answer at tcp://127\.0\.0\.1:9, but none did within 1 s"):
        Dask("tcp://127.0.0.1:9", timeout=1.0).map(Square(), squares(2))


@pytest.mark.parametrize("address", ["x", "tcp://host", "tls://host:port", ""])
def test_an_address_without_a_port(address: str) -> None:
    """Dask's client would take itself apart for a minute, and print a traceback."""
    with pytest.raises(JobFailed, match="must be named by host and port"):
        Dask(address).map(Square(), squares(2))


def test_a_scheduler_without_workers() -> None:
    with (
        subprocess_cluster(0) as cluster,
        pytest.raises(JobFailed, match="must have a worker, but none came"),
    ):
        Dask(cluster.scheduler_address, timeout=0.5).map(Square(), squares(2))


def test_a_cluster_of_its_own() -> None:
    """Nothing is given: a cluster is started and gone afterwards; abs can be imported anywhere."""
    from truerank.distributed.map_tasks import map_tasks

    assert map_tasks(Dask(workers=1), abs, {"a": -1, "b": 2}, key="abs") == {"a": 1, "b": 2}


def test_a_cluster_that_several_jobs_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started once and gone afterwards; one that is there is used as it is."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with started(Dask(workers=1)) as engine:
        assert isinstance(engine, Dask)
        assert engine.address is not None
        for job in (Square(name="first"), Square(name="second")):
            assert engine.map(job, squares(3)) == expected(3)
        with started(engine) as same:
            assert same is engine
    with pytest.raises(JobFailed, match="must answer at"):
        Dask(engine.address, timeout=1.0).map(Square(), squares(2))


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(MissingDependency, match=r"engine 'dask' needs distributed.*truerank\[dask\]"):
        Dask().map(Square(), squares(2))
