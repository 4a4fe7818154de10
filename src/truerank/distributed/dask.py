"""Engine ``dask``: the workers of a Dask cluster, given by its address or started on this machine.

A cluster on this machine is distributed's ``SubprocessCluster``: a scheduler and workers that listen on
loopback only, started by their own command line. distributed's ``LocalCluster`` would import the calling
script again in each worker, which breaks scripts without a main guard.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from truerank.core.errors import (
    MOST_THREADS,
    InvalidParameter,
    JobFailed,
    MissingDependency,
    check_above,
    check_at_least,
    excerpt,
)
from truerank.core.parallel import available_threads
from truerank.distributed.engine import Engine, EngineTask, Job, TaskOutcome
from truerank.distributed.lifetime import scratch_folder
from truerank.distributed.local import SLOT_ENVIRONMENT, drop_state, pickle_job, python_version, run_pickled
from truerank.version import __version__

#: Seconds between two looks for results, and for workers where there are no results.
POLL_SECONDS, LOOK_SECONDS = 0.01, 2.0


@contextmanager
def subprocess_cluster(n_workers: int, *, threads: int = 1) -> Iterator[Any]:
    """Start a ``distributed.SpecCluster`` of processes on this machine for the length of a ``with`` block.

    Its processes are killed at the end: no result is left in them. They end with the driver, too, when that
    is killed.
    """
    distributed = _require("distributed")
    # Run by every process as it starts, because SubprocessCluster sets neither environment nor process group:
    # an interrupt at the terminal is for the driver alone; the scheduler logs into a pipe nobody empties.
    preload = (
        "import logging, os, tempfile; from truerank.distributed.lifetime import end_with_driver; "
        f"end_with_driver({os.getpid()}); os.setpgid(0, 0); os.environ.update({SLOT_ENVIRONMENT!r}); "
        "logging.getLogger('distributed').setLevel(logging.CRITICAL); "
    )
    with scratch_folder("dask") as folder:
        preload += f"tempfile.tempdir = {folder!r}"
        try:
            cluster = distributed.SubprocessCluster(
                n_workers=n_workers,
                threads_per_worker=threads,
                worker_class="distributed.Worker",
                worker_kwargs={
                    "local_directory": folder,
                    "dashboard": False,
                    "death_timeout": 60,
                    "preload": [preload],
                },
                scheduler_kwargs={
                    "scheduler_file": str(Path(folder) / "scheduler.json"),
                    "preload": [preload],
                },
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
        except RuntimeError as error:
            raise JobFailed(
                f"a Dask scheduler must start on this machine, but it did not ({error}). "
                "Start a cluster by hand and give its address."
            ) from None
        try:
            yield cluster
        finally:
            # a scheduler that is lost or killed first is not asked to retire its workers one by one
            cluster.sync(cluster.scheduler.close)
            with _require("dask.config").set({"distributed.comm.timeouts.connect": "0.1s"}):
                cluster.close()


@dataclass(frozen=True)
class Dask(Engine):
    """Runs tasks on the workers of a Dask cluster, given by its address or started on this machine.

    The tasks of a lost worker run on another one; a lost scheduler ends the job, and so do workers that are
    all lost. Workers need the same
    versions of truerank and Python as the driver and must be able to read the files of the job.

    Parameters
    ----------
    address : of the scheduler, such as ``tcp://10.0.0.1:8786``; None starts a cluster on this machine
    workers : processes to start when there is no address; None takes one per core
    threads : tasks that each of them runs at the same time
    timeout : seconds to wait for the scheduler, for a first worker, and for a new one when all are lost

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
        check_at_least("threads", self.threads, 1, MOST_THREADS)
        check_above("timeout", self.timeout, 0)
        if self.workers is not None:
            check_at_least("workers", self.workers, 1, MOST_THREADS)
            if self.address is not None:
                raise InvalidParameter(
                    "workers are started only without an address, got both. Leave one of them out."
                )

    def outcomes(self, job: Job, tasks: Sequence[EngineTask]) -> Generator[TaskOutcome, None, None]:
        """Yield outcomes as the scheduler reports them."""
        distributed = _require("distributed")
        job_bytes = pickle_job(job)
        with self.started() as engine:
            assert engine.address is not None  # noqa: S101 - started() gives one
            yield from engine._outcomes(distributed, engine.address, job.key, job_bytes, tasks)

    @contextmanager
    def started(self) -> Iterator[Dask]:
        """Yield an engine with an address; without one, a cluster is started on this machine."""
        if self.address is not None:
            yield self
            return
        with subprocess_cluster(self.workers or available_threads(), threads=self.threads) as cluster:
            yield replace(self, address=cluster.scheduler_address, workers=None)

    def _outcomes(
        self, distributed: Any, address: str, key: str, job_bytes: bytes, tasks: Sequence[EngineTask]
    ) -> Iterator[TaskOutcome]:
        with self._connected(distributed, address) as client:
            self._check_workers(client, address)
            futures = client.map(
                run_pickled,
                [job_bytes] * len(tasks),
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
                for future, outcome in self._while_workers_live(client, ending):
                    if future.status != "finished" or not isinstance(outcome, TaskOutcome):
                        raise _broken(names[future.key], future, outcome, address, n_done, len(tasks))
                    n_done += 1
                    yield outcome
                with suppress(Exception):  # only frees memory
                    client.run(drop_state, key)
            finally:
                with suppress(Exception):  # the scheduler may be the one that is lost
                    client.cancel([future for future in futures if not future.done()], force=True)

    def _while_workers_live(self, client: Any, ending: Any) -> Iterator[tuple[Any, Any]]:
        """Yield what Dask's ``as_completed`` does, unless there is no worker for ``timeout`` seconds."""
        n_done, looked = 0, time.monotonic()
        seen = looked
        while not ending.is_empty():
            batch = ending.next_batch(block=False)
            if batch:
                n_done, seen = n_done + len(batch), time.monotonic()
                yield from batch
                continue
            time.sleep(POLL_SECONDS)
            now = time.monotonic()
            if now - looked < min(LOOK_SECONDS, self.timeout):
                continue
            looked = now
            if _has_workers(client):
                seen = now
            elif now - seen >= self.timeout:
                raise JobFailed(
                    f"some worker of the Dask cluster at {self.address} must live, but all were lost after "
                    f"{n_done} of {n_done + ending.count()} tasks and none came back within "
                    f"{self.timeout:g} s. Look for a lack of memory in their logs, start them and run again: "
                    "results in a work folder are kept."
                )

    @contextmanager
    def _connected(self, distributed: Any, address: str) -> Iterator[Any]:
        """Connect to a scheduler, without Dask's log of lost connections: our own errors report them."""
        scheme, _, place = address.rpartition("://")
        if scheme in ("", "tcp", "tls") and re.search(r":\d{1,5}/?$", place) is None:
            # a client that cannot read its address is taken apart for a minute, with a traceback
            raise JobFailed(
                f"a Dask scheduler must be named by host and port, got {excerpt(address)!r}. Use for example "
                "tcp://host:8786, or leave the address out."
            )
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
        """Raise unless there is a worker and all workers have the versions of the driver."""
        try:
            client.wait_for_workers(1, timeout=self.timeout)
        except TimeoutError:
            raise JobFailed(
                f"the Dask scheduler at {address} must have a worker, but none came within "
                f"{self.timeout:g} s. Start workers."
            ) from None
        ours = {"truerank": __version__, "python": python_version()}
        workers = client.get_versions(packages=["truerank"])["workers"]
        for worker, versions in workers.items():
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


def _broken(task: str, future: Any, result: Any, address: str, n_done: int, n_tasks: int) -> JobFailed:
    """Return the error for a task that Dask itself could not run."""
    error = result[1] if isinstance(result, tuple) and len(result) == 3 else None
    if type(error).__name__ == "KilledWorker":
        return JobFailed(
            f"task {task} must run on some worker, but every worker that took it died. "
            "Look for a lack of memory in the workers' logs, or use smaller tasks."
        )
    if future.status in ("cancelled", "lost") or error is None:
        return JobFailed(
            f"the Dask scheduler at {address} must live to the end of the job, but it was lost after "
            f"{n_done} of {n_tasks} tasks. Start it and run again: results in a work folder are kept."
        )
    return JobFailed(
        f"task {task} must be readable for the workers, but Dask raised {type(error).__name__}: {error}. "
        "Install the same versions on all of them."
    )


def _has_workers(client: Any) -> bool:
    """Whether the scheduler knows a worker; yes where it does not answer, which is another trouble."""
    try:
        return bool(client.sync(client.scheduler.ncores, callback_timeout=LOOK_SECONDS))
    except Exception:
        return True


def _require(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingDependency("engine 'dask'", "distributed", extra="dask") from None
