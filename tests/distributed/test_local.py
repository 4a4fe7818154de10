"""What a worker process does with tasks."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

from tests.distributed.jobs import Failing, Square
from truerank.core.errors import InvalidParameter
from truerank.distributed import local as process
from truerank.distributed.engine import EngineTask, Failure, Job
from truerank.distributed.local import (
    drop_state,
    job_state,
    one_blas_thread,
    pickle_job,
    python_version,
    run_pickled,
)
from truerank.version import __version__


def test_a_task_in_a_worker() -> None:
    outcome = run_pickled(pickle_job(Square()), EngineTask("a", 7), __version__, python_version())
    assert (outcome.task, outcome.partial, outcome.failure) == ("a", b"49", None)


def test_what_goes_wrong_is_returned() -> None:
    outcome = run_pickled(pickle_job(Failing()), EngineTask("a", 3), __version__, python_version())
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.message) == ("ZeroDivisionError", "three is not allowed")
    assert pickle.loads(pickle.dumps(outcome)) == outcome


@pytest.mark.parametrize(("version", "runtime"), [("0.0", python_version()), (__version__, "2.7")])
def test_versions_must_match(version: str, runtime: str) -> None:
    found = run_pickled(pickle_job(Square()), EngineTask("a", 7), version, runtime).failure
    assert isinstance(found, Failure)
    assert f"workers must run truerank {version} on Python {runtime} like the driver" in found.message
    assert found.kind == "JobFailed"


def test_jobs_that_cannot_be_sent() -> None:
    class Local(Square):
        pass

    with pytest.raises(InvalidParameter, match="a job must be picklable to be sent to workers"):
        pickle_job(Local())


def test_states_are_few_and_can_be_dropped(tmp_path: Path) -> None:
    def n_openings() -> int:
        return len(list(tmp_path.glob("open.*")))

    jobs: list[Job] = [Square(str(tmp_path), name=f"state {number}") for number in range(3)]
    for job in (*jobs, jobs[2], jobs[1]):
        assert job_state(job) == 2
    assert n_openings() == 3
    job_state(jobs[0])  # the oldest had to go
    assert n_openings() == 4
    drop_state(jobs[0].key)
    job_state(jobs[0])
    assert n_openings() == 5
    assert len(process._states) <= process.MOST_STATES


def test_one_blas_thread_while_any_task_runs() -> None:
    def threads() -> set[int]:
        return {entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"}

    before = threads()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert threads() == {1}
    second.__exit__(None, None, None)
    assert threads() == before
