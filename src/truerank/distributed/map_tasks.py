"""Map a function over arguments on an engine, for experiments of many independent units."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from truerank.core.checkpoint import Store
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.progress import SILENT, Progress
from truerank.distributed.engine import ENGINES, Engine, EngineTask, Job

ArgumentT = TypeVar("ArgumentT")
ReturnT = TypeVar("ReturnT")


@dataclass(frozen=True)
class FunctionJob(Job):
    """Call a function with the payload of each task; results that are kept are JSON."""

    function: Callable[[Any], Any]
    name: str
    is_safe: bool = False
    is_kept: bool = False

    @property
    def key(self) -> str:
        """What the results depend on, as given by the caller."""
        return self.name

    @property
    def is_thread_safe(self) -> bool:
        """Whether two calls of the function may run in one process at the same time."""
        return self.is_safe

    def open(self) -> None:
        """Open nothing."""

    def run(self, state: None, task: EngineTask) -> bytes:
        """Call the function."""
        found = self.function(task.payload)
        if not self.is_kept:
            return pickle.dumps(found, protocol=5)
        try:
            return json.dumps(found).encode()
        except (TypeError, ValueError) as error:
            raise InvalidParameter(
                f"results that are kept must be what JSON can hold, but task {task.id} returned something "
                f"else ({error}). Return numbers, texts, lists and dictionaries, or leave store out."
            ) from None


def map_tasks(
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
    """Return ``function(argument)`` for each argument, computed on an engine.

    Parameters
    ----------
    engine : a spec string such as ``dask(workers=4)``, or an engine
    function : a pure function at the top level of a module, so that workers can import it
    arguments : arguments by task id; keep them small: name files rather than pass data
    key : everything the results depend on beside the arguments, for ``store``
    is_thread_safe : whether two calls may run at once in one process
    label, progress, store : as in ``Engine.map``. With a store results must be what JSON can hold, and tuples
        come back as lists: nothing that is read from a folder can run code

    Examples
    --------
    >>> map_tasks("local(threads=2)", abs, {"a": -1, "b": 2}, key="abs")
    {'a': 1, 'b': 2}
    """
    job = FunctionJob(function, f"each {key}", is_thread_safe, store is not None)
    tasks = [EngineTask(name, argument) for name, argument in arguments.items()]
    partials = ENGINES.make(engine).map(job, tasks, label=label, progress=progress, store=store)
    if store is not None:
        return {name: _from_json(name, partial) for name, partial in partials.items()}
    return {name: pickle.loads(partial) for name, partial in partials.items()}  # noqa: S301 - our own workers


def _from_json(task: str, partial: bytes) -> Any:
    try:
        return json.loads(partial)
    except ValueError:
        raise InvalidData(
            f"the kept result of task {task} must be JSON, but it is damaged. Remove it and run again."
        ) from None
