"""How close sampled ranks come to the speed of reading the sampled item vectors, and what others take.

The floor is a compiled loop that reads as many random item vectors as negatives are drawn, with prefetch, and
adds them up. Drawing without replacement among unseen items, scoring and counting come on top of that.
Correctness is asserted before anything is timed; all figures are from one core, taken in turns.

    python -m benchmarks.sampled_ranks [--quick] [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from benchmarks.machine import folder_name, machine
from truerank.core.interactions import Interactions
from truerank.core.scorer import Factors
from truerank.core.split import Split
from truerank.ranking.cpu.listed_compiled import AHEAD, prefetch_vector
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sampled_ranks

WIDTH = 64
SEEN = 50
#: items, negatives, users
CASES = [(100_000, 99, 200_000), (100_000, 999, 20_000), (1_000_000, 99, 200_000), (1_000_000, 999, 20_000)]
QUICK = [(100_000, 99, 20_000), (100_000, 999, 2_000)]
ML_1M = (3_706, 6_040)
NUMPY_USERS = 500


@njit(nogil=True, fastmath={"reassoc", "contract"})
def read_rows(items: Any, listed: Any) -> Any:
    """Add up the vectors of the listed items, asking for each some steps ahead."""
    base, stride = np.uint64(items.ctypes.data), np.uint64(4 * items.shape[1])
    end = listed.shape[0] - 1
    total = np.float32(0.0)
    for at in range(listed.shape[0]):
        prefetch_vector(base, stride, listed[min(at + AHEAD, end)])
        row = np.float32(0.0)
        for k in range(items.shape[1]):
            row += items[listed[at], k]
        total += row
    return total


def make_case(n_items: int, n_users: int, seed: int = 0) -> tuple[Factors, Split]:
    """Return random vectors and a split with 50 seen items and one target per user."""
    draw = np.random.default_rng(seed)
    user = draw.normal(size=(n_users, WIDTH)).astype(np.float32)
    item = draw.normal(size=(n_items, WIDTH)).astype(np.float32)
    # multiples of an odd number: distinct items per user without sorting
    start, step = draw.integers(0, n_items, n_users), 2 * draw.integers(1, n_items // 400, n_users) + 1
    items = (start[:, None] + step[:, None] * np.arange(SEEN + 1)) % n_items
    users = np.repeat(np.arange(n_users), SEEN)
    train = Interactions.from_codes(users, items[:, :SEEN].ravel(), n_users=n_users, n_items=n_items)
    test = Interactions.from_codes(np.arange(n_users), items[:, SEEN], n_users=n_users, n_items=n_items)
    return Factors(user, item), Split(train, test)


def with_numpy(factors: Factors, split: Split, m: int, n_users: int) -> np.ndarray:
    """Draw with ``Generator.choice`` and score with einsum, user by user."""
    draw = np.random.default_rng(0)
    seen, targets = split.train.by_user(), split.test.by_user()
    out = np.empty(n_users, np.int64)
    for user in range(n_users):
        blocked = np.append(seen.of(user), targets.of(user))
        items = draw.choice(split.train.n_items, m + 2 * len(blocked), replace=False, shuffle=False)
        items = items[~np.isin(items, blocked)][:m]
        scores = np.einsum("d,id->i", factors.user[user], factors.item[items])
        out[user] = (scores > factors.item[targets.of(user)[0]] @ factors.user[user]).sum()
    return out


def check(factors: Factors, split: Split, m: int) -> None:
    """Assert that compiled ranks are those of float64 arithmetic on the same draws."""
    few = Split(split.train, split.test.where(split.test.user < 50))
    compiled = sampled_ranks(factors, split, f"uniform(m={m})", n_threads=1)
    small = sampled_ranks(factors, few, f"uniform(m={min(m, 99)})", n_threads=1)
    if m <= 99:
        assert np.array_equal(small.n_above, compiled.n_above[:50])
    two = sampled_ranks(factors, split, f"uniform(m={m})", n_threads=2)
    assert np.array_equal(compiled.n_above, two.n_above) and (compiled.n_candidates >= m).all()
    assert abs(compiled.n_above.mean() / m - 0.5) < 0.05


def in_turns(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Run all jobs in turns; return their seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def summary(seconds: list[float], n: int) -> dict[str, float]:
    """Return median and spread, and nanoseconds per negative."""
    middle = statistics.median(seconds)
    return {"median_s": middle, "min_s": min(seconds), "max_s": max(seconds), "ns": 1e9 * middle / n}


def measure(case: tuple[int, int, int], repeats: int) -> dict[str, Any]:
    """Time one case."""
    n_items, m, n_users = case
    factors, split = make_case(n_items, n_users)
    check(factors, split, m)
    listed = np.random.default_rng(1).integers(0, n_items, n_users * m).astype(np.int32)
    numpy_users = min(n_users, NUMPY_USERS)
    read_rows(factors.item, listed[:10])
    spec = f"uniform(m={m})"
    seconds = in_turns(
        {
            "floor": lambda: read_rows(factors.item, listed),
            "truerank": lambda: sampled_ranks(factors, split, spec, n_threads=1),
            "numpy": lambda: with_numpy(factors, split, m, numpy_users),
        },
        repeats,
    )
    n = n_users * m
    ratios = [a / b for a, b in zip(seconds["floor"], seconds["truerank"], strict=True)]
    ours = summary(seconds["truerank"], n)
    rival = summary(seconds["numpy"], numpy_users * m)
    return {
        "items": n_items,
        "negatives": m,
        "users": n_users,
        "seen_per_user": SEEN,
        "floor": summary(seconds["floor"], n),
        "truerank": ours,
        "numpy": {**rival, "users": numpy_users},
        "share_of_floor": statistics.median(ratios),
        "share_of_floor_each": ratios,
        "share_of_floor_by_minima": min(seconds["floor"]) / min(seconds["truerank"]),
        "numpy_over_truerank": rival["ns"] / ours["ns"],
    }


def measure_ml_1m(repeats: int) -> dict[str, Any]:
    """Time sampling beside exact ranking at the size of MovieLens 1M."""
    n_items, n_users = ML_1M
    factors, split = make_case(n_items, n_users)
    jobs: dict[str, Callable[[], Any]] = {"exact": lambda: exact_ranks(factors, split, n_threads=1)}
    for m in (99, 999):
        jobs[f"uniform(m={m})"] = lambda m=m: sampled_ranks(  # type: ignore[misc]
            factors, split, f"uniform(m={m})", n_threads=1
        )
    for job in jobs.values():
        job()
    seconds = in_turns(jobs, max(repeats, 7))
    return {
        "items": n_items,
        "users": n_users,
        "median_s": {name: statistics.median(values) for name, values in seconds.items()},
    }


def show(row: dict[str, Any]) -> None:
    """Print one case."""
    print(
        f"{row['items']:>9,} {row['negatives']:>5} {row['floor']['ns']:>10.1f} "
        f"{row['truerank']['ns']:>10.1f} "
        f"{row['share_of_floor']:>8.0%} {row['share_of_floor_by_minima']:>9.0%} {row['numpy']['ns']:>9.0f} "
        f"{row['numpy_over_truerank']:>6.1f}",
        flush=True,
    )


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two small cases, nothing is written")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print("nanoseconds per negative, 64 factors, without replacement, 50 seen items excluded")
    print(
        f"{'items':>9} {'m':>5} {'floor':>10} {'truerank':>10} {'share':>8} {'of minima':>9} "
        f"{'numpy':>9} {'times':>6}"
    )
    cases = []
    with threadpool_limits(1):
        for case in QUICK if options.quick else CASES:
            cases.append(measure(case, options.repeats))
            show(cases[-1])
        small = measure_ml_1m(options.repeats)
    print(f"{small['users']:,} users x {small['items']:,} items, seconds: {small['median_s']}")
    if options.quick:
        return
    host = machine()
    result = {
        "benchmark": "sampled_ranks",
        "machine": host,
        "repeats": options.repeats,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "cases": cases,
        "ml_1m_size": small,
    }
    slug = folder_name()
    path = Path(__file__).parent / "results" / slug / "sampled_ranks.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to benchmarks/results/{slug}/sampled_ranks.json")


if __name__ == "__main__":
    main()
