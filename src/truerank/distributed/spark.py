"""Engine ``spark``: tasks run by the executors of Apache Spark, through its DataFrame interface."""

from __future__ import annotations

import importlib
import os
import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from truerank.core.errors import JobFailed, MissingDependency, check_at_least
from truerank.distributed.engine import Engine, EngineTask, Job, TaskOutcome
from truerank.distributed.lifetime import ScratchFolder
from truerank.distributed.local import SLOT_ENVIRONMENT, pickle_job, python_version, run_pickled
from truerank.version import __version__

TAG = "truerank"
REACH_SECONDS = 10
#: Seconds without an executor after which all are taken for lost, and between two looks.
LOST_SECONDS, LOOK_SECONDS = 30.0, 2.0
#: On one machine Spark ends a job with the first worker that dies; so often a wave is tried there.
LOCAL_TRIES = 3
#: Partitions of a wave for each slot; slots where they are not known.
PARTITIONS_PER_SLOT, CONNECT_SLOTS = 1, 32
_PORTS = {"sc": 15002, "spark": 7077}
# Of this process: its Java lives as long as it does, and is used again by later sessions.
_folders: dict[int, ScratchFolder] = {}


@dataclass(frozen=True)
class Spark(Engine):
    """Runs tasks on the executors of Spark 3.5 or 4, also through Spark Connect.

    For teams that already use Spark. It also survives a lost master, unlike Dask, and takes seconds to start.
    The tasks of a lost executor or worker run on another one; executors that are all lost end the job.
    Only ``range`` and ``mapInArrow`` of a DataFrame are used. A session that is active is used and left
    open. Spark reports when a wave of tasks has ended, so progress moves in steps.

    Parameters
    ----------
    master : such as ``local[4]``, ``spark://host:7077`` or ``yarn``; ``sc://host:15002`` is Spark Connect;
        None takes the active session, or all cores of this machine
    waves : number of steps in which the tasks are sent

    Examples
    --------
    >>> str(Spark(master="sc://127.0.0.1:15002"))
    'spark(master=sc://127.0.0.1:15002)'
    """

    master: str | None = None
    waves: int = 8

    key: ClassVar[str] = "spark"

    def __post_init__(self) -> None:
        check_at_least("waves", self.waves, 1)

    def outcomes(self, job: Job, tasks: Sequence[EngineTask]) -> Generator[TaskOutcome, None, None]:
        """Yield outcomes wave by wave."""
        job_bytes = pickle_job(job)
        session, is_ours = self._session()
        finished = False
        try:
            with suppress(Exception):  # classic sessions before Spark 4 have no tags
                session.addTag(TAG)
            size = max(1, -(-len(tasks) // self.waves))
            for start in range(0, len(tasks), size):
                wave = tasks[start : start + size]
                # tasks that must run alone are fits and the like: long, and some much longer than others
                n_partitions = PARTITIONS_PER_SLOT * _slots(session) if job.is_thread_safe else size
                done = f"after {start} of {len(tasks)} tasks"
                yield from _wave(session, job_bytes, wave, min(len(wave), n_partitions), done)
            finished = True
        finally:
            with suppress(Exception):
                if not finished:
                    session.interruptTag(TAG)
                session.removeTag(TAG)
            if is_ours:
                _stop(session)

    @contextmanager
    def started(self) -> Iterator[Spark]:
        """Keep a session open for the jobs of a ``with`` block, which use it as the active one."""
        session, is_ours = self._session()
        try:
            yield self
        finally:
            if is_ours:
                _stop(session)

    def _session(self) -> tuple[Any, bool]:
        """Return the session and whether it is to be stopped."""
        sql = _require("pyspark.sql")
        _require("pyarrow")
        if self.master is not None:
            _check_reachable(self.master)
        active = sql.SparkSession.getActiveSession()
        if active is not None:
            self._check_active(active)
            return active, False
        builder = sql.SparkSession.builder.appName("truerank")
        try:
            if self.master is not None and self.master.startswith("sc://"):
                return builder.remote(self.master).getOrCreate(), True
            if self.master is not None:
                builder = builder.master(self.master)
            elif not _submitted():
                builder = builder.master("local[*]")
            builder = builder.config("spark.ui.enabled", "false")
            builder = builder.config("spark.ui.showConsoleProgress", "false")
            for name, value in SLOT_ENVIRONMENT.items():
                builder = builder.config(f"spark.executorEnv.{name}", value)
            is_here = self.master is None or self.master.startswith("local")
            with _environment(_on_this_machine() if is_here else {}):
                session = builder.getOrCreate()
            session.sparkContext.setLogLevel("FATAL")  # our own errors report what fails
        except Exception as error:  # Java, gRPC and Spark each have their own
            raise JobFailed(
                f"Spark must start or answer at {self.master or 'this machine'}, but it did not: "
                f"{_first_line(error)}. Check the master's address and that Java is there."
            ) from None
        return session, True

    def _check_active(self, session: Any) -> None:
        """Raise when the active session has another master: a process has one session."""
        is_connect = "connect" in type(session).__module__
        active_master = str(session.conf.get("spark.master", "unknown"))
        if (
            self.master is None
            or self.master == active_master
            or (is_connect and self.master.startswith("sc://"))
        ):
            return
        raise JobFailed(
            f"Spark must run on {self.master}, but a session on {active_master} is active in this process. "
            "Stop it, or leave the master out to use it."
        )


def _wave(
    session: Any, job_bytes: bytes, tasks: Sequence[EngineTask], n_partitions: int, done: str
) -> list[TaskOutcome]:
    """Run tasks as one Spark job, several per partition: each partition costs Spark a tenth of a second."""
    runner = _runner(job_bytes, tuple(tasks), __version__, python_version())
    n_tries = LOCAL_TRIES if _is_local(session) else 1
    while True:
        n_tries -= 1
        watch = _ExecutorWatch(session)
        try:
            with watch:
                frame = session.range(0, len(tasks), 1, n_partitions)
                rows = frame.mapInArrow(runner, "outcome binary").collect()
        except Exception as error:
            if _lost_worker(error) and n_tries:
                continue
            raise _broken(error, watch, done) from None
        return [pickle.loads(bytes(row["outcome"])) for row in rows]  # noqa: S301 - from our own workers


class _ExecutorWatch:
    """Cancels the job of a ``with`` block when all executors are lost; Spark would wait for ever.

    It does nothing where there are no executors of their own (``local``), where they cannot be counted (Spark
    Connect), and before the first one has come, which may take its time in a busy cluster.
    """

    def __init__(self, session: Any) -> None:
        self.is_lost = False
        self._session, self._ended = session, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True, name="truerank-executors")

    def __enter__(self) -> None:
        if _n_executors(self._session) is not None:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self) -> None:
        seen: float | None = None
        while not self._ended.wait(LOOK_SECONDS):
            now = time.monotonic()
            if _n_executors(self._session) != 0:
                seen = now
            elif seen is not None and now - seen >= LOST_SECONDS:
                self.is_lost = True
                with suppress(Exception):
                    self._session.sparkContext.cancelAllJobs()
                return


def _n_executors(session: Any) -> int | None:
    """Return the number of executors; None where there are none of their own, or it cannot be told."""
    try:
        if _is_local(session):
            return None
        return int(session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1  # without the driver
    except Exception:
        return None


def _is_local(session: Any) -> bool:
    """Whether tasks run on this machine in Spark's own process, which never tries one again."""
    try:
        return str(session.sparkContext.master).startswith("local[")
    except Exception:  # Spark Connect has no context
        return False


def _lost_worker(error: Exception) -> bool:
    return "Python worker exited unexpectedly" in str(error)


def _broken(error: Exception, watch: _ExecutorWatch, done: str) -> JobFailed:
    """Return the error for a wave that Spark itself could not run."""
    again = "Look for a lack of memory in the logs and run again: results in a work folder are kept."
    if watch.is_lost:
        return JobFailed(
            f"some executor of Spark must live, but all were lost {done} and none came back within "
            f"{LOST_SECONDS:g} s. {again}"
        )
    if isinstance(error, OSError) or type(error).__name__ == "Py4JNetworkError":
        return JobFailed(f"Spark must live to the end of the job, but its process was lost {done}. {again}")
    if _lost_worker(error):
        return JobFailed(
            f"every task must run on some worker, but {done} the workers that took one died. {again}"
        )
    return JobFailed(
        f"Spark must run the tasks to their end, but it failed {done}: {_first_line(error)}. "
        "Install the same truerank on all executors, and look into their logs."
    )


def _stop(session: Any) -> None:
    """Stop a session; one whose process was lost is forgotten, so that another one can be started."""
    try:
        session.stop()
    except Exception:
        with suppress(Exception):
            context, sessions = type(session.sparkContext), type(session)
            gateway = context._gateway
            context._active_spark_context = context._gateway = context._jvm = None
            sessions._instantiatedSession = sessions._activeSession = None
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(REACH_SECONDS)


def _slots(session: Any) -> int:
    """Return how many tasks run at the same time; with Spark Connect, which does not tell, a guess."""
    try:
        return max(1, int(session.sparkContext.defaultParallelism))
    except Exception:
        return CONNECT_SLOTS


def _runner(
    job_bytes: bytes, tasks: tuple[EngineTask, ...], version: str, runtime: str
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import gc

        import pyarrow

        for batch in batches:
            for place in batch.column(0).to_pylist():
                outcome = run_pickled(job_bytes, tasks[place], version, runtime)
                if not gc.get_freeze_count():
                    # Spark collects garbage after every partition: exempt the imported libraries
                    gc.freeze()
                yield pyarrow.RecordBatch.from_pydict(
                    {"outcome": pyarrow.array([pickle.dumps(outcome)], pyarrow.binary())}
                )

    return run


def _check_reachable(master: str) -> None:
    """Raise when nothing listens at the address: Spark itself would try for minutes."""
    scheme, _, rest = master.partition("://")
    if scheme not in _PORTS:
        return
    host, _, port = rest.partition("/")[0].partition(",")[0].partition(":")
    try:
        socket.create_connection((host, int(port or _PORTS[scheme])), timeout=REACH_SECONDS).close()
    except (OSError, ValueError) as error:
        raise JobFailed(
            f"Spark must answer at {master}, but nothing listens there "
            f"({getattr(error, 'strerror', None) or error}). Start it, or correct the address."
        ) from None


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set variables that Spark reads when a session starts, unless they are set."""
    added = [name for name in wanted if name not in os.environ]
    os.environ.update({name: wanted[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _on_this_machine() -> dict[str, str]:
    """Return what Spark reads: this interpreter, no address that others can reach, and our folder."""
    if os.getpid() not in _folders:
        _folders[os.getpid()] = ScratchFolder("spark")
    folder = _folders[os.getpid()].path
    return {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": folder,
        "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={folder}",
    }


def _submitted() -> bool:
    """Whether a master is set from outside, as by spark-submit."""
    return "SPARK_REMOTE" in os.environ or "spark.master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")


def _first_line(error: Exception) -> str:
    """Return the line of an error that names it, otherwise the first line."""
    lines = [line.strip(" :") for line in str(error).strip().splitlines() if line.strip(" :")]
    named = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception", "NotFound"))]
    chosen = named[0] if named else lines[0] if lines else type(error).__name__
    return chosen.rstrip(".")[:300]


def _require(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingDependency("engine 'spark'", "pyspark", extra="spark") from None
