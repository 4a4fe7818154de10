"""A Dask cluster.

A Dask cluster of this machine: a scheduler and workers as processes on loopback.

Dask's own local cluster starts the calling script anew in each worker, which breaks scripts without a main
guard; these processes are started by their command line.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from truerank.core.errors import InvalidParameter, JobFailed, MissingDependency, check_above, check_at_least
from truerank.core.parallel import available_threads
from truerank.distributed.engine import Engine, EngineTask, Job, TaskOutcome
from truerank.distributed.local import SLOT_ENVIRONMENT, forget, pickled, python_version, run_pickled
from truerank.version import __version__

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


@dataclass(frozen=True)
class Dask(Engine):
    """Tasks on the workers of a Dask cluster: one that is there, or one started on this machine.

    A worker that is lost does no harm, its tasks run elsewhere; the scheduler must live. Workers need the
    same truerank and Python as the driver and must be able to read the files of the job.

    Parameters
    ----------
    address : of the scheduler, such as ``tcp://10.0.0.1:8786``; None starts a cluster on this machine
    workers : processes to start when there is no address; None takes one per core
    threads : tasks at once in each of them
    timeout : seconds to wait for the scheduler and for a first worker

    Examples
    --------
    >>> str(Dask(address="tcp://127.0.0.1:8786"))
    'dask(address=tcp://127.0.0.1:8786)'
    """

    address: str | None = None
    workers: int | None = None
    threads: int = 1
    timeout: float = 30.0

    key: ClassVar[str] = "dask"

    def __post_init__(self) -> None:
        check_at_least("threads", self.threads, 1)
        check_above("timeout", self.timeout, 0)
        if self.workers is not None:
            check_at_least("workers", self.workers, 1)
            if self.address is not None:
                raise InvalidParameter(
                    "workers are started only where there is no address, got both. Leave one of them out."
                )

    def outcomes(self, job: Job, tasks: Sequence[EngineTask]) -> Generator[TaskOutcome, None, None]:
        """Yield outcomes as the scheduler reports them."""
        distributed = _require("distributed")
        written = pickled(job)
        with self.started() as engine:
            assert engine.address is not None  # noqa: S101 - that is what starting means
            yield from engine._outcomes(distributed, engine.address, job.key, written, tasks)

    @contextmanager
    def started(self) -> Iterator[Dask]:
        """Give an engine with an address, that of a cluster started here where there is none."""
        if self.address is not None:
            yield self
            return
        _require("distributed")
        with dask_processes(self.workers or available_threads(), threads=self.threads) as cluster:
            yield replace(self, address=cluster.address, workers=None)

    def _outcomes(
        self, distributed: Any, address: str, key: str, written: bytes, tasks: Sequence[EngineTask]
    ) -> Iterator[TaskOutcome]:
        with self._connected(distributed, address) as client:
            self._check_workers(client, address)
            futures = client.map(
                run_pickled,
                [written] * len(tasks),
                tasks,
                [__version__] * len(tasks),
                [python_version()] * len(tasks),
                pure=False,
            )
            names = {future.key: task.id for future, task in zip(futures, tasks, strict=True)}
            n_done = 0
            try:
                ending = distributed.as_completed(
                    futures, loop=client.loop, with_results=True, raise_errors=False
                )
                for future, found in ending:
                    if future.status != "finished" or not isinstance(found, TaskOutcome):
                        raise _broken(names[future.key], future, found, address, n_done, len(tasks))
                    n_done += 1
                    yield found
                with suppress(Exception):  # only frees memory
                    client.run(forget, key)
            finally:
                with suppress(Exception):  # the scheduler may be the one that is lost
                    client.cancel([future for future in futures if not future.done()], force=True)

    @contextmanager
    def _connected(self, distributed: Any, address: str) -> Iterator[Any]:
        """Connect to a scheduler; what Dask logs about lost connections is said by our own errors."""
        dask_config = _require("dask.config")
        loggers = [logging.getLogger(name) for name in ("distributed.client", "distributed.core")]
        levels = [logger.level for logger in loggers]
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            with dask_config.set({"distributed.comm.timeouts.connect": f"{min(self.timeout, 10.0)}s"}):
                try:
                    client = distributed.Client(address, timeout=self.timeout, set_as_default=False)
                except (OSError, TimeoutError, ValueError) as error:
                    raise JobFailed(
                        f"a Dask scheduler must answer at {address}, but none did within {self.timeout:g} s "
                        f"({type(error).__name__}). Start one, or leave the address out."
                    ) from None
                try:
                    yield client
                finally:
                    with suppress(Exception):
                        client.close(timeout=5)
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)

    def _check_workers(self, client: Any, address: str) -> None:
        """Raise unless there is a worker and all of them run what the driver runs."""
        try:
            client.wait_for_workers(1, timeout=self.timeout)
        except TimeoutError:
            raise JobFailed(
                f"the Dask scheduler at {address} must have a worker, but none came within "
                f"{self.timeout:g} s. Start workers."
            ) from None
        ours = {"truerank": __version__, "python": python_version()}
        found = client.get_versions(packages=["truerank"])["workers"]
        for worker, versions in found.items():
            theirs = {
                "truerank": versions["packages"].get("truerank"),
                "python": ".".join(str(versions["host"]["python"]).split(".")[:2]),
            }
            for what, version in ours.items():
                if theirs[what] != version:
                    has = f"{what} {theirs[what]}" if theirs[what] else f"no {what}"
                    raise JobFailed(
                        f"Dask workers must have {what} {version} like the driver, but {worker} has {has}. "
                        "Install the same versions on all of them."
                    )


def _broken(task: str, future: Any, found: Any, address: str, n_done: int, n_tasks: int) -> JobFailed:
    """Return the error for a task that Dask itself could not run."""
    error = found[1] if isinstance(found, tuple) and len(found) == 3 else None
    if type(error).__name__ == "KilledWorker":
        return JobFailed(
            f"task {task} must run on some worker, but every worker that took it died. "
            "Look for a lack of memory in the workers' logs, or cut smaller tasks."
        )
    if future.status in ("cancelled", "lost") or error is None:
        return JobFailed(
            f"the Dask scheduler at {address} must live to the end of the job, but it was lost after "
            f"{n_done} of {n_tasks} tasks. Start it and run again: partials in a work folder are kept."
        )
    return JobFailed(
        f"task {task} must be readable for the workers, but Dask says {type(error).__name__}: {error}. "
        "Install the same versions on all of them."
    )


def _require(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingDependency("engine 'dask'", "distributed", extra="dask") from None
