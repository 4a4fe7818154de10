"""How long and how much memory: sub-sample 20 million interactions by every strategy without a proxy.

Each strategy runs in a process of its own on the same arrays (made as in ``read_interactions``), after
compiled code was loaded by a small run. Seconds are CPU seconds over all threads, so that a busy machine
does not count; wall seconds stand beside them. The floor is a plain random mask: one random number per
event, compared, and the events under the mask taken. The others also count what was lost. Memory is the
peak of the process above what it held before the events were loaded, over the size of the events' arrays: 1
is the events alone. PageRank of scikit-network on the same events is the rival of ``centrality``.

    python -m benchmarks.subsample [--rows 20000000] [--fractions 0.1,0.9] [--shuffled]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import cpu_name, folder_name
from benchmarks.read_interactions import generate

FLOOR, RIVAL = "random mask", "scikit-network PageRank"
STRATEGIES = (
    *("random", "stratified", "temporal", "random-user", "head-user", "random-item", "head-item"),
    *("centrality", "centrality(legacy=true, exact=false)", "random-walk", "forest-fire"),
)
COLUMNS = ("user", "item", "value", "time")
ALLOWED_SECONDS, ALLOWED_MEMORY = 30, 3


def prepare(folder: Path, rows: int, *, shuffled: bool) -> None:
    """Write the columns of the events as arrays, so that loading them needs no more memory than they have."""
    from truerank.data.read import read_interactions

    generate(folder / "events.parquet", rows)
    events = read_interactions(folder / "events.parquet")
    if shuffled:
        events = events.take(np.random.default_rng(1).permutation(len(events)))
    for column in COLUMNS:
        np.save(folder / f"{column}.npy", getattr(events, column))


def run_job(name: str, fraction: float, folder: Path) -> dict[str, float]:
    """Measure one strategy in this process."""
    from truerank.core.interactions import Interactions

    small = Interactions.from_codes(
        *np.divmod(np.arange(200_000, dtype=np.int32), np.int32(500)), time=np.arange(200_000, dtype=np.int32)
    )
    keep(name, small, fraction)
    held = memory("VmRSS")
    arrays = {column: np.load(folder / f"{column}.npy") for column in COLUMNS}
    size = sum(array.nbytes for array in arrays.values())
    events = Interactions.from_codes(**arrays)
    cpu, wall = time.process_time(), time.perf_counter()
    kept = keep(name, events, fraction)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "cpu_s": cpu,
        "wall_s": wall,
        "kept": kept,
        "events": len(events),
        "events_bytes": size,
        "peak_bytes": peak,
        "peak_over_events": (peak - held) / size,
    }


def keep(name: str, events: Any, fraction: float) -> int:
    """Return how many events one strategy keeps."""
    if name == FLOOR:
        return len(events.where(np.random.default_rng(0).random(len(events)) < fraction))
    if name == RIVAL:
        from scipy.sparse import csr_matrix
        from sknetwork.ranking import PageRank

        links = csr_matrix(events.matrix())
        PageRank(solver="piteration", n_iter=200, tol=1e-9).fit(
            links, weights_row=np.ones(links.shape[0]), weights_col=np.ones(links.shape[1])
        )
        return 0
    from truerank.subsampling.subsample import select_events

    return len(select_events(events, name, fraction).train)


def memory(field: str) -> int:
    """Return a figure of this process in bytes."""
    found = re.search(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def measure(name: str, fraction: float, folder: Path) -> dict[str, Any]:
    """Measure one strategy in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.subsample", "--job", name, "--folder", str(folder)]
    run = subprocess.run(
        [*command, "--fractions", str(fraction)], check=True, stdout=subprocess.PIPE, text=True
    )
    return {"strategy": name, "fraction": fraction, **json.loads(run.stdout)}


def main() -> None:
    """Make the events, measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rows", type=int, default=20_000_000)
    options.add_argument("--fractions", default="0.1,0.9")
    options.add_argument("--shuffled", action="store_true", help="events in random order; nothing is written")
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--job", help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    fractions = [float(text) for text in given.fractions.split(",")]
    if given.job == "prepare":
        prepare(given.folder, given.rows, shuffled=given.shuffled)
        return
    if given.job:
        print(json.dumps(run_job(given.job, fractions[0], given.folder)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # in a process of its own: a child's peak memory starts at that of the parent
        make = [sys.executable, "-m", "benchmarks.subsample", "--job", "prepare", "--folder", name]
        order = ["--shuffled"] if given.shuffled else []
        subprocess.run([*make, "--rows", str(given.rows), *order], check=True)
        print(f"{'strategy':40} {'keep':>5} {'CPU s':>7} {'wall s':>7} {'to mask':>8} {'memory':>7} peak MB")
        cases: list[dict[str, Any]] = []
        for fraction in fractions:
            rivals = (RIVAL,) if fraction == fractions[0] else ()
            for strategy in (FLOOR, *STRATEGIES, *rivals):
                cases.append(measure(strategy, fraction, folder))
                show(cases[-1], next(case["cpu_s"] for case in cases if case["fraction"] == fraction))
    ours = [case for case in cases if case["strategy"] in STRATEGIES]
    slowest, largest = max(case["cpu_s"] for case in ours), max(case["peak_over_events"] for case in ours)
    exact = [case for case in ours if "exact=false" not in case["strategy"]]
    assert all(case["kept"] == round(case["fraction"] * case["events"]) for case in exact)
    print(
        f"{cases[0]['events']:,} events of {cases[0]['events_bytes'] / 1e6:.0f} MB: "
        f"slowest {slowest:.1f} CPU s (aim {ALLOWED_SECONDS}), "
        f"largest {largest:.2f} times the events' memory (aim {ALLOWED_MEMORY}); "
        "exact counts checked"
    )
    if given.shuffled:
        return
    cpu = cpu_name()
    target = given.out / folder_name(cpu) / "select_events.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": "select_events",
        "machine": {"cpu": cpu, "cores": os.cpu_count(), "system": platform.system()},
        "versions": {name: version(name) for name in ("truerank", "numpy", "numba", "scikit-network")}
        | {"python": platform.python_version()},
        "rows": given.rows,
        "slowest_cpu_s": slowest,
        "largest_peak_over_events": largest,
        "cases": cases,
    }
    target.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {target}", file=sys.stderr)


def show(case: dict[str, Any], floor: float) -> None:
    """Print one line."""
    print(
        f"{case['strategy']:40} {case['fraction']:>5} {case['cpu_s']:>7.2f} {case['wall_s']:>7.2f} "
        f"{case['cpu_s'] / floor:>8.1f} {case['peak_over_events']:>7.2f} {case['peak_bytes'] / 1e6:>7.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
