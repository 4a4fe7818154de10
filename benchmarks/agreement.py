"""What measuring agreement costs beside fitting the models: statistics, keeping, going on.

Three figures, each beside its rival in the same run; CPU seconds, so that a busy machine does not count:

* taus of all resamples at once, against ``scipy.stats.kendalltau`` called for each (for some, and scaled);
* resampled means of users as one product, against averaging the users of one resample after the other;
* an experiment that keeps its pieces, against the bare loop that draws, fits and judges the same models and
  keeps nothing; and the same experiment begun again when all is finished.

    python -m benchmarks.agreement [--users 400] [--models popularity,item-knn,ease]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import folder_name, machine

SHAPE = (400, 16, 6, 5, 3)  # resamples, strategies, fractions, seeds, metrics: one scenario of the paper
N_MODELS = 7
STRATEGIES, FRACTIONS, SEEDS = "random,stratified,random-user,head-user", (0.8, 0.4, 0.1), 2
SCENARIO = "implicit(metrics='auc,recall(norm=min)@20,ndcg@10')"


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds of some work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def taus() -> dict[str, Any]:
    """Compare all taus at once with one by one."""
    from scipy.stats import kendalltau

    from truerank.workflows.agreement.order import kendall

    rng = np.random.default_rng(0)
    x, y = rng.random((*SHAPE, N_MODELS)), rng.random((*SHAPE, N_MODELS))
    n_taus = int(np.prod(SHAPE))
    rows = rng.choice(n_taus, 2000, replace=False)
    flat = x.reshape(-1, N_MODELS)[rows], y.reshape(-1, N_MODELS)[rows]
    found: list[float] = []
    rival = cpu(lambda: found.extend(kendalltau(a, b).statistic for a, b in zip(*flat, strict=True)))
    ours = cpu(lambda: kendall(x, y))
    np.testing.assert_allclose(kendall(*flat), found, atol=1e-12)
    return {
        "case": f"{n_taus:,} taus of {N_MODELS} models",
        "cpu_s": ours,
        "rival_cpu_s": rival * n_taus / 2000,
    }


def means(n_users: int = 30_000) -> dict[str, Any]:
    """Compare one product with a loop over resamples."""
    from truerank.workflows.agreement.order import means_of_resamples, resample_users

    values = np.random.default_rng(0).random((n_users, 3)).astype(np.float32)
    weights, counts = np.ones(n_users), resample_users(0, n_users, SHAPE[0])
    picked = [np.repeat(np.arange(n_users), row) for row in counts]
    found: list[Any] = []
    rival = cpu(lambda: found.extend(values[rows].mean(axis=0, dtype=np.float64) for rows in picked))
    ours = cpu(lambda: means_of_resamples(values, weights, counts))
    np.testing.assert_allclose(means_of_resamples(values, weights, counts), found, rtol=1e-9)
    return {"case": f"{SHAPE[0]} resamples of {n_users:,} users", "cpu_s": ours, "rival_cpu_s": rival}


def experiment(n_users: int, models: str) -> list[dict[str, Any]]:
    """Compare an experiment with the bare loop, and a finished one with both."""
    from truerank.data.demo import demo
    from truerank.subsampling.subsample import subsample
    from truerank.workflows.agreement.experiment import measure_agreement
    from truerank.workflows.agreement.plan import make_plan
    from truerank.workflows.agreement.scenarios import SCENARIOS

    data = demo(n_users=n_users, n_items=2 * n_users)
    scenario = SCENARIOS.make(SCENARIO)
    plan = make_plan(STRATEGIES, FRACTIONS, scenario, models, seeds=SEEDS)
    n_fits = 0

    def bare() -> None:
        nonlocal n_fits
        split = scenario.divide(data, 0)
        for seed in plan.seeds:
            drawn = [split.train] + [
                subsample(split.train, strategy, fraction, seed=seed).train
                for strategy in plan.strategies.values()
                for fraction in plan.fractions
            ]
            for train in drawn:
                setup = scenario.fit_setup(split, train)
                validated = setup.validated
                for model_grid in plan.model_grids[scenario]:
                    model = model_grid.configurations[0]
                    scorer = model.fit(setup.train, validate=scenario.validator(setup), seed=seed)
                    scenario.user_totals(scorer, setup.evaluated)
                    if validated is not None:
                        scenario.user_totals(scorer, validated)
                    n_fits += 1

    with tempfile.TemporaryDirectory() as name:

        def whole() -> None:
            measure_agreement(
                data,
                STRATEGIES,
                FRACTIONS,
                scenario=scenario,
                models=models,
                seeds=SEEDS,
                keep=Path(name) / "kept",
            )

        measure_agreement(
            data, "random", [0.5], scenario=scenario, models=models, seeds=1
        )  # load what is compiled
        for strategy in plan.strategies.values():
            subsample(data, strategy, 0.5)
        rival, first, again = cpu(bare), cpu(whole), cpu(whole)
        n_bytes = sum(path.stat().st_size for path in (Path(name) / "kept").iterdir())
    print(f"kept: {n_bytes / n_fits / 1e3:.1f} kB per fitted model of {n_users} users")
    return [
        {"case": f"experiment of {n_fits} fits against the bare loop", "cpu_s": first, "rival_cpu_s": rival},
        {"case": "the same when all is finished", "cpu_s": again, "rival_cpu_s": rival},
    ]


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--users", type=int, default=400)
    options.add_argument("--models", default="popularity,item-knn,ease")
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = options.parse_args()
    cases = [taus(), means(), *experiment(given.users, given.models)]
    print(f"{'case':58} {'CPU s':>8} {'rival':>8} {'ratio':>8}")
    for case in cases:
        case["ratio"] = case["cpu_s"] / case["rival_cpu_s"]
        print(f"{case['case']:58} {case['cpu_s']:>8.3f} {case['rival_cpu_s']:>8.3f} {case['ratio']:>8.4f}")
    target = given.out / folder_name() / "agreement.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    record = {"benchmark": "agreement", "machine": machine(), "cases": cases}
    target.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {target}", file=sys.stderr)


if __name__ == "__main__":
    main()
