"""Time one library on one job; runs in that library's environment and writes what it saw as JSON."""

from __future__ import annotations

import argparse
import json
import re
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.rivals.job import Job

Values = dict[str, float]


@dataclass(frozen=True)
class Way:
    """How a library does the job.

    Parameters
    ----------
    measure : from what ``rank`` returned to the values of ``ndcg`` and ``recall``
    rank : scores and ranks all items; None where the library does both in one call, ``measure(None)``
    """

    measure: Callable[[Any], Values]
    rank: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Clock:
    """Seconds on the wall and seconds of all processors since it was made."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Clock:
        """Read both."""
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return cls(time.perf_counter(), sum(each.ru_utime + each.ru_stime for each in used))

    def since(self, start: Clock) -> Clock:
        """Return what has passed."""
        return Clock(self.wall - start.wall, self.cpu - start.cpu)


def enter(package: str, prepare: Callable[[Job], Way]) -> None:
    """Prepare outside the clock, run until there are enough repeats or the time is up, write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("job", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--patience", type=float, default=120.0)
    options = parser.parse_args()
    job = Job.load(options.job)
    started = Clock.now()
    way = prepare(job)
    prepared = Clock.now().since(started)
    before = _peak_mb()
    runs: list[dict[str, float]] = []
    values: Values = {}
    while len(runs) < options.repeats and sum(each["wall_s"] for each in runs) < options.patience:
        values, seconds = _run(way)
        runs.append(seconds)
    best = min(runs, key=lambda each: each["wall_s"])
    result = {
        "version": version(package),
        "values": values,
        "best": best,
        "least_cpu_s": min(each["cpu_s"] for each in runs),
        "first_wall_s": runs[0]["wall_s"],
        "repeats": len(runs),
        "prepare_wall_s": prepared.wall,
        "peak_mb": _peak_mb(),
        "peak_mb_before": before,
    }
    options.out.write_text(json.dumps(result))


def _run(way: Way) -> tuple[Values, dict[str, float]]:
    start = Clock.now()
    lists = None if way.rank is None else way.rank()
    ranked = Clock.now()
    values = {name: float(value) for name, value in way.measure(lists).items()}
    whole, measured = Clock.now().since(start), Clock.now().since(ranked)
    seconds = {"wall_s": whole.wall, "cpu_s": whole.cpu}
    if way.rank is not None:
        seconds |= {"metric_wall_s": measured.wall, "metric_cpu_s": measured.cpu}
    return values, seconds


def _peak_mb() -> float:
    status = Path("/proc/self/status")  # ru_maxrss would start from the peak of the parent
    found = re.search(r"^VmHWM:\s*(\d+) kB$", status.read_text(), re.MULTILINE) if status.exists() else None
    return (int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024
