"""Linear corrections on adaptive samples against adaptive maximum likelihood: error and time.

* Error: mean over K = 1..50 of abs(estimate / exact - 1), mean and standard deviation over repeats, on
  simulated ranks and on ranks of real recommenders whose data are at hand. Priors of ``bv`` and ``mn`` are
  fitted to each sample; rows marked "averaged" take the mean over all repeats, a budget nobody has. Samples
  of fixed size with more scores per user stand below for comparison.
* Time of a fit, from counts to 100 metrics, with nothing remembered (wall and processor), and once it is.
* The normal matrix of 400 kept outcomes against the dense product over all of them; agreement is asserted.

    python -m benchmarks.linear_adaptive [--repeats 20] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import cpu_name, folder_name
from truerank.core.ranks import Ranks, Stopping
from truerank.data.catalogue import find_local, load
from truerank.estimation.adaptive_law import AdaptiveLaw
from truerank.estimation.corrections import base as correction
from truerank.estimation.corrections import multinomial
from truerank.estimation.corrections import priors as fitted
from truerank.estimation.corrections.priors import averaged_prior, fitted_prior
from truerank.estimation.law import NEGLIGIBLE
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally, tally
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.ranking.simulate import simulate_adaptive, simulate_sample
from truerank.split.base import make_split

RULE = Stopping((99, 199, 399, 799, 1599, 3199))
FIXED_SIZE = 499
PRIOR = "mle(iterations=50)"
RIVAL = "mle(iterations=50)"
ADAPTIVE = [
    RIVAL,
    "mle",
    "bv",
    "bv(gamma=0.01)",
    "bv(gamma=0.001)",
    "mn",
    f"bv(prior={PRIOR})",
    f"bv(prior={PRIOR}, gamma=0.01)",
    f"bv(prior={PRIOR}, gamma=0.001)",
    f"mn(prior={PRIOR})",
]
FIXED = ["mle", "bv(gamma=0.01)", "bv(prior=mle, gamma=0.01)", "mn(prior=mle)"]
REAL = [("ml-1m", ["item-knn", "ease", "popularity"]), ("citeulike-a", ["item-knn", "popularity"])]
METRICS = make_metrics([f"{name}@{k}" for name in ("recall", "ndcg") for k in range(1, 51)])


def simulated() -> dict[str, Ranks]:
    """Return ranks of two made-up recommenders: log-normal, and as Beta(0.3, 1)."""
    draw = np.random.default_rng(0)
    normal = np.minimum(np.exp(draw.normal(5.5, 2, 20_000)), 25_814).astype(np.int64)
    beta = np.minimum(draw.random(20_000) ** (1 / 0.3) * 25_815, 25_814).astype(np.int64)
    return {
        "log-normal, N = 25,815": Ranks.single(normal, n_pool=25_815),
        "Beta(0.3, 1), N = 25,815": Ranks.single(beta, n_pool=25_815),
    }


def real() -> Iterator[tuple[str, Ranks]]:
    """Yield exact ranks over all items, seen ones kept, of recommenders whose data are at hand."""
    for name, models in REAL:
        if find_local(name) is None:
            print(f"{name}: data not at hand, left out", file=sys.stderr)
            continue
        split = make_split(load(name), "leave-one-out")
        for model in models:
            scorer = MODELS.make(model).fit(split.train, seed=0)
            yield f"{name} {model}", exact_ranks(scorer, split, seen="keep")


def forget() -> None:
    """Drop everything that estimators remember."""
    for memory in (correction._EQUATIONS, correction._VALUES, multinomial._NOISE):
        memory._kept.clear()
        memory._bytes = 0
    fitted._FITS.clear()


def seconds(
    work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the median time of a call."""
    runs = []
    for _ in range(repeats):
        start = clock()
        work()
        runs.append(clock() - start)
    return statistics.median(runs)


def errors(found: np.ndarray, exact: np.ndarray) -> dict[str, list[float]]:
    """Return mean and standard deviation over repeats of the relative error in percent."""
    gap = np.abs(found - exact)
    terms = 100 * np.divide(gap, exact, out=np.zeros_like(gap), where=exact > 0)
    parts = {"recall": terms[:, :50].mean(axis=1), "ndcg": terms[:, 50:].mean(axis=1)}
    return {name: [float(part.mean()), float(part.std())] for name, part in parts.items()}


def measure(
    written: str, runs: list[Tally], exact: np.ndarray, *, is_averaged: bool = False
) -> dict[str, Any]:
    """Return the errors of one estimator and the time of a fit."""
    estimator = ESTIMATORS.make(written)
    if is_averaged:
        estimator = replace(estimator, prior=averaged_prior(fitted_prior(estimator), runs))  # type: ignore[arg-type, call-arg]

    def alone() -> object:
        forget()
        return estimator.estimate_runs(runs[:1], METRICS)

    alone()
    first = seconds(alone, 3)
    again = seconds(lambda: estimator.estimate_runs(runs[:1], METRICS), 3)
    start = time.perf_counter()
    found = estimator.estimate_runs(runs, METRICS)
    together = (time.perf_counter() - start) / len(runs)
    return {
        "estimator": written,
        "averaged_prior": is_averaged,
        **errors(found, exact),
        "first_fit_seconds": first,
        "first_fit_processor_seconds": seconds(alone, 3, time.process_time),
        "next_fit_seconds": again,
        "seconds_per_run_in_a_batch": together,
    }


def study(name: str, ranks: Ranks, repeats: int) -> dict[str, Any]:
    """Return the table of one set of ranks."""
    exact = values(METRICS, ranks).mean(axis=0)
    grown = [simulate_adaptive(ranks, RULE, replacement=True, repeat=i) for i in range(repeats)]
    flat = [simulate_sample(ranks, FIXED_SIZE, replacement=True, repeat=i) for i in range(repeats)]
    runs = [tally(one) for one in grown]
    cost = float(np.mean([one.n_negatives.mean() for one in grown])) + 1
    rows = [measure(written, runs, exact) for written in ADAPTIVE]
    rows += [measure(w, runs, exact, is_averaged=True) for w in ADAPTIVE if "prior=mle" in w]
    counted = [tally(one) for one in flat]
    below = [measure(written, counted, exact) for written in FIXED]
    print(f"\n{name}: {len(ranks)} users, exact recall@10 {exact[9]:.4f}, {cost:.0f} items per user")
    head = f"{'':52} {'recall@1..50':>15} {'ndcg@1..50':>15} {'first fit':>10} {'cpu':>8} {'next':>8}"
    print(head)
    for label, table in (("", rows), (f"n = {FIXED_SIZE + 1} ", below)):
        for row in table:
            shown = label + row["estimator"] + (", averaged" if row["averaged_prior"] else "")
            recall, ndcg = (f"{row[key][0]:7.2f} ± {row[key][1]:5.2f}" for key in ("recall", "ndcg"))
            print(
                f"{shown:52} {recall:>15} {ndcg:>15} {row['first_fit_seconds']:9.3f}s "
                f"{row['first_fit_processor_seconds']:7.3f}s {row['next_fit_seconds']:7.3f}s"
            )
    return {"ranks": name, "n_users": len(ranks), "items_per_user": cost, "adaptive": rows, "fixed": below}


def dense_gram(law: AdaptiveLaw, prior: np.ndarray) -> Any:
    """Return A'DA over all kept outcomes from the whole matrix of the law, by BLAS."""
    root = law.pmf(np.arange(law.n_candidates + 1)) * np.sqrt(prior)[:, None]
    return root.T @ root


def measure_gram(n_pool: int, repeats: int) -> dict[str, Any]:
    """Compare the normal matrix from blocks with the dense one, under a peaked prior."""
    law = AdaptiveLaw(n_pool - 1, RULE, replacement=True)
    prior = np.diff((np.arange(n_pool + 1) / n_pool) ** 0.3)

    def ours() -> Any:
        return law.gram(prior, floor=NEGLIGIBLE)

    found = ours()
    figure: dict[str, Any] = {"n_pool": n_pool, "n_outcomes": law.n_outcomes}
    figure["truerank_seconds"] = seconds(ours, repeats)
    figure["dense_bytes"] = 8 * n_pool * (RULE.sizes[-1] + 1)
    if n_pool <= 30_000:
        dense = dense_gram(law, prior)
        figure["largest_error"] = float(np.abs(found - dense).max() / dense.max())
        assert figure["largest_error"] < 1e-12, figure
        figure["dense_seconds"] = seconds(lambda: dense_gram(law, prior), repeats)
        figure["ratio"] = figure["dense_seconds"] / figure["truerank_seconds"]
    return figure


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=20)
    options.add_argument("--quick", action="store_true", help="simulated ranks only")
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = options.parse_args()
    figures: dict[str, Any] = {"gram": [], "studies": []}
    for n_pool in (3_706, 25_815, 1_000_000):
        found = measure_gram(n_pool, 3)
        figures["gram"].append(found)
        dense = (
            f"dense {found['dense_seconds']:.3f} s, ratio {found['ratio']:.1f}, " if "ratio" in found else ""
        )
        print(
            f"normal matrix, N = {n_pool:,}, {found['n_outcomes']} outcomes: "
            f"{found['truerank_seconds']:.3f} s, "
            f"{dense}all outcomes would take {found['dense_bytes'] / 1e9:.1f} GB"
        )
    cases = [*simulated().items()] if given.quick else [*simulated().items(), *real()]
    for name, ranks in cases:
        figures["studies"].append(study(name, ranks, given.repeats))
    cpu = cpu_name()
    target = given.out / folder_name(cpu) / "linear_adaptive.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": "linear_adaptive",
        "machine": {"cpu": cpu, "cores": os.cpu_count(), "system": platform.system()},
        "versions": {name: version(name) for name in ("truerank", "numpy", "scipy", "numba")}
        | {"python": platform.python_version()},
        "repeats": given.repeats,
        "figures": figures,
    }
    target.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {target}", file=sys.stderr)


if __name__ == "__main__":
    main()
