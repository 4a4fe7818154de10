"""What tests on a real cluster share."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from truerank.core.progress import ProgressTask
from truerank.distributed.dask import subprocess_cluster

#: Where workers find the package ``tests``.
ROOT = Path(__file__).parents[2]


@contextmanager
def loopback() -> Iterator[Any]:
    """Start a scheduler and two workers that can import the tests."""
    pytest.importorskip("distributed", reason="distributed is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        with subprocess_cluster(2) as cluster:
            yield cluster


class CallOnce:
    """A progress that calls a function when the first row is reported."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.function: Callable[[], None] | None = function
        self.rows = 0

    def task(self, label: str, total: int | None = None) -> ProgressTask:
        return self

    def done(self, task: ProgressTask) -> None:
        pass

    def advance(self, steps: int = 1) -> None:
        self.rows += steps
        if self.function is not None:
            function, self.function = self.function, None
            function()


def kill(pid: int) -> None:
    """End a process without a farewell."""
    os.kill(pid, signal.SIGKILL)


def _why_no_spark() -> str:
    """Return why Spark cannot run here; nothing where it can."""
    for module in ("pyspark", "pyarrow", "pandas"):
        if find_spec(module) is None:
            return f"{module} is not installed"
    return "" if shutil.which("java") else "Spark needs Java, which is not there"


needs_spark = pytest.mark.skipif(bool(_why_no_spark()), reason=_why_no_spark() or "Spark can run")
