"""Engine ``spark``: tasks run by the executors of Apache Spark, through its DataFrame interface."""

from __future__ import annotations

import importlib
import os
import pickle
import socket
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from truerank.core.errors import JobFailed, MissingDependency, check_at_least
from truerank.distributed.engine import Engine, EngineTask, Job, TaskOutcome
from truerank.distributed.local import SLOT_ENVIRONMENT, pickle_job, python_version, run_pickled
from truerank.version import __version__

TAG = "truerank"
REACH_SECONDS = 10
#: Partitions of a wave for each slot; slots where they are not known.
PARTITIONS_PER_SLOT, CONNECT_SLOTS = 1, 32
_PORTS = {"sc": 15002, "spark": 7077}
# On this machine: the interpreter that runs now, and no address that others can reach.
_HERE = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


@dataclass(frozen=True)
class Spark(Engine):
    """Runs tasks on the executors of Spark 3.5 or 4, also through Spark Connect.

    For teams that already use Spark. It also survives a lost master, unlike Dask, and takes seconds to start.
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
                yield from _wave(session, job_bytes, wave, min(len(wave), n_partitions))
            finished = True
        finally:
            with suppress(Exception):
                if not finished:
                    session.interruptTag(TAG)
                session.removeTag(TAG)
            if is_ours:
                with suppress(Exception):
                    session.stop()

    @contextmanager
    def started(self) -> Iterator[Spark]:
        """Keep a session open for the jobs of a ``with`` block, which use it as the active one."""
        session, is_ours = self._session()
        try:
            yield self
        finally:
            if is_ours:
                with suppress(Exception):
                    session.stop()

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
            with _environment(_HERE if is_here else {}):
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
    session: Any, job_bytes: bytes, tasks: Sequence[EngineTask], n_partitions: int
) -> list[TaskOutcome]:
    """Run tasks as one Spark job, several per partition: each partition costs Spark a tenth of a second."""
    frame = session.range(0, len(tasks), 1, n_partitions)
    runner = _runner(job_bytes, tuple(tasks), __version__, python_version())
    try:
        rows = frame.mapInArrow(runner, "outcome binary").collect()
    except Exception as error:
        raise JobFailed(
            f"Spark must run the tasks to their end, but it failed: {_first_line(error)}. "
            "Install the same truerank on all executors, and look into their logs."
        ) from None
    return [pickle.loads(bytes(row["outcome"])) for row in rows]  # noqa: S301 - from our own workers


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


def _submitted() -> bool:
    """Whether a master is set from outside, as by spark-submit."""
    return "SPARK_REMOTE" in os.environ or "spark.master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")


def _first_line(error: Exception) -> str:
    """Return the line of an error that names it, otherwise the first line."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    named = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception", "NotFound"))]
    chosen = named[0] if named else lines[0] if lines else type(error).__name__
    return chosen.rstrip(".")[:300]


def _require(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingDependency("engine 'spark'", "pyspark", extra="spark") from None
