"""Memory and time of sub-sampling partitioned Parquet, against reading it into one process.

Events of users with 1 to 2,000 items each lie in files of about a million rows, whole users per file. Each
case runs in a process of its own; its peak resident memory is what the system counted, less that of a process
that only loads the library. The rival reads all files as one table and draws in memory. Kept events must be
the same rows.

    python -m benchmarks.subsample_files [--files 32] [--rows 1500000] [--strategies random,temporal]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.machine import folder_name, machine
from truerank.data.read import from_frame
from truerank.distributed.subsample import subsample_files
from truerank.subsampling.subsample import events_frame, select_events

STRATEGIES = "random,stratified,temporal,head-user,head-item"


def write(folder: Path, n_files: int, n_rows: int) -> int:
    """Write the events, and return the bytes of the files."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    n_bytes = first = 0
    for number in range(n_files):
        lengths = np.minimum(rng.zipf(1.6, n_rows) * 4, 2000)
        lengths = lengths[: np.searchsorted(np.cumsum(lengths), n_rows)]
        user = np.repeat(np.arange(first, first + len(lengths)), lengths)
        first += len(lengths)
        frame = pl.DataFrame(
            {
                "user_id": user,
                "item_id": (200_000 * rng.random(len(user)) ** 3).astype(np.int64),
                "rating": rng.integers(1, 11, len(user)).astype(np.float32) / 2,
                "timestamp": rng.integers(1_000_000_000, 1_600_000_000, len(user)),
            }
        )
        path = folder / f"part-{number:05d}.parquet"
        frame.write_parquet(path)
        n_bytes += path.stat().st_size
    return n_bytes


def digest(frame: pl.DataFrame) -> int:
    """Return a number that does not depend on the order of the rows."""
    return int(frame.hash_rows(0).cast(pl.UInt64).sum() or 0) + frame.height


def run(way: str, strategy: str, source: Path, out: Path) -> dict[str, float]:
    """Do one case in this process and return seconds and peak bytes."""
    started = time.perf_counter()
    if way == "files":
        subsample_files(source, out, strategy, 0.1, duplicates="keep", engine="local(threads=1)")
    elif way == "memory":
        whole = from_frame(pl.read_parquet(source / "*.parquet"), duplicates="keep")
        events_frame(select_events(whole, strategy, 0.1).train).write_parquet(out)
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0}


def measured(way: str, strategy: str, source: Path, out: Path) -> dict[str, float]:
    """Do one case in a process of its own."""
    case = json.dumps([way, strategy, str(source), str(out)])
    command = [sys.executable, "-m", "benchmarks.subsample_files", "--case", case]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(n_files: int, n_rows: int, strategies: list[str]) -> dict[str, Any]:
    """Measure half of the files, all of them, and all of them in memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        half, whole = folder / "half", folder / "whole"
        sizes = {n: write(place, n, n_rows) for place, n in ((half, n_files // 2), (whole, n_files))}
        n_bytes = sizes[n_files]
        base = measured("nothing", "", whole, folder / "none")["peak_bytes"]
        raw = n_files * n_rows * 28 / 1e6
        print(f"{n_files} files, {n_bytes / 1e6:,.0f} MB of Parquet, about {raw:,.0f} MB of columns")
        print(f"left out: {base / 1e6:,.0f} MB of a process that has only loaded the libraries")
        print(
            f"{'strategy':12} {'half MB':>8} {'all MB':>8} {'in memory MB':>13} {'s':>6} {'in memory s':>12}"
        )
        rows = []
        for strategy in strategies:
            few = measured("files", strategy, half, folder / f"{strategy}-half")
            many = measured("files", strategy, whole, folder / f"{strategy}-whole")
            rival = measured("memory", strategy, whole, folder / f"{strategy}.parquet")
            kept = pl.read_parquet(folder / f"{strategy}-whole" / "*.parquet")
            assert digest(kept) == digest(pl.read_parquet(folder / f"{strategy}.parquet"))
            peaks = [one["peak_bytes"] - base for one in (few, many, rival)]
            rows.append(
                {
                    "strategy": strategy,
                    "half_bytes": peaks[0],
                    "all_bytes": peaks[1],
                    "memory_bytes": peaks[2],
                    "seconds": many["seconds"],
                    "memory_seconds": rival["seconds"],
                }
            )
            shown = "".join(
                f"{peak / 1e6:>{width},.0f}" for peak, width in zip(peaks, (9, 9, 14), strict=True)
            )
            print(f"{strategy:12}{shown} {many['seconds']:>6.1f} {rival['seconds']:>12.1f}", flush=True)
        print("equal rows from both")
    return {"files": n_files, "rows": n_rows, "parquet_bytes": n_bytes, "base_bytes": base, "cases": rows}


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--files", type=int, default=32)
    options.add_argument("--rows", type=int, default=1_500_000)
    options.add_argument("--strategies", default=STRATEGIES)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.case:
        way, strategy, source, out = given.case
        print(json.dumps(run(way, strategy, Path(source), Path(out))))
        return
    found = compare(given.files, given.rows, given.strategies.split(","))
    about = machine("polars")
    slug = folder_name()
    target = given.out / slug / "subsample_files.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(
        json.dumps({"benchmark": "subsample_files", "machine": about, **found}, indent=2) + "\n"
    )
    print(f"written to {target}", file=sys.stderr)


if __name__ == "__main__":
    main()
