"""The experiment on engines: the digits of one process, whoever ran the tasks and whoever was killed."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.attacks import Meddling, Planted
from tests.distributed.cluster import CallOnce, kill, loopback
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, JobFailed, UnknownName
from truerank.core.progress import SILENT
from truerank.data.demo import demo
from truerank.distributed.dask import Dask
from truerank.distributed.local import Local
from truerank.workflows.agreement.experiment import AgreementExperiment, measure_agreement
from truerank.workflows.agreement.parallel import run_tasks_on
from truerank.workflows.agreement.plan import make_plan
from truerank.workflows.agreement.result import Agreement

SMALL = demo(n_users=80, n_items=150)
ASKED: dict[str, Any] = {
    "scenario": "implicit(metrics='ndcg@10,recall@20')",
    "models": "popularity,ease,bias-only(epochs=2)",
    "seeds": 1,
    "resamples": 60,
}
STRATEGIES, FRACTIONS = "random,svp-cf(proxy=bias(epochs=2))", [0.5, 0.2]
N_TASKS = 1 + 4 + 3 * (1 + 4)


def measure(**changed: Any) -> Agreement:
    return measure_agreement(SMALL, STRATEGIES, FRACTIONS, **{**ASKED, **changed})


def plain(result: Agreement) -> dict[str, Any]:
    """Return all but what clocks say."""
    fields: dict[str, Any] = json.loads(result.to_json())
    for cell in fields["cells"]:
        for name in ("seconds", "speedup", "speedup_validated"):
            cell.pop(name)
    fields.pop("answer")
    return fields


@pytest.fixture(scope="module")
def found() -> Agreement:
    return measure()


def test_threads(found: Agreement, tmp_path: Path) -> None:
    """Pieces are kept as without an engine, and found again without it."""
    folder = tmp_path / "kept"
    assert plain(measure(engine="local(threads=2)", keep=folder)) == plain(found)
    assert len(list(folder.glob("agreement-*.npz"))) == N_TASKS
    assert not list(folder.glob("splits*"))
    experiment = AgreementExperiment(make_plan(STRATEGIES, FRACTIONS, **ASKED), SMALL, folder=folder)
    assert experiment.progress() == (N_TASKS, N_TASKS)
    assert plain(measure()) == plain(found)


def test_planted_splits_are_not_loaded(tmp_path: Path) -> None:
    """Somebody who swaps the pickled splits during the run gets nothing run."""
    planted = Planted(tmp_path / "planted-code-was-run")

    class Swapping(Meddling):
        def meddle(self) -> None:
            (place,) = (tmp_path / "kept").glob("truerank-private-*/splits.pickle")
            place.write_bytes(pickle.dumps(planted))

    with pytest.raises(InvalidData, match="must hold what this run wrote, but somebody has changed it"):
        measure(engine=Swapping(), keep=tmp_path / "kept")
    assert not planted.path.exists()
    assert not list((tmp_path / "kept").glob("truerank-private-*"))


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'dask'"):
        measure(engine="dsk")
    with pytest.raises(InvalidParameter, match="workers are processes of this machine and an engine has its"):
        measure(engine="local", workers=2)
    experiment = AgreementExperiment(make_plan(STRATEGIES, FRACTIONS, **ASKED), SMALL)
    with pytest.raises(InvalidParameter, match="an engine needs a folder"):
        run_tasks_on(Local(), experiment.runner, experiment.tasks()[0], SILENT.task("x"))
    monkeypatch.setattr(
        "truerank.workflows.agreement.parallel.AgreementJob.run", lambda *_: b"made"
    )  # in a folder of its own
    with pytest.raises(
        JobFailed, match=r"must write their results to .*, but those of 1 of 1 tasks are not th"
    ):
        measure(engine="local", keep=tmp_path / "kept")


class KillAtFirstFit(CallOnce):
    """Kills a worker process of this machine when the first fit is reported; sub-samples cost 1 each."""

    def __init__(self) -> None:
        super().__init__(lambda: kill(multiprocessing.active_children()[0].pid or 0))

    def advance(self, steps: int = 1) -> None:
        if steps > 1:
            super().advance(steps)


@pytest.mark.slow
def test_a_killed_worker_process() -> None:
    rows = KillAtFirstFit()
    with pytest.warns(DataWarning, match=r"a worker process ended .*; the \d+ tasks that are left are given"):
        killed = measure_agreement(SMALL, "random", FRACTIONS, workers=2, progress=rows, **ASKED)
    assert rows.function is None
    assert rows.rows == 3 * (100 + 50 + 20)  # percent of a full fit: each counts once
    assert plain(killed) == plain(measure_agreement(SMALL, "random", FRACTIONS, **ASKED))


@pytest.mark.cluster
def test_a_killed_worker_and_a_failing_one(found: Agreement, tmp_path: Path) -> None:
    """Two workers of a real cluster, of which one is killed on the way; then the other one fails."""
    pytest.importorskip("distributed", reason="distributed is not installed")
    with loopback() as cluster:
        worker = cluster.workers[0].process
        rows = CallOnce(lambda: kill(worker.pid))
        there = measure(engine=Dask(cluster.scheduler_address), keep=tmp_path / "kept", progress=rows)
        assert worker.returncode == -9
        assert plain(there) == plain(found)
        assert rows.rows >= 50 + 4 + 300  # percent of a full fit: the proxy, sub-samples, full fits
        models = "popularity,mf(learning_rate=1e30, epochs=2)"
        with pytest.raises(
            JobFailed, match=r"agreement fit mf.* failed on .*, process \d+ with NotConverged"
        ):
            measure(engine=Dask(cluster.scheduler_address), keep=tmp_path / "other", models=models)

        def interrupt() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            measure(
                engine=Dask(cluster.scheduler_address),
                keep=tmp_path / "third",
                progress=CallOnce(interrupt),
                seeds=3,
            )
        assert len(list((tmp_path / "third").glob("agreement-*.npz"))) < 3 * N_TASKS
