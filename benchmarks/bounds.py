"""How long identification bounds take, how wide they are, and how often they hold.

The rival is the plain linear program: every limit of the empirical distribution of sampled ranks (Massart's
distance, which needs users that are alike), mass spread evenly over bins (so that ranks inside a bin cannot
be told apart), all bins at once. Its optimum is an approximation; ours is a bound. Ours must not be wider by
more than 5 %, and must hold the exact value: both are asserted before anything is timed. Coverage counts the
repeats in which all metrics lie within their bounds at once; beside them stand the bounds of the same samples
from events below thresholds alone, without those between two thresholds. Jobs run in turns; figures are CPU
seconds of all threads together, the least of all turns, per metric (both ends).

    python -m benchmarks.bounds [--quick] [--repeats 5] [--samples 200]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linprog
from threadpoolctl import threadpool_limits

from benchmarks.machine import folder_name, machine
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.types import BoolArray, IntArray
from truerank.data.catalogue import find_local, load
from truerank.estimation.distribution.base import bin_gains
from truerank.estimation.distribution.likelihood import make_likelihood
from truerank.estimation.tally import tally
from truerank.inference.bounds.identify import (
    IdentificationBound,
    fully_ranked_contexts,
    identification_bounds,
    unbinned_tally,
)
from truerank.inference.bounds.problem import BoundProblem
from truerank.inference.bounds.region import SampledRankEvents
from truerank.inference.bounds.sample_size import resolution
from truerank.metrics.registry import make_metrics
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.ranking.simulate import simulate_sample
from truerank.split.base import make_split

METRICS = "recall@1,recall@10,recall@50,ndcg@10"
NAMES = METRICS.split(",")
#: items, users; the first is that of MovieLens 1M
CASES = [(3_706, 6_040), (20_720, 20_000), (1_000_000, 20_000)]
SIZES = (99, 499)
MODELS_USED = ("popularity", "item-knn")


def population(n_items: int, n_users: int) -> Ranks:
    """Return ranks of one target per user, many of them small."""
    share = np.random.default_rng(1).beta(0.35, 2.5, n_users)
    return Ranks.single((share * n_items).astype(np.int64), n_pool=n_items)


def plain_program(sample: SampledRanks, level: float = 0.95) -> np.ndarray:
    """Return the smallest and largest value of each metric by the rival, (n_metrics, 2)."""
    counted = tally(sample)
    m, n_users = int(sample.n_negatives[0]), sample.n_users
    likelihood = make_likelihood([counted], step=0.1)
    share = np.cumsum(likelihood.fractions[0])[:-1]
    matrix = np.cumsum(likelihood.matrix, axis=0)[:-1]
    half = np.sqrt(np.log(2 / (1 - level)) / (2 * n_users))
    rows, limits = np.vstack([matrix, -matrix]), np.concatenate([share + half, half - share])
    assert m >= len(share)
    ends = []
    for metric in make_metrics(METRICS):
        gain = bin_gains(metric, counted.contexts, likelihood.grid)[0]
        for sign in (1, -1):
            found = linprog(sign * gain, rows, limits, np.ones((1, len(gain))), [1.0], method="highs")
            assert found.status == 0, found.message
            ends.append(sign * float(found.fun or 0.0))
    return np.array(ends).reshape(-1, 2)


class ThresholdsAlone(SampledRankEvents):
    """The events below thresholds, without those between two of them."""

    def __len__(self) -> int:
        return len(self.n_above)

    def indicators(self, n_negatives: IntArray, n_above: IntArray) -> BoolArray:
        """Return whether each outcome is in each event."""
        return super().indicators(n_negatives, n_above)[:, : len(self)]


def bounds_by_thresholds(sample: SampledRanks) -> np.ndarray:
    """Return the bounds from events below thresholds alone, (n_metrics, 2)."""
    counted = unbinned_tally(sample)
    is_known = fully_ranked_contexts(counted)
    problem = BoundProblem.of_tally(counted, is_known, None)
    events = ThresholdsAlone(problem.events.largest, problem.events.n_above)
    problem = replace(problem, events=events)
    limits, _ = problem.sample_limits(make_metrics(METRICS), counted, is_known, level=0.95)
    return np.maximum(limits, 0.0)


def exact_values(ranks: Ranks) -> np.ndarray:
    """Return what exact evaluation prints."""
    return np.array([metric.per_user(ranks).mean() for metric in make_metrics(METRICS)])


def holds(bounds: tuple[IdentificationBound, ...], values: np.ndarray) -> bool:
    """Whether all values lie within."""
    return all(b.low <= v <= b.high for b, v in zip(bounds, values, strict=True))


def least(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Run all jobs in turns; return their least CPU seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            start = time.process_time()
            job()
            seconds[name].append(time.process_time() - start)
    return {name: min(values) for name, values in seconds.items()}


def measure(n_items: int, n_users: int, m: int, repeats: int) -> dict[str, Any]:
    """Time one case."""
    ranks = population(n_items, n_users)
    sample = simulate_sample(ranks, m)
    found, rival = identification_bounds(sample, METRICS), plain_program(sample)
    assert holds(found, exact_values(ranks))
    at = NAMES.index("recall@10")
    assert found[at].high - found[at].low <= 1.05 * (rival[at, 1] - rival[at, 0])
    seconds = least(
        {
            "free": lambda: identification_bounds(sample, METRICS),
            "decreasing": lambda: identification_bounds(sample, METRICS, shape="decreasing"),
            "rival": lambda: plain_program(sample),
        },
        repeats,
    )
    start = time.process_time()
    words = str(resolution(sample, "recall@10")[0])
    return {
        "items": n_items,
        "users": n_users,
        "negatives": m,
        "seconds_per_metric": {name: value / len(NAMES) for name, value in seconds.items()},
        "rival_over_truerank": seconds["rival"] / seconds["free"],
        "recall@10": {
            "free": [found[at].low, found[at].high],
            "decreasing": _ends(identification_bounds(sample, "recall@10", shape="decreasing")[0]),
            "rival": rival[at].tolist(),
        },
        "resolution_s": time.process_time() - start,
        "resolution": words,
    }


def _ends(bound: IdentificationBound) -> list[float]:
    return [bound.low, bound.high]


def coverage(n_samples: int) -> list[dict[str, Any]]:
    """Return how often bounds hold on MovieLens 1M, each user with its own pool."""
    split = make_split(load("ml-1m"), "leave-last-out")
    rows = []
    for name in MODELS_USED:
        ranks = exact_ranks(MODELS.make(name).fit(split.train), split)
        values = exact_values(ranks)
        for m in SIZES:
            hits, ends, alone = 0, [], []
            for repeat in range(n_samples):
                sample = simulate_sample(ranks, m, repeat=repeat)
                found = identification_bounds(sample, METRICS)
                hits += holds(found, values)
                ends.append([[bound.low, bound.high] for bound in found])
                alone.append(bounds_by_thresholds(sample))
            mean, wide = np.mean(ends, axis=0), np.mean(alone, axis=0)
            row = {"model": name, "negatives": m, "samples": n_samples, "coverage": hits / n_samples}
            row |= {"method": found[0].method, "exact": values.tolist(), "mean_bounds": mean.tolist()}
            row["mean_bounds_by_thresholds"] = wide.tolist()
            rows.append(row)
            spans = ", ".join(
                f"{metric} {value:.3f} in [{low:.3f}, {high:.3f}], thresholds alone [{least:.3f}, {most:.3f}]"
                for metric, value, (low, high), (least, most) in zip(NAMES, values, mean, wide, strict=True)
            )
            print(f"{name:>11} m={m:<4} {hits}/{n_samples} hold; {spans}", flush=True)
    return rows


def show(row: dict[str, Any]) -> None:
    """Print one case."""
    seconds, at = row["seconds_per_metric"], row["recall@10"]
    spans = "  ".join(f"[{low:.3f}, {high:.3f}]" for low, high in (at["free"], at["decreasing"], at["rival"]))
    print(
        f"{row['items']:>9,} {row['negatives']:>4} {seconds['free']:>8.3f} {seconds['decreasing']:>10.3f} "
        f"{seconds['rival']:>8.3f} {row['rival_over_truerank']:>6.1f}  {spans} {row['resolution_s']:>7.1f}",
        flush=True,
    )


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small cases, nothing is written")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--samples", type=int, default=200)
    options = parser.parse_args()
    print("CPU seconds per metric, both ends; recall@10: free, decreasing, rival; seconds of resolution()")
    print(f"{'items':>9} {'m':>4} {'free':>8} {'decreasing':>10} {'rival':>8} {'times':>6}")
    cases = []
    with threadpool_limits(1):
        for n_items, n_users in CASES[:1] if options.quick else CASES:
            for m in SIZES:
                cases.append(measure(n_items, n_users, m, options.repeats))
                show(cases[-1])
        covered = []
        if find_local("ml-1m") is not None:
            covered = coverage(3 if options.quick else options.samples)
    if options.quick:
        return
    host = machine()
    result = {"benchmark": "bounds", "machine": host, "repeats": options.repeats, "cases": cases}
    result["coverage"] = covered
    slug = folder_name()
    path = Path(__file__).parent / "results" / slug / "bounds.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to benchmarks/results/{slug}/bounds.json")


if __name__ == "__main__":
    main()
