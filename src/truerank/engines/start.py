"""Starting an engine once for several jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, runtime_checkable

from truerank.core.engine import Engine


@runtime_checkable
class Startable(Protocol):
    """An engine that takes seconds to start."""

    def started(self) -> AbstractContextManager[Engine]:
        """Start it for the length of a ``with`` block."""


@contextmanager
def started(engine: Engine) -> Iterator[Engine]:
    """Give an engine that all jobs of a ``with`` block share: a cluster of this machine is started once.

    Examples
    --------
    >>> from truerank.engines.local import Local
    >>> with started(Local()) as engine:
    ...     print(engine)
    local
    """
    with engine.started() if isinstance(engine, Startable) else nullcontext(engine) as one:
        yield one
