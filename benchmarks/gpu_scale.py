"""What ranks cost on one GPU by users, items and negatives, and what that says of 100 million users.

Everything comes from the host's memory and goes back there: user and item vectors, lists and counts; reading
files does not count. Seconds are fitted by sums of counts times rates (``truerank.distributed.cost``) and
compared with runs that the rates were not fitted to. Some users of every run are ranked by plain
float64 sums, and drawn in NumPy, too, which must give the same counts.

    python -m benchmarks.gpu_scale [--quick] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.machine import folder_name
from truerank.core.interactions import Lists
from truerank.core.ranks import Design, Stopping
from truerank.core.scorer import Factors
from truerank.distributed.cost import GPU, Work, fit_gpu, gpu_bytes, gpu_seconds, predict_gpu
from truerank.ranking import negatives as sampler
from truerank.ranking.exact import Queries
from truerank.ranking.gpu.exact import count_on_device
from truerank.ranking.gpu.sampled import DeviceFactors
from truerank.ranking.growing import GrowingNegatives, compare_growing
from truerank.ranking.negatives import Rows
from truerank.ranking.samplers.adaptive import Adaptive

N_SEEN = 20
CHECKED = 40

#: users, items, dimensions, negatives (None: exact)
FITTED = [
    (131_072, 1_000_000, 64, None),
    (1_000_000, 1_000_000, 64, None),
    (1_000_000, 100_000, 64, None),
    (65_536, 5_000_000, 64, None),
    (131_072, 500_000, 128, None),
    (1_000_000, 1_000_000, 64, 25),
    (1_000_000, 1_000_000, 64, 99),
    (500_000, 1_000_000, 64, 499),
    (200_000, 1_000_000, 64, 1_999),
    (200_000, 5_000_000, 64, 499),
    (500_000, 500_000, 128, 199),
]
HELD_OUT = [
    (4_000_000, 250_000, 64, None),
    (131_072, 10_000_000, 64, None),
    (2_000_000, 10_000_000, 64, 100),
    (500_000, 10_000_000, 64, 1_000),
]
ADAPTIVE = "adaptive(start=100, max=3200)"
ADAPTIVE_SIZE = (1_000_000, 10_000_000, 64)

Array = np.ndarray[Any, Any]


class Problem:
    """Gaussian factors on the host, one target and some seen items per user."""

    def __init__(self, n_users: int, n_items: int, width: int) -> None:
        torch.manual_seed(0)
        self.n_users, self.n_items = n_users, n_items
        self.users, self.items = (
            torch.randn((n, width), device="cuda").cpu().numpy() for n in (n_users, n_items)
        )
        draw = np.random.default_rng(0)
        step = n_items // (N_SEEN + 1)
        cells = np.arange(N_SEEN + 1) * step + draw.integers(0, step, (n_users, N_SEEN + 1))
        self.targets, self.seen = cells[:, -1].copy(), cells[:, :-1].astype(np.int32)

    def near_the_top(self) -> None:
        """Make each user's target the best of 1000 items, as of a model that works."""
        some = torch.randperm(self.n_items)[:1000].numpy()
        items = torch.from_numpy(self.items[some]).cuda()
        for start in range(0, self.n_users, 1 << 17):
            users = torch.from_numpy(self.users[start : start + (1 << 17)]).cuda()
            best = (users @ items.T).argmax(1).cpu().numpy()
            self.targets[start : start + len(best)] = some[best]
        self.seen[(self.seen == self.targets[:, None]).any(1)] = np.arange(N_SEEN)
        self.seen[(self.seen == self.targets[:, None]).any(1)] = np.arange(N_SEEN) + N_SEEN

    def lists(self, rows: Array | slice) -> tuple[Lists, Lists]:
        """Return targets and seen items of some users."""
        targets, seen = self.targets[rows], self.seen[rows]
        number = np.arange(len(targets) + 1)
        return Lists(number, targets), Lists(number * N_SEEN, seen.ravel())

    def rows(self, rows: Array | slice) -> Rows:
        """Return what negatives are drawn for."""
        targets, seen = self.lists(rows)
        user = np.arange(self.n_users)[rows]
        number = np.arange(len(user))
        queries = Queries(user, targets, seen)
        return Rows(queries, None, self.n_items, number, targets.indptr, False, 0, "sample//0", queries.users)  # type: ignore[arg-type]

    def factors(self) -> Factors:
        """Return the model."""
        return Factors(self.users, self.items)


def negatives_of(rows: Rows, stopping: Stopping) -> GrowingNegatives:
    """Return uniform negatives without replacement."""
    return GrowingNegatives(rows, stopping, Design("uniform", replacement=False, shared=True))


def ignore(n: int) -> None:
    """Report nothing."""


def exact(problem: Problem) -> Any:
    """Return exact counts."""
    targets, seen = problem.lists(slice(None))
    return count_on_device(
        problem.users, problem.items, None, targets.indptr, targets.items, seen.indptr, seen.items
    )


def check_exact(problem: Problem, counts: Any) -> None:
    """Assert the counts of some users by float64 sums over all items, coordinates in ascending order."""
    items = torch.from_numpy(problem.items).cuda()
    for user in np.random.default_rng(1).choice(problem.n_users, CHECKED, replace=False):
        scores = torch.zeros(problem.n_items, dtype=torch.float64, device="cuda")
        for k, factor in enumerate(problem.users[user].tolist()):
            scores += factor * items[:, k].double()
        target = scores[int(problem.targets[user])].clone()
        scores[torch.from_numpy(problem.seen[user].astype(np.int64)).cuda()] = -torch.inf
        assert int((scores > target).sum()) == counts.n_above[user]


def sampled(problem: Problem, stopping: Stopping) -> Any:
    """Return counts among negatives that are drawn on the GPU."""
    rows = problem.rows(slice(None))
    judge = DeviceFactors(problem.factors(), rows)
    assert judge.can_sample
    return compare_growing(problem.factors(), negatives_of(rows, stopping), 1, ignore, judge)


def check_sampled(problem: Problem, stopping: Stopping, found: Any) -> None:
    """Assert the counts of some users by draws and sums of NumPy."""
    few = np.sort(np.random.default_rng(1).choice(problem.n_users, CHECKED, replace=False))
    sampler.SMALL_SAMPLES = 1 << 60
    expected = compare_growing(problem.factors(), negatives_of(problem.rows(few), stopping), 1, ignore)
    for name in ("n_above", "n_tied", "n_negatives"):
        assert np.array_equal(getattr(found, name)[few], getattr(expected, name)), name


def seconds(function: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Return the median time, the GPU memory at its peak, and the result; one call warms up."""
    found = function()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        found = function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times), float(torch.cuda.max_memory_allocated()), found


def measure(size: tuple[int, int, int, int | None], repeats: int) -> dict[str, Any]:
    """Return the seconds and bytes of one run, checked."""
    users, items, dims, m = size
    problem = Problem(users, items, dims)
    if m is None:
        taken, peak, found = seconds(lambda: exact(problem), repeats)
        check_exact(problem, found)
    else:
        stopping = Stopping((m,))
        taken, peak, found = seconds(lambda: sampled(problem, stopping), repeats)
        check_sampled(problem, stopping, found)
    torch.cuda.empty_cache()
    row = {"users": users, "items": items, "dims": dims, "negatives": m, "seconds": taken, "peak_bytes": peak}
    print(
        f"  {users:>9,} x {items:>10,} x {dims:>3}  {'exact' if m is None else m:>6}  {taken:8.3f} s", end=""
    )
    print(f"  {peak / 1e9:6.2f} GB", flush=True)
    return row


def measure_adaptive(repeats: int) -> list[dict[str, Any]]:
    """Return adaptive samples of random targets, and of targets near the top."""
    made = Adaptive(100, 3200)
    problem, found = Problem(*ADAPTIVE_SIZE), []
    for name in ("random targets", "the best of 1000"):
        if name != "random targets":
            problem.near_the_top()
        taken, peak, judged = seconds(lambda: sampled(problem, made.stopping), repeats)
        check_sampled(problem, made.stopping, judged)
        mean = float(judged.n_negatives.mean())
        print(
            f"  {ADAPTIVE}, {name}: {mean:.0f} negatives per user, {taken:.3f} s, {peak / 1e9:.2f} GB",
            flush=True,
        )
        found.append({"targets": name, "mean_negatives": mean, "seconds": taken, "peak_bytes": peak})
    return found


def work_of(row: dict[str, Any]) -> Work:
    """Return the size of a run."""
    return Work(row["users"], row["items"], row["dims"], row["negatives"], seen=N_SEEN)


def main() -> None:
    """Measure, fit, check, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small runs only, nothing is written")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="where to write; benchmarks/results/GPU unless given")
    options = parser.parse_args()
    name = torch.cuda.get_device_name()
    print(f"{name}: from the host's memory and back, median of {options.repeats}", flush=True)
    if options.quick:
        for size in ((20_000, 50_000, 64, None), (20_000, 50_000, 64, 99), (5_000, 3_000, 64, 2_500)):
            measure(size, 1)
        return
    runs = [measure(size, options.repeats) for size in FITTED]
    rates = fit_gpu([(work_of(row), row["seconds"]) for row in runs])
    print(f"rates: {rates}\nnot fitted to:")
    held = [measure(size, options.repeats) for size in HELD_OUT]
    for row in [*runs, *held]:
        row["predicted"] = rates.total(gpu_seconds(work_of(row)))
        row["predicted_by_the_library"] = GPU.total(gpu_seconds(work_of(row)))
        row["predicted_bytes"] = gpu_bytes(work_of(row))
    for title, rows in (("fitted", runs), ("not fitted", held)):
        off = [row["predicted"] / row["seconds"] - 1 for row in rows]
        print(f"{title}: predicted off by " + ", ".join(f"{100 * value:+.0f} %" for value in off))
    adaptive = measure_adaptive(options.repeats)
    print("100,000,000 x 10,000,000 x 64, seconds:")
    large = {}
    for m in (None, 100, 1_000):
        work = Work(10**8, 10**7, 64, m, seen=N_SEEN)
        large[str(m)] = {str(n): predict_gpu(work, n, rates).seconds for n in (1, 8, 64)}
        print(f"  {'exact' if m is None else m}: {large[str(m)]}", flush=True)
    result = {
        "benchmark": "gpu_scale",
        "machine": {"gpu": name, "versions": {"torch": torch.__version__, "triton": version("triton")}},
        "rates": asdict(rates),
        "fitted": runs,
        "held_out": held,
        "adaptive": {"size": ADAPTIVE_SIZE, "sampler": ADAPTIVE, "runs": adaptive},
        "predicted_1e8_x_1e7_x_64": large,
    }
    slug = folder_name(name)
    folder = options.out or Path(__file__).parent / "results" / slug
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu_scale.json").write_text(json.dumps(result, indent=2) + "\n")
    print("\nwritten to gpu_scale.json")


if __name__ == "__main__":
    main()
