"""Jobs for tests; a module of their own, so that worker processes can import them."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.distributed.attacks import Opaque
from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.scorer import Factors
from truerank.core.types import FloatArray, IntArray
from truerank.distributed.engine import EngineTask, Job
from truerank.models.popularity import Popularity


@dataclass(frozen=True)
class Square(Job):
    """Squares payloads; ``folder`` counts openings and runs, one file each."""

    folder: str = ""
    seconds: float = 0.0
    name: str = "square"

    @property
    def key(self) -> str:
        return f"{self.name}/{self.folder}"

    def open(self) -> int:
        self.note("open")
        return 2

    def run(self, state: int, task: EngineTask) -> bytes:
        self.note(f"run-{task.id}")
        time.sleep(self.seconds)
        return str(task.payload**state).encode()

    def note(self, what: str) -> None:
        if self.folder:
            (Path(self.folder) / f"{what}.{os.getpid()}.{time.monotonic_ns()}").touch()


@dataclass(frozen=True)
class Failing(Square):
    """Fails on payload 3 in the way its name says."""

    name: str = "failing"

    def run(self, state: int, task: EngineTask) -> bytes:
        if task.payload == 3:
            if self.name == "data":
                raise InvalidData("payloads must not be 3.")
            raise ZeroDivisionError("three is not allowed")
        return super().run(state, task)


@dataclass(frozen=True)
class Alone(Square):
    """Says when two of its tasks run in one process at once."""

    name: str = "alone"

    @property
    def is_thread_safe(self) -> bool:
        return False

    def run(self, state: int, task: EngineTask) -> bytes:
        flag = Path(self.folder) / f"busy.{os.getpid()}"
        flag.touch(exist_ok=False)
        time.sleep(0.01)
        flag.unlink()
        return b"1"


def squares(n: int) -> list[EngineTask]:
    """Return n tasks with payloads 0..n-1."""
    return [EngineTask(f"t{payload}", payload) for payload in range(n)]


def expected(n: int) -> dict[str, bytes]:
    """Return what they must bring."""
    return {f"t{payload}": str(payload**2).encode() for payload in range(n)}


def die_once(folder: str) -> None:
    """End this process without a farewell, unless one has died here already."""
    try:
        (Path(folder) / "died").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Dying(Square):
    """Ends the process of every task."""

    name: str = "dying"

    def run(self, state: int, task: EngineTask) -> bytes:
        os._exit(3)


@dataclass(frozen=True)
class DyingScorer(Opaque):
    """Kills the first worker that asks it for a score."""

    folder: str

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        die_once(self.folder)
        return super().score(users, items)

    def score_pairs(self, users: IntArray, items: IntArray) -> FloatArray:
        die_once(self.folder)
        return super().score_pairs(users, items)


@dataclass(frozen=True)
class DyingModel(Popularity):
    """Kills the first worker that fits it."""

    folder: str = ""

    key: ClassVar[str] = "dying"

    def fit(self, train: Interactions, **options: Any) -> Factors:
        die_once(self.folder)
        return super().fit(train, **options)
