"""Jobs for tests; a module of their own, so that worker processes can import them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from truerank.core.errors import InvalidData
from truerank.distributed.engine import EngineTask, Job


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
