"""How long intervals of estimates from sampled ranks take.

1,000 resamples per estimator and target against the plain way: draw users, tally them, estimate, one resample
after the other (timed on a few, per 1,000). Before anything is timed, the first resamples must be those of
the plain way: to 1e-4 of the spread, and for ``smooth``, which starts warm, to 1 %. Then the closed form,
bounds and bias-aware intervals of four metrics. Then ``delta`` of fitted estimators on large designs against
their bootstrap (timed on a few resamples, per 1,000); before it is timed, standard errors for the population
must agree to a third. Figures are CPU seconds of all threads together.

    python -m benchmarks.uncertainty [--quick] [--resamples 1000]
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import numpy as np

from benchmarks.machine import folder_name, machine
from truerank.core.random import stream
from truerank.core.ranks import Ranks, SampledRanks, Stopping
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.inference.estimate_interval.linear import LinearisedEstimate
from truerank.inference.estimate_interval.outcomes import n_possible_outcomes
from truerank.inference.estimate_interval.registry import UNCERTAINTIES, PointEstimates, Target
from truerank.inference.estimate_interval.resampling import resample_estimates
from truerank.metrics.registry import make_metrics
from truerank.ranking.simulate import simulate_adaptive, simulate_sample

METRICS = make_metrics("recall@1,recall@10,recall@50,ndcg@10")
FITTED = ("mle", "mle(solver=exact)", "mes", "smooth", "beta-binomial")
#: items and users of MovieLens 1M and 20M
CASES = [(3_706, 6_040), (20_720, 137_000)]
PLAIN = 8  # resamples of the plain way
FEW = 50  # resamples that ``delta`` is compared with


def sample_of(n_items: int, n_users: int) -> SampledRanks:
    """Return 99 negatives for one target per user; many ranks are small."""
    share = np.random.default_rng(1).beta(0.35, 2.5, n_users)
    return simulate_sample(Ranks.single((share * n_items).astype(np.int64), n_pool=n_items), 99)


def designs() -> dict[str, SampledRanks]:
    """Return samples with many outcomes: large ones, adaptive ones, and those from pools of many sizes."""
    draw = np.random.default_rng(2)
    share = draw.beta(0.35, 2.5, 10_000)
    even = Ranks.single((share * 9_916).astype(np.int64), n_pool=9_916)
    pool = 6_000 - np.minimum(draw.lognormal(3.5, 0.9, 2_500).astype(np.int64), 2_500)
    uneven = Ranks.single((share[:2_500] * pool).astype(np.int64), n_pool=pool)
    to_1600, to_3200 = (tuple(100 * 2**i for i in range(n)) for n in (5, 6))
    return {
        "499 of 9,916": simulate_sample(even, 499),
        "adaptive to 1,600 of 9,916": simulate_adaptive(even, Stopping(to_1600)),
        "adaptive to 3,200, many pools": simulate_adaptive(uneven, Stopping(to_3200)),
    }


def estimated(sample: SampledRanks, name: str) -> PointEstimates:
    """Return what an interval is made for."""
    made, counted = ESTIMATORS.make(name), tally(sample)
    return PointEstimates(sample, counted, made, METRICS, made.estimate(counted, METRICS).value)


def plainly(found: PointEstimates, count: int) -> np.ndarray:
    """Return resamples of users one by one; rows are users."""
    values = []
    for number in range(count):
        n_users = found.tally.n_users
        users = stream(0, "bootstrap/users", number).integers(0, n_users, n_users, dtype=np.int32)
        columns = {
            field.name: getattr(found.ranks, field.name)[users]
            for field in fields(found.ranks)
            if field.name not in ("design", "user")
        }
        drawn = SampledRanks(user=np.arange(n_users), design=found.ranks.design, **columns)
        values.append(found.estimator.estimate(tally(drawn), METRICS).value)
    return np.array(values)


def seconds(job: Any) -> float:
    """Return the CPU seconds of a call."""
    start = time.process_time()
    job()
    return time.process_time() - start


def measure(sample: SampledRanks, name: str, resamples: int) -> dict[str, Any]:
    """Time one estimator."""
    found = estimated(sample, name)
    values = resample_estimates(found, target="population", resamples=50)
    start = time.process_time()
    expected = plainly(found, PLAIN)
    rival = (time.process_time() - start) / PLAIN * 1000
    off = np.abs(values[:PLAIN] - expected).max(axis=0) / values.std(axis=0)
    assert (off < (0.01 if name == "smooth" else 1e-4)).all(), off
    took = {}
    for target in get_args(Target):
        resample_estimates(found, target=target, resamples=2)  # compiled
        took[target] = seconds(lambda t=target: resample_estimates(found, target=t, resamples=resamples))
        took[target] *= 1000 / resamples
    row = {"items": int(sample.n_pool[0]), "users": sample.n_users, "estimator": name, "seconds": took}
    row |= {"plain_seconds": rival, "plain_over_truerank": rival / took["population"]}
    print(
        f"{row['items']:>7,} {row['users']:>8,} {name:>18} {took['test-users']:>11.2f} "
        f"{took['population']:>11.2f} {rival:>9.1f} {row['plain_over_truerank']:>7.1f}",
        flush=True,
    )
    return row


def derived(design: str, sample: SampledRanks, name: str, few: int) -> dict[str, Any]:
    """Time ``delta`` of a fitted estimator, both targets, against its bootstrap."""
    found = estimated(sample, name)
    spread = resample_estimates(found, target="population", resamples=few).std(axis=0, ddof=1)
    off = np.abs(LinearisedEstimate.of(found, "population").standard_error("population") / spread - 1)
    assert (off < 1 / 3).all(), off
    took, rival = {}, {}
    for target in get_args(Target):
        took[target] = seconds(lambda t=target: UNCERTAINTIES.make("delta").band(found, target=t))
        rival[target] = (
            seconds(lambda t=target: resample_estimates(found, target=t, resamples=few)) * 1000 / few
        )
    row = {"design": design, "users": sample.n_users, "estimator": name, "seconds": took}
    row |= {"outcomes": n_possible_outcomes(found.tally), "bootstrap_seconds": rival}
    figures = [*took.values(), *rival.values()]
    print(f"{design:>30} {row['outcomes']:>7,} {name:>14}", *(f"{one:>10.2f}" for one in figures), flush=True)
    return row


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small cases, nothing is written")
    parser.add_argument("--resamples", type=int, default=1000)
    options = parser.parse_args()
    resamples = 50 if options.quick else options.resamples
    print("CPU seconds of 1,000 resamples, four metrics, 99 negatives; plain: one after the other")
    heads = f"{'items':>7} {'users':>8} {'estimator':>18} {'test-users':>11} {'population':>11}"
    print(f"{heads} {'plain':>9} {'times':>7}")
    rows, others = [], []
    for n_items, n_users in CASES[:1] if options.quick else CASES:
        sample = sample_of(n_items, n_users)
        rows += [measure(sample, name, resamples) for name in FITTED]
        linear = estimated(sample, "bv")
        for kind in ("delta", "auto", "bounds", "bias-aware"):
            UNCERTAINTIES.make(kind).band(linear)
            took = seconds(lambda k=kind, f=linear: UNCERTAINTIES.make(k).band(f))
            others.append({"items": n_items, "users": n_users, "interval": kind, "seconds": took})
            print(f"{n_items:>7,} {n_users:>8,} {'bv, ' + kind:>18} {took:>11.2f}", flush=True)
    print("delta of fits on large designs; the last two columns are 1,000 resamples of the bootstrap")
    large = designs()
    cases = list(large.items())[:2] if options.quick else list(large.items())
    fits = [
        derived(design, one, name, FEW)
        for design, one in cases
        for name in ("mle", "smooth", "mes", "beta-binomial")
    ]
    if options.quick:
        return
    host = machine()
    result = {"benchmark": "uncertainty", "machine": host, "resamples": resamples}
    result |= {"resampling": rows, "intervals": others, "derivatives": fits}
    slug = folder_name()
    path = Path(__file__).parent / "results" / slug / "uncertainty.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to benchmarks/results/{slug}/uncertainty.json")


if __name__ == "__main__":
    main()
