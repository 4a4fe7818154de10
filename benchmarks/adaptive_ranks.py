"""How close adaptive sampling comes to the speed of reading what it scores, and what a plain loop takes.

The floor reads as many random item vectors (for stored scores: as many random entries of the users' rows) as
were scored, in compiled code. The rival is Algorithm 1 of Li et al. (2023) in NumPy, user by user. Half the
users' vectors lean towards their target, so that sample sizes spread as they do for a fitted model.
Correctness is asserted before anything is timed. Jobs run in turns; figures are CPU seconds of one thread,
the least of all turns, so that a busy machine matters little; the gain by two threads is of wall time.

    python -m benchmarks.adaptive_ranks [--quick] [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from benchmarks.machine import folder_name, machine
from benchmarks.sampled_ranks import make_case, read_rows
from truerank.core.scorer import DenseScores, Factors
from truerank.core.split import Split
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sample_ranks, sampled_ranks
from truerank.ranking.simulate import simulate_adaptive

SPEC = "adaptive(start=100, max=3200)"
SIZES = (99, 199, 399, 799, 1599, 3199)
#: items, users; the first two are those of MovieLens 1M and of Pinterest
CASES = [(3_706, 6_040), (9_916, 37_501), (100_000, 20_000)]
QUICK = [(3_706, 2_000), (20_000, 2_000)]
MOST_STORED = 400_000_000
NUMPY_USERS = 300


@njit(nogil=True)
def read_entries(scores: Any, users: Any, n: Any, seed: int) -> Any:
    """Add up n[u] random entries of the row of each user."""
    state, total = np.uint64(seed), 0.0
    width = np.uint64(scores.shape[1])
    for at in range(users.shape[0]):
        row = scores[users[at]]
        for _ in range(n[at]):
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            total += row[((state >> np.uint64(32)) * width) >> np.uint64(32)]
    return total


def lean(factors: Factors, split: Split) -> Factors:
    """Pull half of the users' vectors towards their targets, some more and some less."""
    draw = np.random.default_rng(2)
    n_users = len(factors.user)
    pull = np.where(draw.random(n_users) < 0.5, draw.exponential(0.35, n_users), 0.0).astype(np.float32)
    return Factors(factors.user + pull[:, None] * factors.item[split.test.by_user().items], factors.item)


def with_numpy(factors: Factors, split: Split, n_users: int) -> np.ndarray:
    """Run Algorithm 1 with ``Generator.integers``, with replacement, user by user."""
    draw = np.random.default_rng(0)
    seen, targets = split.train.by_user(), split.test.by_user()
    out = np.empty(n_users, np.int64)
    for user in range(n_users):
        target = targets.of(user)[0]
        blocked = np.append(seen.of(user), target)
        score, above, drawn = factors.item[target] @ factors.user[user], 0, 0
        for size in SIZES:
            items = draw.integers(0, split.train.n_items, size - drawn + 2 * len(blocked))
            items = items[~np.isin(items, blocked)][: size - drawn]
            above += int((factors.item[items] @ factors.user[user] > score).sum())
            drawn = size
            if above > 0:
                break
        out[user] = drawn
    return out


def check(scorer: Any, split: Split) -> None:
    """Assert that threads do not matter, nor stopping beyond the first round, and that costs are counted."""
    one, two = (sample_ranks(scorer, split, SPEC, n_threads=n) for n in (1, 2))
    fixed = sampled_ranks(scorer, split, "uniform(m=99)")
    assert np.array_equal(one.ranks.n_above, two.ranks.n_above)
    assert np.array_equal(one.ranks.n_negatives == 99, fixed.n_above > 0)
    assert one.n_scores == two.n_scores == int((one.ranks.n_negatives + 1).sum())


def in_turns(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, dict[str, list[float]]]:
    """Run all jobs in turns; return their wall and CPU seconds."""
    clocks = {"wall": time.perf_counter, "cpu": time.process_time}
    seconds: dict[str, dict[str, list[float]]] = {name: {clock: [] for clock in clocks} for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            before = {clock: read() for clock, read in clocks.items()}
            job()
            for clock, read in clocks.items():
                seconds[name][clock].append(read() - before[clock])
    return seconds


def measure(n_items: int, n_users: int, kind: str, repeats: int) -> dict[str, Any]:
    """Time one case."""
    raw, split = make_case(n_items, n_users)
    factors = lean(raw, split)
    scorer = factors if kind == "factors" else DenseScores(factors.user @ factors.item.T)
    check(scorer, split)
    found = sample_ranks(scorer, split, SPEC)
    n_scores, sizes = found.n_scores, found.ranks.n_negatives
    listed = np.random.default_rng(1).integers(0, n_items, n_scores).astype(np.int32)
    users = np.arange(n_users)
    exact = exact_ranks(scorer, split)
    numpy_users, fixed_size = min(n_users, NUMPY_USERS), round(n_scores / n_users) - 1
    assert with_numpy(factors, split, 5).min() >= 99

    def floor() -> Any:
        if isinstance(scorer, DenseScores):
            return read_entries(scorer.scores, users, sizes + 1, 1)
        return read_rows(factors.item, listed)

    floor()
    simulate_adaptive(exact, SPEC)
    seconds = in_turns(
        {
            "floor": floor,
            "adaptive": lambda: sample_ranks(scorer, split, SPEC, n_threads=1),
            "two": lambda: sample_ranks(scorer, split, SPEC, n_threads=2),
            "fixed": lambda: sample_ranks(scorer, split, f"uniform(m={fixed_size})", n_threads=1),
            "replace": lambda: sample_ranks(scorer, split, SPEC.replace(")", ", replace=true)"), n_threads=1),
            "simulated": lambda: simulate_adaptive(exact, SPEC),
            "numpy": lambda: with_numpy(factors, split, numpy_users),
        },
        repeats,
    )
    cpu = {name: min(both["cpu"]) for name, both in seconds.items()}
    wall = {name: min(both["wall"]) for name, both in seconds.items()}
    return {
        "kind": kind,
        "items": n_items,
        "users": n_users,
        "mean_size": n_scores / n_users,
        "cpu_s": cpu,
        "wall_s": wall,
        "ns_per_score": 1e9 * cpu["adaptive"] / n_scores,
        "share_of_floor": cpu["floor"] / cpu["adaptive"],
        "over_fixed": (cpu["adaptive"] / n_scores) / (cpu["fixed"] / ((fixed_size + 1) * n_users)),
        "two_threads_times": wall["adaptive"] / wall["two"],
        "users_per_s": n_users / cpu["adaptive"],
        "simulated_rows_per_s": n_users / cpu["simulated"],
        "numpy_over_truerank": (cpu["numpy"] / numpy_users) / (cpu["adaptive"] / n_users),
    }


def show(row: dict[str, Any]) -> None:
    """Print one case."""
    print(
        f"{row['kind']:>8} {row['items']:>8,} {row['users']:>7,} {row['mean_size']:>6.0f} "
        f"{row['ns_per_score']:>9.1f} {row['share_of_floor']:>6.0%} {row['over_fixed']:>9.2f} "
        f"{row['two_threads_times']:>5.2f} {row['users_per_s']:>9,.0f} {row['simulated_rows_per_s']:>11,.0f} "
        f"{row['numpy_over_truerank']:>6.1f}",
        flush=True,
    )


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small cases, nothing is written")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"{SPEC}, without replacement, 64 factors, 50 seen items excluded; CPU time, users/s of one thread")
    print(
        f"{'scores':>8} {'items':>8} {'users':>7} {'size':>6} {'ns/score':>9} {'share':>6} {'to fixed':>9} "
        f"{'2 thr':>5} {'users/s':>9} {'simulated/s':>11} {'numpy':>6}"
    )
    cases = []
    with threadpool_limits(1):
        for n_items, n_users in QUICK if options.quick else CASES:
            for kind in ("factors", "stored"):
                if kind == "stored" and n_items * n_users > MOST_STORED:
                    continue
                cases.append(measure(n_items, n_users, kind, options.repeats))
                show(cases[-1])
    if options.quick:
        return
    host = machine()
    result = {"benchmark": "adaptive_ranks", "machine": host, "repeats": options.repeats, "cases": cases}
    slug = folder_name()
    path = Path(__file__).parent / "results" / slug / "adaptive_ranks.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to benchmarks/results/{slug}/adaptive_ranks.json")


if __name__ == "__main__":
    main()
