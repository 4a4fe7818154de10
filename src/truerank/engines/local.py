"""Threads of this process."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from truerank.core.check import check_at_least
from truerank.core.engine import Engine, Job, Outcome, Task
from truerank.core.threads import available_threads, ordered_map
from truerank.engines.process import forget, run_task


@dataclass(frozen=True)
class Local(Engine):
    """Tasks on threads of this process; nothing has to be sent or started.

    Errors are those of the task itself, with its traceback.

    Parameters
    ----------
    threads : how many tasks run at once; None takes all cores

    Examples
    --------
    >>> str(Local(threads=2))
    'local(threads=2)'
    """

    threads: int | None = None

    key: ClassVar[str] = "local"

    def __post_init__(self) -> None:
        if self.threads is not None:
            check_at_least("threads", self.threads, 1)

    def outcomes(self, job: Job, tasks: Sequence[Task]) -> Generator[Outcome, None, None]:
        """Yield outcomes in the order of the tasks."""
        n_threads = (self.threads or available_threads()) if job.is_thread_safe else 1
        try:
            partials = ordered_map(partial(run_task, job), tasks, n_threads=n_threads)
            for task, found in zip(tasks, partials, strict=True):
                yield Outcome(task.id, found)
        finally:
            forget(job.key)
