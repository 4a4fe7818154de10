"""A Dask cluster of this machine: a scheduler and workers as processes on loopback.

Dask's own local cluster starts the calling script anew in each worker, which breaks scripts without a main
guard; these processes are started by their command line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from truerank.core.errors import JobFailed
from truerank.engines.process import SLOT_ENVIRONMENT

START_SECONDS = 60
_SCHEDULER = ("-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
_WORKER = ("-m", "distributed.cli.dask_worker", "--host", "127.0.0.1", "--no-dashboard", "--no-nanny")


@dataclass
class DaskProcesses:
    """A scheduler, its workers, and the folder of their files.

    Parameters
    ----------
    folder : for the scheduler's file, the workers' own files and what they print
    """

    folder: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The scheduler's address, when it has written it."""
        deadline = time.monotonic() + START_SECONDS
        path = self.folder / "scheduler.json"
        while time.monotonic() < deadline and self.scheduler.poll() is None:
            try:
                return str(json.loads(path.read_text())["address"])
            except (OSError, ValueError, KeyError):
                time.sleep(0.02)
        raise JobFailed(
            "a Dask scheduler must start on this machine, but it did not: "
            f"{self.last_words('scheduler')}. Start a cluster by hand and give its address."
        )

    def add_worker(self, *, threads: int = 1, environment: Mapping[str, str] | None = None) -> None:
        """Start one more worker."""
        name = f"worker-{len(self.workers)}"
        options = ("--nthreads", str(threads), "--name", name, "--death-timeout", "60")
        place = ("--local-directory", str(self.folder / name))
        self.workers.append(
            _start(
                self.folder,
                name,
                (*_WORKER, *options, *place, self.address),
                {**SLOT_ENVIRONMENT, **(environment or {})},
            )
        )

    def last_words(self, name: str) -> str:
        """Return the last line a process printed."""
        path = self.folder / f"{name}.log"
        lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
        return lines[-1] if lines else "it said nothing"

    def stop(self) -> None:
        """End all processes at once: they hold nothing that is worth a farewell."""
        for process in (*self.workers, self.scheduler):
            process.kill()
        for process in (*self.workers, self.scheduler):
            process.wait()


@contextmanager
def dask_processes(n_workers: int, *, threads: int = 1) -> Iterator[DaskProcesses]:
    """Start a scheduler and workers for the length of a ``with`` block."""
    with tempfile.TemporaryDirectory(prefix="truerank-dask-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # a scheduler whose driver was killed ends by itself, and its workers with it
        options = ("--scheduler-file", str(folder / "scheduler.json"), "--idle-timeout", "600 seconds")
        started = DaskProcesses(folder, _start(folder, "scheduler", (*_SCHEDULER, *options), {}))
        try:
            for _ in range(n_workers):
                started.add_worker(threads=threads)
            yield started
        finally:
            started.stop()


def _start(
    folder: Path, name: str, command: tuple[str, ...], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and words
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **environment},
            start_new_session=True,  # an interrupt at the terminal is the driver's to handle
        )
