"""Spark on this machine; one session for all tests, because starting it takes seconds."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.attacks import N_ITEMS, N_USERS
from tests.distributed.cluster import ROOT, CallOnce, kill, needs_spark
from tests.distributed.jobs import (
    Alone,
    Dying,
    DyingModel,
    DyingScorer,
    Failing,
    Square,
    expected,
    squares,
)
from tests.workflows.agreement.test_engine import plain
from truerank.core.checkpoint import Store
from truerank.core.errors import InvalidData, JobFailed, MissingDependency
from truerank.core.model import Model
from truerank.data.demo import demo
from truerank.distributed import spark as spark_engine
from truerank.distributed.engine import ENGINES, started
from truerank.distributed.spark import Spark, _ExecutorWatch
from truerank.split.base import SPLITS
from truerank.workflows.agreement.experiment import measure_agreement
from truerank.workflows.evaluate import evaluate

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        started, is_ours = Spark(master="local[2]")._session()
        assert is_ours
        yield
        spark_engine._stop(started)


of_spark = pytest.mark.filterwarnings("default")


@needs_spark
@of_spark
def test_spark(session: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One test, so that the session is not started for nothing when others are chosen."""
    engine = Spark(waves=2)
    assert engine.map(Square(), squares(4)) == expected(4)
    with started(engine) as held:  # the active session is used and left open
        assert held.map(Square(), squares(13)) == expected(13)  # several tasks in a partition
    assert engine.map(Alone(folder=str(tmp_path)), squares(5)) == {f"t{n}": b"1" for n in range(5)}
    split = SPLITS.make("leave-last-out").split(demo(n_users=50, n_items=60))
    found = evaluate("ials(sweeps=1)", split, engine=engine, rows=20, sampler="uniform(m=9)", check=True)
    assert found.estimates == evaluate("ials(sweeps=1)", split, sampler="uniform(m=9)", check=True).estimates
    with pytest.raises(InvalidData, match=r"^payloads must not be 3\. \(raised on .* in task t3\)"):
        engine.map(Failing(name="data"), squares(4)[3:])
    with pytest.raises(JobFailed, match=r"t3 failed on .* with ZeroDivisionError"):
        engine.map(Failing(), squares(4)[3:])
    with pytest.raises(JobFailed, match=r"must run on local\[3\], but a session on local\[2\] is active"):
        Spark(master="local[3]").map(Square(), squares(1))
    monkeypatch.setattr(spark_engine, "__version__", "99.1")
    with pytest.raises(JobFailed, match=r"workers must run truerank 99\.1"):
        engine.map(Square(), squares(1))


@needs_spark
@of_spark
def test_a_worker_that_dies_changes_no_digit(session: None, tmp_path: Path) -> None:
    """It is killed in the middle of a task: of an evaluation, and of an agreement."""
    split = SPLITS.make("leave-last-out").split(demo(n_users=N_USERS, n_items=N_ITEMS))
    for folder in ("evaluate", "agreement"):
        (tmp_path / folder).mkdir()
    mine = {"mine": DyingScorer(str(tmp_path / "evaluate"))}
    there = evaluate(mine, split, "ndcg@10", engine=Spark(waves=2), rows=20)
    assert (tmp_path / "evaluate" / "died").is_file()
    assert there.estimates == evaluate(mine, split, "ndcg@10").estimates
    models: list[str | Model] = ["ease", DyingModel(str(tmp_path / "agreement"))]
    asked: dict[str, Any] = {"scenario": "implicit(metrics=ndcg@10)", "seeds": 1, "resamples": 60}
    data = demo(n_users=80, n_items=150)
    fitted = measure_agreement(
        data, "random", [0.5], models=models, engine=Spark(waves=1), keep=tmp_path / "kept", **asked
    )
    assert (tmp_path / "agreement" / "died").is_file()
    assert plain(fitted) == plain(measure_agreement(data, "random", [0.5], models=models, **asked))


@needs_spark
@of_spark
def test_workers_that_die_again_and_again(session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_engine, "LOCAL_TRIES", 1)
    with pytest.raises(
        JobFailed, match=r"after 0 of 2 tasks the workers that took one died\. Look for a lac"
    ):
        Spark(waves=1).map(Dying(), squares(2))


@needs_spark
@of_spark
def test_a_lost_process_of_spark(session: None, tmp_path: Path) -> None:
    """The last test of the session, which does not survive it."""
    from pyspark import SparkContext

    kept = Store(tmp_path / "kept")
    gateway: Any = SparkContext._gateway
    rows = CallOnce(lambda: kill(gateway.proc.pid))
    with pytest.raises(
        JobFailed, match=r"its process was lost after 2 of 6 tasks\. .*in a work folder are k"
    ):
        Spark(waves=3).map(Square(), squares(6), progress=rows, store=kept)
    assert ENGINES.make("local").map(Square(), squares(6), store=kept) == expected(6)
    assert len(list((tmp_path / "kept").glob("*.npz"))) == 6


class FewerAndFewer:
    """A session whose executors are lost after some looks, and whose job runs until it is cancelled."""

    def __init__(self, n_looks: int) -> None:
        self.left, self.cancelled = n_looks, threading.Event()
        self.sparkContext = self._jsc = self
        self.master = "spark://127.0.0.1:7077"

    def sc(self) -> FewerAndFewer:
        return self

    def getExecutorMemoryStatus(self) -> FewerAndFewer:  # noqa: N802 - its name there
        self.left -= 1
        return self

    def size(self) -> int:
        return 2 if self.left > 0 else 1

    def cancelAllJobs(self) -> None:  # noqa: N802 - its name there
        self.cancelled.set()


def test_executors_that_are_all_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that never had an executor is waited for; one that lost all of them is not."""
    monkeypatch.setattr(spark_engine, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(spark_engine, "LOST_SECONDS", 0.05)
    session = FewerAndFewer(5)
    watch = _ExecutorWatch(session)
    with watch:
        assert session.cancelled.wait(60)
    assert watch.is_lost
    said = spark_engine._broken(RuntimeError("cancelled"), watch, "after 3 of 9 tasks")
    assert "all were lost after 3 of 9 tasks and none came back within 0.05 s" in str(said)
    waiting = FewerAndFewer(0)
    watch = _ExecutorWatch(waiting)
    with watch:
        while waiting.left > -20:
            time.sleep(0.01)
    assert not watch.is_lost
    assert not waiting.cancelled.is_set()


@pytest.mark.parametrize("master", ["sc://127.0.0.1:9", "spark://127.0.0.1:9", "sc://127.0.0.1:no"])
def test_nobody_listens(master: str) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    with pytest.raises(JobFailed, match=f"Spark must answer at {master}, but nothing listens there"):
        Spark(master=master).map(Square(), squares(2))


def test_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyspark.sql", None)
    with pytest.raises(MissingDependency, match=r"engine 'spark' needs pyspark.*truerank\[spark\]"):
        Spark().map(Square(), squares(2))
