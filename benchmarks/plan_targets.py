"""What a plan says of users with several targets, beside what is true of them.

Exact ranks of EASE on MovieLens-100K, a fifth of each user's events held out, are the truth. From a pilot of
50 negatives, targets of a user ranked against the same ones, it is planned what ``bv`` of 200 negatives will
do; 100 such samples are drawn to see what it does.

    python -m benchmarks.plan_targets
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from truerank.core.ranks import Ranks
from truerank.data.catalogue import load
from truerank.estimation.distribution.mle import MaximumLikelihood
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.inference.estimate_interval.registry import UNCERTAINTIES, PointEstimates
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.ranking.simulate import simulate_shared
from truerank.split.base import SPLITS
from truerank.workflows.plan.assumed_users import AssumedUsers, UsersFromDistribution, UsersFromPilot

METRICS = make_metrics("recall@10,ndcg@10")
PILOT, SIZE, RUNS = 50, 200, 100


def truth() -> Ranks:
    """Return exact ranks, ties won."""
    split = SPLITS.make("ratio(test=0.2)").split(load("ml-100k"))
    ranks = exact_ranks(MODELS.make("ease").fit(split.train, seed=0), split)
    zeros = np.zeros_like(ranks.n_tied)
    return replace(ranks, n_tied=zeros, n_relevant_tied=zeros)


def planned(users: AssumedUsers, n_users: int) -> list[list[float]]:
    """Return value, variance over users, standard error and bias, per metric."""
    spreads = [users.sampled(metric, SIZE) for metric in METRICS]
    return [
        [users.value(metric) for metric in METRICS],
        [users.exact(metric).users for metric in METRICS],
        [float(np.sqrt(spread.items / n_users)) for spread in spreads],
        [spread.bias for spread in spreads],
    ]


def main() -> None:
    """Print the table."""
    ranks, estimator = truth(), ESTIMATORS.make("bv(gamma=0.1)")
    exact, n = values(METRICS, ranks), ranks.n_users
    samples = [simulate_shared(ranks, SIZE, repeat=1 + run) for run in range(RUNS)]
    runs = np.stack([estimator.estimate(tally(sample), METRICS).value for sample in samples])
    counted = tally(samples[0])
    found = PointEstimates(samples[0], counted, estimator, METRICS, runs[0])
    band = UNCERTAINTIES.make("delta").band(found)
    true = [
        exact.mean(axis=0),
        exact.var(axis=0),
        runs.std(axis=0, ddof=1),
        runs.mean(axis=0) - exact.mean(axis=0),
    ]
    said = (band.high - band.low) / 2 / 1.96
    pilot = simulate_shared(ranks, PILOT)
    several = planned(UsersFromPilot.of(pilot, estimator, METRICS, n), n)
    one = planned(UsersFromDistribution(MaximumLikelihood().distribution(tally(pilot)), estimator, n), n)
    print(f"{n:,} users, {len(ranks):,} targets; {', '.join(map(str, METRICS))}")
    names = ("value", "variance over users", f"standard error, m = {SIZE}", f"bias, m = {SIZE}")
    print(f"{'':28} {'true':>18} {'plan':>18} {'one target each':>18}")
    for row, name in enumerate(names):
        columns = (" ".join(f"{x:8.4f}" for x in table[row]) for table in (true, several, one))
        print(f"{name:28} {' '.join(f'{column:>18}' for column in columns)}")
    print(f"{'as delta says it':28} {' '.join(f'{x:8.4f}' for x in said):>18}")


if __name__ == "__main__":
    main()
