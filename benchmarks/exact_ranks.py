"""How long exact ranks of a factor model take, against the matrix product that computes the scores alone.

The floor is NumPy's float32 matrix product of the same factors into a block allocated before, all users block
after block, with the best of several block sizes. Everything is timed in turns within one run, on one thread
unless said otherwise; ratios are of medians. One thread is timed by its processor time, which other processes
disturb less, several by the clock. Correctness is asserted before anything is timed: the counts of
some rows against float64 sums in plain NumPy.

    python benchmarks/exact_ranks.py [--quick]

``argsort`` runs on 32 rows and is scaled to all; implicit returns the 50 best items, less than a rank. Items
with copies, of very different lengths or with small integers are timed at the first size, with 10 targets.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from implicit.cpu.topk import topk
from threadpoolctl import threadpool_limits

from benchmarks.machine import folder_name, machine
from truerank.ranking.cpu.copies import number_copies
from truerank.ranking.cpu.counts import Counts, Pools, Side
from truerank.ranking.cpu.factor_job import FactorJob
from truerank.ranking.cpu.factors import FactorCounter, count_factors

SIZES = [(6_040, 3_706, 64), (20_000, 100_000, 64), (2_000, 1_000_000, 64)]
N_SEEN = 165
N_TARGETS = 10
BLOCKS = (64, 128, 256, 512, 1024)
BLOCK_BYTES = 1 << 32
ARGSORT_ROWS = 32


@dataclass(frozen=True)
class Lists:
    """Targets and seen items of every row."""

    target_indptr: np.ndarray
    target_items: np.ndarray
    seen_indptr: np.ndarray
    seen_items: np.ndarray

    def first(self, n_rows: int) -> Lists:
        """Return the first rows."""
        return Lists(
            self.target_indptr[: n_rows + 1],
            self.target_items[: self.target_indptr[n_rows]],
            self.seen_indptr[: n_rows + 1],
            self.seen_items[: self.seen_indptr[n_rows]],
        )

    @property
    def arguments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What kernels take."""
        return self.target_indptr, self.target_items, self.seen_indptr, self.seen_items


def draw_lists(draw: np.random.Generator, n_rows: int, n_items: int, n_targets: int, n_seen: int) -> Lists:
    """Draw distinct targets and about ``n_seen`` distinct seen items for every row."""
    targets, seen = [], []
    for _ in range(n_rows):
        items = np.unique(draw.integers(0, n_items, n_targets + n_seen))
        while len(items) < n_targets:
            items = np.unique(draw.integers(0, n_items, 2 * n_targets))
        mine = draw.choice(items, n_targets, replace=False)
        targets.append(mine)
        seen.append(np.setdiff1d(items, mine) if n_seen else items[:0])
    lengths = np.array([len(items) for items in seen])
    return Lists(
        np.arange(n_rows + 1) * n_targets,
        np.concatenate(targets),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate(seen),
    )


def hostile_items(items: np.ndarray) -> dict[str, np.ndarray]:
    """Return items whose scores tie or round worse than those of Gaussian ones."""
    draw = np.random.default_rng(1)
    chosen = draw.choice(len(items), len(items) // 10, replace=False)
    copies, zeros, longer, apart = (items.copy() for _ in range(4))
    copies[chosen], zeros[chosen] = items[0], 0
    longer[0] *= 100
    apart[:, 0] += 100
    whole = draw.integers(-1, 2, items.shape).astype(np.float32)
    return {
        "10 % copies of one": copies,
        "10 % zeros": zeros,
        "one 100 times longer": longer,
        "100 added": apart,
        "-1, 0 and 1": whole,
    }


@dataclass(frozen=True)
class Problem:
    """Factors and the three kinds of lists, with all that is timed on them."""

    users: np.ndarray
    items: np.ndarray
    plain: Lists
    seen: Lists
    many: Lists

    @classmethod
    def draw(cls, n_users: int, n_items: int, width: int) -> Problem:
        """Draw Gaussian factors."""
        draw = np.random.default_rng(0)
        users, items = (draw.standard_normal((n, width), dtype=np.float32) for n in (n_users, n_items))
        lists = [draw_lists(draw, n_users, n_items, t, s) for t, s in ((1, 0), (1, N_SEEN), (N_TARGETS, 0))]
        return cls(users, items, *lists)

    def count(self, lists: Lists, n_threads: int = 1) -> Counts:
        """Count with the kernel, preparation included."""
        return count_factors(
            self.users, self.items, None, *lists.arguments, n_threads=n_threads, path="compiled"
        )

    def product(self, block: np.ndarray, use: Callable[[int, np.ndarray], object] | None = None) -> None:
        """Compute all scores, block after block."""
        for start in range(0, len(self.users), len(block)):
            part = self.users[start : start + len(block)]
            scores = np.matmul(part, self.items.T, out=block[: len(part)])
            if use is not None:
                use(start, scores)

    def product_and_sum(self, block: np.ndarray) -> None:
        """Count what is above in float32, without ties or guarantee."""
        targets = self.plain.target_items

        def count(start: int, scores: np.ndarray) -> None:
            mine = scores[np.arange(len(scores)), targets[start : start + len(scores)]]
            (scores > mine[:, None]).sum(axis=1)

        self.product(block, count)

    def argsort(self) -> None:
        """Sort the scores of a few rows."""
        np.argsort(-(self.users[:ARGSORT_ROWS] @ self.items.T), axis=1)

    def check(self) -> None:
        """Assert that the counts of some rows equal those of float64 sums in plain NumPy."""
        n_rows = int(np.clip(20_000_000 // len(self.items), 20, 300))
        for lists in (self.plain, self.seen, self.many):
            counts = self.count(lists)
            few = lists.first(n_rows)
            literal = FactorCounter(self.items).count(self.users[:n_rows], *few.arguments, path="numpy")
            for name in ("n_above", "n_tied", "n_relevant_above", "n_relevant_tied"):
                mine = getattr(counts, name)[: len(few.target_items)]
                assert (mine == getattr(literal, name)).all(), f"{name} is wrong"

    def scratch_bytes(self) -> int:
        """Return what a thread holds."""
        user, item = Side.prepare("user", self.users, None), Side.prepare("item", self.items, None)
        pools = Pools.of(*self.many.arguments, len(self.items))
        job = FactorJob(item, None, user, pools, number_copies(item, None))
        return job.scratch(job.n_panels(1)).nbytes


def best_block(problem: Problem) -> np.ndarray:
    """Return the block for which the matrix product is fastest on (at most) 1024 users."""
    few = Problem(problem.users[:1024], problem.items, problem.plain, problem.seen, problem.many)
    best, least = None, np.inf
    for rows in BLOCKS:
        if 4 * rows * len(problem.items) > BLOCK_BYTES:
            continue
        block = np.zeros((rows, len(problem.items)), np.float32)
        few.product(block)
        seconds = min(_seconds(lambda block=block: few.product(block)) for _ in range(2))  # type: ignore[misc]
        if seconds < least:
            best, least = block, seconds
    assert best is not None
    return best


def _seconds(function: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    start = clock()
    function()
    return clock() - start


def measure(size: tuple[int, int, int], repeats: int) -> dict[str, Any]:
    """Return the table of one size."""
    problem = Problem.draw(*size)
    problem.check()
    block = best_block(problem)
    two = 2 if (os.cpu_count() or 1) >= 2 else 1
    often: dict[str, Callable[[], object]] = {
        "float32 matrix product": lambda: problem.product(block),
        "exact counts": lambda: problem.count(problem.plain),
        f"exact counts, {N_SEEN} seen": lambda: problem.count(problem.seen),
        f"exact counts, {N_TARGETS} targets": lambda: problem.count(problem.many),
        f"exact counts, {two} threads": lambda: problem.count(problem.plain, two),
    }
    seldom: dict[str, Callable[[], object]] = {
        "matrix product and (S > t).sum(1)": lambda: problem.product_and_sum(block),
        "matrix product and argsort, scaled": problem.argsort,
        f"implicit {version('implicit')} topk, 50 best": lambda: topk(
            problem.items, problem.users, 50, num_threads=1
        ),
    }
    if size == SIZES[0]:
        for name, items in hostile_items(problem.items).items():
            hostile = replace(problem, items=items)
            hostile.check()
            often[f"{N_TARGETS} targets, items: {name}"] = partial(hostile.count, problem.many)
    seconds: dict[str, list[float]] = {name: [] for name in (*often, *seldom)}
    for repeat in range(repeats):
        for name, function in often.items():
            clock = time.perf_counter if name.endswith("threads") else time.process_time
            seconds[name].append(_seconds(function, clock))
        if repeat < 3:
            for name, function in seldom.items():
                seconds[name].append(_seconds(function))
    scale = len(problem.users) / ARGSORT_ROWS
    seconds["matrix product and argsort, scaled"] = [
        scale * value for value in seconds["matrix product and argsort, scaled"]
    ]
    floor = statistics.median(seconds["float32 matrix product"])
    rows = {
        name: {
            "median_s": statistics.median(values),
            "min_s": min(values),
            "max_s": max(values),
            "repeats": len(values),
            "ratio": statistics.median(values) / floor,
        }
        for name, values in seconds.items()
    }
    recomputed = problem.count(problem.plain).n_recomputed / len(problem.users)
    return {
        "users": size[0],
        "items": size[1],
        "width": size[2],
        "block_rows": len(block),
        "gflops": 2e-9 * np.prod(np.array(size, dtype=float)) / floor,
        "recomputed_per_user": recomputed,
        "scratch_bytes_per_thread": problem.scratch_bytes(),
        "rows": rows,
    }


def show(table: dict[str, Any]) -> None:
    """Print the table of one size."""
    print(f"\n{table['users']:,} users x {table['items']:,} items x {table['width']} factors")
    print(
        f"product in blocks of {table['block_rows']} rows, {table['gflops']:.0f} GFLOP/s; "
        f"{table['recomputed_per_user']:.2f} pairs per user decided in float64; "
        f"{table['scratch_bytes_per_thread'] / 1024:.0f} KiB per thread"
    )
    print(f"  {'':38}{'median s':>10}{'least':>9}{'largest':>9}{'ratio':>8}")
    for name, row in table["rows"].items():
        print(
            f"  {name:38}{row['median_s']:10.4f}{row['min_s']:9.4f}{row['max_s']:9.4f}{row['ratio']:8.3f}",
            flush=True,
        )


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the first size only, nothing is written")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    tables = []
    with threadpool_limits(1):
        for size in SIZES[:1] if options.quick else SIZES:
            tables.append(measure(size, max(options.repeats, 9) if size is SIZES[0] else options.repeats))
            show(tables[-1])
    if options.quick:
        return
    host = machine("implicit", "threadpoolctl")
    result = {
        "benchmark": "exact_ranks",
        "machine": host,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "sizes": tables,
    }
    slug = folder_name()
    path = Path(__file__).parent / "results" / slug / "exact_ranks.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"\nwritten to benchmarks/results/{slug}/exact_ranks.json")


if __name__ == "__main__":
    main()
