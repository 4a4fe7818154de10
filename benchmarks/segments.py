"""How often intervals of groups hold the value of the group.

    python -m benchmarks.segments [--users 300] [--sampled 40] [--exact 1000]
    python -m benchmarks.segments --data ml-100k,citeulike-a --users 300,1500 --exact 300

Two tables on the demo data. *Exact*: users are drawn with replacement from those of the demo, which stand for
the population; the interval of each group is counted where it holds the value of all users of the group, and
a draw counts as a miss of all groups where the simultaneous interval of a difference between two models
leaves out the true one in any group, pair or metric, and as a wrong sign where one lies on the wrong side of
0, on which marks and sentences rest. *Sampled*: negatives are drawn again and again for the same users; an
estimate's interval is counted where it holds the exact value of the group.

With ``--data`` there is one table on real data: how often all intervals of differences hold together, with
score tests and by Student's statistic alone, and how much wider the former are, by how many users differ.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from truerank.core.errors import DataWarning
from truerank.core.random import stream
from truerank.core.ranks import Ranks
from truerank.core.split import GroupLabels, Split
from truerank.core.types import FloatArray
from truerank.data.catalogue import load
from truerank.data.demo import demo
from truerank.inference.user_interval import INTERVALS
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.simulate import simulate_sample
from truerank.split.base import make_split, sample_users
from truerank.workflows.assembly import group_differences
from truerank.workflows.compare.differences import SimultaneousIntervals, simultaneous_intervals
from truerank.workflows.evaluate import evaluate
from truerank.workflows.options import make_options
from truerank.workflows.segments.grouping import label_split, make_groupings
from truerank.workflows.segments.values import estimated_group, rows_in

METRICS = "ndcg@10,recall@10"
MODELS = ("popularity", "item-knn", "ials")
LEVEL = 0.95
MOST_USERS = 10_000  # of a real data set, drawn at random


@dataclass
class JointCount:
    """How often intervals of all differences hold together, with score tests and without."""

    actual: FloatArray
    n_missed: int = 0
    n_missed_student: int = 0
    n_wrong: int = 0
    n_draws: int = 0
    wider: dict[str, list[float]] = field(default_factory=lambda: {"1-19": [], "20-99": [], "100+": []})

    def add(self, drawn: Sequence[Sequence[FloatArray]], seed: int) -> None:
        """Count one draw of users."""
        paired = group_differences(drawn, seed=seed)
        found = simultaneous_intervals(paired, level=LEVEL, correction="max-t")
        student = simultaneous_intervals(replace(paired, scores=()), level=LEVEL, correction="max-t")
        self.n_draws += 1
        self.n_missed += self._is_missed(found)
        self.n_missed_student += self._is_missed(student)
        is_wrong = ((found.low > 1e-12) & (self.actual <= 0)) | ((found.high < -1e-12) & (self.actual >= 0))
        self.n_wrong += bool(is_wrong.any())
        pairs = list(combinations(range(len(drawn[0])), 2))
        differ = [np.count_nonzero(group[a] - group[b], axis=0) for group in drawn for a, b in pairs]
        ratio = (found.high - found.low) / np.maximum(student.high - student.low, 1e-300)
        for count, times in zip(np.ravel(differ), ratio.ravel(), strict=True):
            if count:
                self.wider["1-19" if count < 20 else "20-99" if count < 100 else "100+"].append(times)

    def _is_missed(self, found: SimultaneousIntervals) -> bool:
        return bool(((found.low > self.actual + 1e-12) | (found.high < self.actual - 1e-12)).any())

    def percents(self) -> list[str]:
        """Return percentages: held with score tests, held by Student's statistic, wrong sign; then widths."""
        counts = (
            self.n_draws - self.n_missed,
            self.n_draws - self.n_missed_student,
            self.n_wrong,
        )
        return [
            *(f"{100 * count / self.n_draws:.1f}" for count in counts),
            *(f"{np.median(times):.2f}" if times else "-" for times in self.wider.values()),
        ]


@dataclass
class Population:
    """Values of all users of a data set in each group, from which users are drawn."""

    labels: GroupLabels
    parts: list[list[FloatArray]]

    @classmethod
    def of(cls, ranks: dict[str, Ranks], labels: GroupLabels) -> Population:
        """Return the values of the groups that have users."""
        metrics = make_metrics(METRICS)
        rows = [
            [(one, rows_in(one, labels, at)) for one in ranks.values()] for at in range(len(labels.names))
        ]
        kept = [place for place, group in enumerate(rows) if group[0][1].any()]
        names = tuple(labels.names[place] for place in kept)
        parts = [[values(metrics, one.where(mask)) for one, mask in rows[place]] for place in kept]
        return cls(replace(labels, names=names, label=np.zeros_like(labels.label)), parts)

    def draw(self, n_users: int, seed: int) -> list[list[FloatArray]]:
        """Return values of users drawn with replacement, as many of each group as its part of all."""
        random, drawn = stream(seed, f"segments/{self.labels.by}"), []
        total = sum(len(group[0]) for group in self.parts)
        for group in self.parts:
            rows = random.integers(0, len(group[0]), max(round(n_users * len(group[0]) / total), 2))
            drawn.append([part[rows] for part in group])
        return drawn

    def joint_count(self) -> JointCount:
        """Return a count that knows the true differences."""
        pairs = list(combinations(range(len(self.parts[0])), 2))
        return JointCount(
            np.array(
                [group[a].mean(axis=0) - group[b].mean(axis=0) for group in self.parts for a, b in pairs]
            )
        )


def exact_table(ranks: dict[str, Ranks], labels: GroupLabels, n_users: int, repeats: int) -> list[str]:
    """Return lines on the coverage of intervals over users drawn from a population."""
    population, interval = Population.of(ranks, labels), INTERVALS.make("auto")
    truth = [[part.mean(axis=0) for part in group] for group in population.parts]
    hits = np.zeros((len(truth), len(ranks), len(truth[0][0])))
    joint = population.joint_count()
    for repeat in range(repeats):
        drawn = population.draw(n_users, repeat)
        for at, group in enumerate(drawn):
            for row, sample in enumerate(group):
                band = interval.band(sample, level=LEVEL, seed=repeat)
                hits[at, row] += (band.low <= truth[at][row]) & (truth[at][row] <= band.high)
        joint.add(drawn, repeat)
    held, student, wrong, *_ = joint.percents()
    return [
        *(
            f"| {labels.by}: {name} | {len(drawn[at][0]):,} | {_percents(hits[at] / repeats)} |"
            for at, name in enumerate(population.labels.names)
        ),
        f"| {labels.by}: all groups, pairs and metrics together | | {held} (Student's {student}), "
        f"wrong sign {wrong} |",
    ]


def difference_table(
    names: Sequence[str], specs: Sequence[str], sizes: Sequence[int], repeats: int
) -> Iterator[str]:
    """Yield lines on simultaneous intervals of differences on real data."""
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            split = make_split(load(name), "leave-one-out")
            split = sample_users(split, min(MOST_USERS, len(np.unique(split.test.user))))
            ranks = dict(evaluate(list(MODELS), split, METRICS, interval="normal").ranks)
        for labels in label_split(make_groupings(list(specs)), split):
            population = Population.of(ranks, labels)
            for n_users in sizes:
                joint = population.joint_count()
                for repeat in range(repeats):
                    joint.add(population.draw(n_users, repeat), repeat)
                yield f"| {name} | {labels.by} | {n_users:,} | {' | '.join(joint.percents())} |"


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
    parser.add_argument("--users", default="300", help="users of each draw, over all groups")
    parser.add_argument("--exact", type=int, default=1000, help="draws of users")
    parser.add_argument("--sampled", type=int, default=40, help="samples of negatives")
    parser.add_argument("--negatives", type=int, default=100)
    parser.add_argument("--by", default="history,popularity")
    parser.add_argument("--data", default="", help="names of data sets: differences alone, on real data")
    asked = parser.parse_args()
    specs, sizes = asked.by.split(","), [int(size) for size in asked.users.split(",")]
    if asked.data:
        print("| data | by | users | held | Student's | wrong sign | width, 1-19 differ | 20-99 | 100+ |")
        print(f"|{'---|' * 9}")
        for line in difference_table(asked.data.split(","), specs, sizes, asked.exact):
            print(line, flush=True)
        return
    measure(make_split(demo()), specs, sizes[0], asked.exact, asked.sampled, asked.negatives)


if __name__ == "__main__":
    main()
