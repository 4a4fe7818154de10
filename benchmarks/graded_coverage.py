"""How often intervals of graded metrics, estimated from sampled negatives, hold the exact values.

    python -m benchmarks.graded_coverage [--data ml-100k] [--split leave-one-out] [--repeats 40]
    python -m benchmarks.graded_coverage --split 'ratio(test=0.1)' [--users 300] [--negatives 100]

Ratings of the test events are the gains; with ``ratio`` users have several targets of different gain. Models
are ranked among all items once; then negatives are drawn again and again, and an interval is counted where it
holds the exact value of the ``--users`` test users. Next to the graded metrics stand the same metrics of the
same ranks with all gains equal: what estimators owe to grades is the difference of the two. ``error`` is the
mean of estimate less exact value, in percent of the latter.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from truerank.core.errors import DataWarning
from truerank.core.ranks import Ranks
from truerank.data.catalogue import load
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.simulate import simulate_sample
from truerank.split.base import make_split, sample_users
from truerank.workflows.estimate import estimate_each
from truerank.workflows.evaluate import evaluate
from truerank.workflows.options import make_options

METRICS = "ndcg@10,err@10"
MODELS = ("popularity", "item-knn", "ials")
METHODS = (("bv", "delta"), ("smooth", "delta"), ("smooth", "posterior"))
LEVEL = 0.95


def graded_ranks(data: str, rule: str, n_users: int, gain: str) -> dict[str, Ranks]:
    """Return exact ranks of the models with the gains of their targets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        split = sample_users(make_split(load(data), rule), n_users)
        result = evaluate(list(MODELS), split, METRICS, gain=gain, interval="normal")
    return dict(result.ranks)


def rows(
    ranks: Ranks, estimator: str, uncertainty: str, m: int, repeats: int
) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield for each metric: exact value, fraction of intervals that hold it, mean error, mean width."""
    options = make_options(
        METRICS,
        sampler=f"uniform(m={m})",
        estimators=estimator,
        uncertainty=uncertainty,
        level=LEVEL,
        bounds=False,
    ).estimation()
    truth = values(make_metrics(METRICS), ranks).mean(axis=0)
    held, error, width = (np.zeros(len(truth)) for _ in range(3))
    for repeat in range(repeats):
        found = list(estimate_each("model", simulate_sample(ranks, m, seed=1, repeat=repeat), options))
        for column, one in enumerate(found):
            low, high = one.low or 0.0, 1.0 if one.high is None else one.high
            held[column] += low <= truth[column] <= high
            error[column] += one.value - truth[column]
            width[column] += high - low
    for column, metric in enumerate(METRICS.split(",")):
        yield (
            metric,
            float(truth[column]),
            100 * held[column] / repeats,
            100 * error[column] / repeats / truth[column],
            width[column] / repeats,
        )


def table(every: dict[str, Ranks], m: int, repeats: int) -> Iterator[str]:
    """Yield the lines of a table, graded and ungraded values side by side."""
    heads = ("model", "estimator, interval", "metric", "exact", "held, %", "error, %", "width")
    yield f"| {' | '.join(heads)} | all gains 1: held, % | error, % |"
    yield f"|{'---|' * 9}"
    for (name, ranks), (estimator, uncertainty) in product(every.items(), METHODS):
        graded = rows(ranks, estimator, uncertainty, m, repeats)
        plain = rows(replace(ranks, gain=None), estimator, uncertainty, m, repeats)
        for (metric, exact, held, error, width), (_, _, held_1, error_1, _) in zip(
            graded, plain, strict=True
        ):
            yield (
                f"| {name} | {estimator}, {uncertainty} | {metric} | {exact:.4f} | {held:.0f} | {error:+.1f} "
                f"| {width:.3f} | {held_1:.0f} | {error_1:+.1f} |"
            )


def main() -> None:
    """Read the options, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", default="ml-100k", help="a data set with ratings")
    parser.add_argument("--split", default="leave-one-out")
    parser.add_argument("--gain", default="rating(form=exp2)")
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--negatives", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=40)
    asked = parser.parse_args()
    began = time.process_time()
    every = graded_ranks(asked.data, asked.split, asked.users, asked.gain)
    targets = len(next(iter(every.values())))
    print(
        f"{asked.data}, {asked.split}: {asked.users:,} users, {targets:,} targets, {asked.gain}, "
        f"{asked.repeats} samples of {asked.negatives} negatives"
    )
    for line in table(every, asked.negatives, asked.repeats):
        print(line, flush=True)
    print(f"{time.process_time() - began:.0f} s of processor time")


if __name__ == "__main__":
    main()
