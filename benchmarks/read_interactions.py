"""How long and how much memory: read 20 million interactions, filter to 5-core, split leave-last-out.

Compares truerank with plain pandas on the same Parquet file, each in processes of its own, and asserts that
both give the same events before anything is printed.

    python -m benchmarks.read_interactions [--rows 20000000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.machine import cpu_name, folder_name

SEED = 20
CORE = 5


def generate(path: Path, rows: int) -> None:
    """Write long-tailed interactions, ordered by user and item like MovieLens, with 0.2 % repeated pairs."""
    draw = np.random.default_rng(SEED)
    n_users, n_items = max(rows * 138_000 // 20_000_000, 50), max(rows * 27_000 // 20_000_000, 200)
    activity = np.exp(draw.normal(0, 1.1, n_users))
    popularity = np.cumsum(1 / (np.arange(n_items) + 20.0))
    user = np.repeat(np.arange(n_users), draw.multinomial(rows * 3 // 2, activity / activity.sum()))
    item = np.searchsorted(popularity, draw.random(len(user)) * popularity[-1])
    keys = np.unique(user * n_items + item)
    keys = np.sort(draw.permutation(keys)[: rows - rows // 500])
    copies = np.ones(len(keys), dtype=np.int64)
    copies[draw.choice(len(keys), rows - len(keys), replace=False)] = 2
    user, item = np.divmod(np.repeat(keys, copies), n_items)
    joined = draw.integers(900_000_000, 1_400_000_000, n_users)
    frame = pl.DataFrame(
        {
            "userId": (user + 1).astype(np.int32),
            "movieId": (draw.permutation(5 * n_items)[:n_items][item] + 1).astype(np.int32),
            "rating": draw.integers(1, 11, rows).astype(np.float32) / 2,
            "timestamp": joined[user] + draw.integers(0, 3_000_000, rows),
        }
    )
    frame.write_parquet(path, compression="zstd", row_group_size=1 << 20)


def with_truerank(path: str) -> dict[str, int]:
    """Do the job with truerank."""
    from truerank.data.clean import k_core
    from truerank.data.read import read_interactions
    from truerank.split.leave_last_out import LeaveLastOut

    split = LeaveLastOut().split(k_core(read_interactions(path), CORE, CORE))
    return {
        "users": split.train.n_users,
        "items": split.train.n_items,
        "train": len(split.train),
        "test": len(split.test),
        "sum_of_test_items": int(split.train.items.take(split.test.item).cast(pl.Int64).sum()),
        "sum_of_test_times": int(np.asarray(split.test.time, dtype=np.int64).sum()),
    }


def with_pandas(path: str) -> dict[str, int]:
    """Do the job with pandas: one sort, then vectorised group sizes."""
    import pandas as pd

    events = pd.read_parquet(path)
    events = events.sort_values(["userId", "timestamp"], kind="stable")
    events = events.drop_duplicates(["userId", "movieId"], keep="last")
    size = -1
    while size != len(events):
        size = len(events)
        events = events[events.groupby("userId")["movieId"].transform("size") >= CORE]
        events = events[events.groupby("movieId")["userId"].transform("size") >= CORE]
    is_last = ~events["userId"].duplicated(keep="last")
    test, train = events[is_last], events[~is_last]
    return {
        "users": int(events["userId"].nunique()),
        "items": int(events["movieId"].nunique()),
        "train": len(train),
        "test": len(test),
        "sum_of_test_items": int(test["movieId"].astype("int64").sum()),
        "sum_of_test_times": int(test["timestamp"].sum()),
    }


JOBS = {"truerank": with_truerank, "pandas": with_pandas}


def run_job(job: str, path: str) -> None:
    """Run one job in this process and print its figures as JSON."""
    __import__("truerank.data" if job == "truerank" else "pandas")  # importing is not what is measured
    start = time.perf_counter()
    outcome = JOBS[job](path)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_bytes": peak, "outcome": outcome}))


def measure(job: str, path: Path, repeats: int) -> dict[str, Any]:
    """Run one job several times, each in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.read_interactions", "--job", job, "--path", str(path)]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats)
    ]
    seconds = [run["seconds"] for run in runs]
    return {
        "median_seconds": statistics.median(seconds),
        "seconds": seconds,
        "spread_seconds": max(seconds) - min(seconds),
        "peak_bytes": max(run["peak_bytes"] for run in runs),
        "outcome": runs[0]["outcome"],
    }


def main() -> None:
    """Generate, measure, check, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=20_000_000)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--job", choices=["generate", *JOBS], help=argparse.SUPPRESS)
    options.add_argument("--path", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.job == "generate":
        generate(Path(given.path), given.rows)
        return
    if given.job:
        run_job(given.job, given.path)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "interactions.parquet"
        # in a process of its own: a child's peak memory starts at that of the parent
        make = [
            sys.executable,
            "-m",
            "benchmarks.read_interactions",
            "--job",
            "generate",
            "--path",
            str(path),
            "--rows",
            str(given.rows),
        ]
        subprocess.run(make, check=True)
        figures = {job: measure(job, path, given.repeats) for job in JOBS}
        size = path.stat().st_size
    ours, theirs = figures["truerank"], figures["pandas"]
    assert ours["outcome"] == theirs["outcome"], (ours["outcome"], theirs["outcome"])
    print(
        f"{given.rows:,} rows ({size / 1e6:.0f} MB Parquet), {CORE}-core, leave-last-out: {ours['outcome']}"
    )
    print(f"{'':10} {'seconds':>9} {'spread':>8} {'peak MB':>9}")
    for job, figure in figures.items():
        print(
            f"{job:10} {figure['median_seconds']:9.2f} {figure['spread_seconds']:8.2f} "
            f"{figure['peak_bytes'] / 1e6:9.0f}"
        )
    faster = theirs["median_seconds"] / ours["median_seconds"]
    smaller = theirs["peak_bytes"] / ours["peak_bytes"]
    print(f"pandas / truerank: {faster:.1f} times the seconds, {smaller:.1f} times the memory")
    cpu = cpu_name()
    target = given.out / folder_name(cpu) / "read_interactions.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": "read_interactions",
        "machine": {"cpu": cpu, "cores": os.cpu_count(), "system": platform.system()},
        "versions": {name: version(name) for name in ("truerank", "polars", "numpy", "pandas", "pyarrow")}
        | {"python": platform.python_version()},
        "rows": given.rows,
        "file_bytes": size,
        "repeats": given.repeats,
        "figures": figures,
        "pandas_over_truerank": {"seconds": faster, "peak_bytes": smaller},
    }
    target.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {target}", file=sys.stderr)


if __name__ == "__main__":
    main()
