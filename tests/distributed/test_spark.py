"""Spark on this machine; one session for all tests, because starting it takes seconds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.distributed.cluster import ROOT
from tests.distributed.jobs import Alone, Failing, Square, expected, squares
from truerank.core.errors import InvalidData, JobFailed, MissingDependency
from truerank.data.demo import demo
from truerank.distributed import spark as spark_engine
from truerank.distributed.engine import started
from truerank.distributed.spark import Spark
from truerank.split.base import SPLITS
from truerank.workflows.evaluate import evaluate

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not there")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        started, is_ours = Spark(master="local[2]")._session()
        assert is_ours
        yield
        started.stop()


@pytest.mark.filterwarnings("default")  # of Spark itself
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


@pytest.mark.parametrize("master", ["sc://127.0.0.1:9", "spark://127.0.0.1:9", "sc://127.0.0.1:no"])
def test_nobody_listens(master: str) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    with pytest.raises(JobFailed, match=f"Spark must answer at {master}, but nothing listens there"):
        Spark(master=master).map(Square(), squares(2))


def test_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyspark.sql", None)
    with pytest.raises(MissingDependency, match=r"engine 'spark' needs pyspark.*truerank\[spark\]"):
        Spark().map(Square(), squares(2))
