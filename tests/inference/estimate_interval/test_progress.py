"""Kinds of intervals that take long report every step of theirs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from truerank.core.progress import ProgressTask
from truerank.core.ranks import SampledRanks
from truerank.workflows.estimate import estimate

METRICS = "recall@1,ndcg@10"


@dataclass
class Job:
    """One job: what was announced, what was reported, and whether it was closed."""

    label: str
    total: int | None
    steps: int = 0
    is_closed: bool = False

    def advance(self, steps: int = 1) -> None:
        self.steps += steps


@dataclass
class Recorder:
    """A progress that keeps its jobs; an impatient one interrupts them at the first step."""

    is_impatient: bool = False
    jobs: list[Job] = field(default_factory=list)

    def task(self, label: str, total: int | None = None) -> ProgressTask:
        self.jobs.append(Interrupted(label, total) if self.is_impatient else Job(label, total))
        return self.jobs[-1]

    def done(self, task: ProgressTask) -> None:
        assert isinstance(task, Job)
        task.is_closed = True


class Interrupted(Job):
    """One that the user ends."""

    def advance(self, steps: int = 1) -> None:
        raise KeyboardInterrupt


def sample() -> SampledRanks:
    return SampledRanks.single(np.arange(400) ** 2 // 8400, n_negatives=19, n_pool=100)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "options", "jobs"),
    [
        ("smooth", {"uncertainty": "bootstrap(resamples=300)"}, [("resampling", 300)]),
        ("mle", {"uncertainty": "bootstrap(resamples=60)", "target": "population"}, [("resampling", 60)]),
        ("bv", {"uncertainty": "bounds"}, [("bounds", 2)]),
        ("bv", {"uncertainty": "bias-aware"}, [("worst biases", 2), ("bounds", 2)]),
        ("mle", {"uncertainty": "bias-aware"}, [("bounds", 2)]),
        ("bv", {"uncertainty": "delta"}, []),
        ("mle(solver=exact)", {"uncertainty": "sampling(resamples=50)"}, [("resampling", 50)]),
    ],
)
def test_every_step_of_an_interval_is_reported(
    estimator: str, options: dict[str, Any], jobs: list[tuple[str, int]]
) -> None:
    recorder = Recorder()
    found = estimate(sample(), METRICS, estimator, progress=recorder, **options)
    assert [(job.label, job.total) for job in recorder.jobs] == jobs
    assert all(job.steps == job.total and job.is_closed for job in recorder.jobs)
    assert found.estimates == estimate(sample(), METRICS, estimator, **options).estimates


def test_a_sample_of_users_is_resampled_twice() -> None:
    some = replace(sample(), design=replace(sample().design, n_test_users=1000))
    recorder = Recorder()
    estimate(some, METRICS, "mle", uncertainty="bootstrap(resamples=70)", progress=recorder)
    assert [(job.total, job.steps) for job in recorder.jobs] == [(140, 140)]


def test_bounds_report_metrics_other_cutoffs_and_the_search_for_negatives() -> None:
    recorder = Recorder()
    found = estimate(sample(), METRICS, "naive", bounds=True, progress=recorder)
    assert len(found.bounds) == 2
    labels = [job.label for job in recorder.jobs]
    assert labels[0] == "bounds" and labels[-1] == "how many negatives would do" and len(labels) > 2
    assert all(job.steps == job.total and job.is_closed for job in recorder.jobs)


@pytest.mark.parametrize("kind", ["bootstrap", "bounds", "bias-aware"])
def test_an_interrupt_ends_the_work_and_closes_the_bar(kind: str) -> None:
    recorder = Recorder(is_impatient=True)
    with pytest.raises(KeyboardInterrupt):
        estimate(sample(), METRICS, "bv", uncertainty=kind, progress=recorder)
    assert len(recorder.jobs) == 1 and recorder.jobs[0].is_closed
