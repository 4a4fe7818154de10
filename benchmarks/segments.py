"""How often intervals of groups hold the value of the group.

    python -m benchmarks.segments [--users 300] [--sampled 40] [--exact 1000]

Two tables on the demo data. *Exact*: users are drawn with replacement from those of the demo, which stand for
the population; the interval of each group is counted where it holds the value of all users of the group, and
a draw counts as a miss of all groups where the simultaneous interval of a difference between two models
leaves out the true one in any group, pair or metric, and as a wrong sign where one lies on the wrong side of
0, on which marks and sentences rest. *Sampled*: negatives are drawn again and again for the same users; an
estimate's interval is counted where it holds the exact value of the group.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from truerank.core.random import stream
from truerank.core.ranks import Ranks
from truerank.core.split import GroupLabels, Split
from truerank.data.demo import demo
from truerank.inference.user_interval import INTERVALS
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.simulate import simulate_sample
from truerank.split.base import make_split
from truerank.workflows.assembly import pair_intervals
from truerank.workflows.evaluate import evaluate
from truerank.workflows.options import make_options
from truerank.workflows.segments.grouping import label_split, make_groupings
from truerank.workflows.segments.values import estimated_group, rows_in

METRICS = "ndcg@10,recall@10"
MODELS = ("popularity", "item-knn", "ials")
LEVEL = 0.95


def exact_table(ranks: dict[str, Ranks], labels: GroupLabels, n_users: int, repeats: int) -> list[str]:
    """Return lines on the coverage of intervals over users drawn from a population."""
    metrics, interval = make_metrics(METRICS), INTERVALS.make("auto")
    parts = [
        [values(metrics, one.where(rows_in(one, labels, at))) for one in ranks.values()]
        for at in range(len(labels.names))
    ]
    truth = [[part.mean(axis=0) for part in group] for group in parts]
    total = sum(len(group[0]) for group in parts)
    hits = np.zeros((len(parts), len(ranks), len(metrics)))
    n_missed = n_wrong = 0
    for repeat in range(repeats):
        random = stream(repeat, f"segments/{labels.by}")
        drawn = []
        for group in parts:
            size = max(round(n_users * len(group[0]) / total), 2)
            rows = random.integers(0, len(group[0]), size)
            drawn.append([part[rows] for part in group])
        for at, group in enumerate(drawn):
            for row, sample in enumerate(group):
                band = interval.band(sample, level=LEVEL, seed=repeat)
                hits[at, row] += (band.low <= truth[at][row]) & (truth[at][row] <= band.high)
        found = pair_intervals(drawn, level=LEVEL, seed=repeat)
        actual = np.array(
            [[group[a] - group[b] for a, b in combinations(range(len(ranks)), 2)] for group in truth]
        )
        n_wrong += bool((((found.low > 0) & (actual <= 0)) | ((found.high < 0) & (actual >= 0))).any())
        n_missed += bool(((found.low > actual + 1e-12) | (found.high < actual - 1e-12)).any())
    lines = [
        f"| {labels.by}: {name} | {len(drawn[at][0]):,} | {_percents(hits[at] / repeats)} |"
        for at, name in enumerate(labels.names)
    ]
    together = f"{labels.by}: all groups, pairs and metrics together"
    joint = (
        f"| {together} | | {100 * (1 - n_missed / repeats):.1f}, wrong sign {100 * n_wrong / repeats:.1f} |"
    )
    return [*lines, joint]


def sampled_table(ranks: dict[str, Ranks], labels: GroupLabels, m: int, repeats: int) -> list[str]:
    """Return lines on the coverage of estimates from samples of negatives."""
    options = make_options(METRICS, sampler=f"uniform(m={m})").estimation()
    hits = np.zeros((len(labels.names), len(ranks), len(options.metrics)))
    widths, sizes = np.zeros_like(hits), np.zeros(len(labels.names), np.int64)
    for at in range(len(labels.names)):
        for row, one in enumerate(ranks.values()):
            part = one.where(rows_in(one, labels, at))
            sizes[at] = part.n_users
            truth = values(options.metrics, part).mean(axis=0)
            for repeat in range(repeats):
                sample = simulate_sample(part, m, seed=repeat)
                estimates, reason = estimated_group("model", sample, options)
                if reason:
                    raise SystemExit(reason)
                for column, estimate in enumerate(estimates):
                    low, high = estimate.low or 0.0, estimate.high if estimate.high is not None else 1.0
                    hits[at, row, column] += low <= truth[column] <= high
                    widths[at, row, column] += (high - low) / repeats
        print(f"{labels.by}, {labels.names[at]}", file=sys.stderr, flush=True)
    return [
        f"| {labels.by}: {name} | {sizes[at]:,} | {_percents(hits[at] / repeats)} | {widths[at].mean():.3f} |"
        for at, name in enumerate(labels.names)
    ]


def _percents(fractions: np.ndarray) -> str:
    return " | ".join(f"{100 * one.mean():.1f}" for one in fractions)


def measure(split: Split, specs: Sequence[str], n_users: int, n_exact: int, n_sampled: int, m: int) -> None:
    """Measure and print both tables."""
    began = time.monotonic()
    ranks = dict(evaluate(list(MODELS), split, METRICS, interval="normal").ranks)
    groups = label_split(make_groupings(list(specs)), split)
    print(
        f"Exact: {n_exact:,} draws of {n_users:,} users, {LEVEL:.0%} intervals, mean of {METRICS}, held in %"
    )
    print(f"| group | users | {' | '.join(MODELS)} |\n|---|---|{'---|' * len(MODELS)}")
    for labels in groups:
        print("\n".join(exact_table(ranks, labels, n_users, n_exact)), flush=True)
    if n_sampled == 0:
        return
    print(f"Sampled: {n_sampled:,} samples of {m} negatives, {LEVEL:.0%} intervals of smooth, held in %")
    print(f"| group | users | {' | '.join(MODELS)} | width |\n|---|---|{'---|' * (len(MODELS) + 1)}")
    for labels in groups:
        print("\n".join(sampled_table(ranks, labels, m, n_sampled)), flush=True)
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--users", type=int, default=300, help="users of each draw, over all groups")
    parser.add_argument("--exact", type=int, default=1000, help="draws of users")
    parser.add_argument("--sampled", type=int, default=40, help="samples of negatives")
    parser.add_argument("--negatives", type=int, default=100)
    parser.add_argument("--by", default="history,popularity")
    asked = parser.parse_args()
    specs = asked.by.split(",")
    measure(make_split(demo()), specs, asked.users, asked.exact, asked.sampled, asked.negatives)


if __name__ == "__main__":
    main()
