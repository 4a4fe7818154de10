"""Any function over any arguments, as a job."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from truerank.core.checkpoint import Store
from truerank.core.progress import SILENT, Progress
from truerank.distributed.engine import ENGINES, Engine, EngineTask, Job

ArgumentT = TypeVar("ArgumentT")
ReturnT = TypeVar("ReturnT")


@dataclass(frozen=True)
class EachJob(Job):
    """Call a function with the payload of each task."""

    function: Callable[[Any], Any]
    name: str
    is_safe: bool = False

    @property
    def key(self) -> str:
        """What the caller says the results depend on."""
        return self.name

    @property
    def is_thread_safe(self) -> bool:
        """Whether the function may run twice at once in a process."""
        return self.is_safe

    def open(self) -> None:
        """Open nothing."""

    def run(self, state: None, task: EngineTask) -> bytes:
        """Call the function."""
        return pickle.dumps(self.function(task.payload), protocol=5)


def run_each(
    engine: str | Engine,
    function: Callable[[ArgumentT], ReturnT],
    arguments: Mapping[str, ArgumentT],
    *,
    key: str,
    is_thread_safe: bool = False,
    label: str = "tasks",
    progress: Progress = SILENT,
    store: Store | None = None,
) -> dict[str, ReturnT]:
    """Return ``function(argument)`` of each argument, computed by an engine; for experiments of many units.

    Parameters
    ----------
    engine : a spec string such as ``dask(workers=4)``, or an engine
    function : pure and held by a module, so that workers can import it
    arguments : by the id of the task; small, name files rather than hold data
    key : everything the results depend on beside the arguments, for ``store``
    is_thread_safe : whether two calls may run at once in one process
    label, progress, store : as in ``Engine.map``

    Examples
    --------
    >>> run_each("local(threads=2)", abs, {"a": -1, "b": 2}, key="abs")
    {'a': 1, 'b': 2}
    """
    job = EachJob(function, f"each {key}", is_thread_safe)
    tasks = [EngineTask(name, argument) for name, argument in arguments.items()]
    found = ENGINES.make(engine).map(job, tasks, label=label, progress=progress, store=store)
    return {name: pickle.loads(partial) for name, partial in found.items()}  # noqa: S301 - our own workers
