"""How fast corrections are fitted, and what the N x n law would have cost.

* The normal matrix from marginals against the dense product A'DA, both laws; agreement is asserted first.
* One probability by recurrence from the mode against log-gamma.
* BV for a catalogue of 1,000,000 items and n = 1000: the matrix and the weights over ranks, in a process of
  its own, with its peak memory.

    python benchmarks/corrections.py [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from benchmarks.machine import cpu_name, folder_name
from truerank.core.ranks import Design, SampledRanks
from truerank.estimation.law import NEGLIGIBLE, FixedLaw, make_law
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.metrics.registry import make_metrics

SIZES = [(3_706, 100), (25_815, 500), (100_000, 999)]
LARGE = (1_000_000, 999)
KINDS = {"with replacement": True, "without replacement": False}


def seconds(work: Callable[[], object], repeats: int) -> dict[str, Any]:
    """Time a call several times; the first, which compiles or warms, is not counted."""
    work()
    runs = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        runs.append(time.perf_counter() - start)
    return {
        "median_seconds": statistics.median(runs),
        "spread_seconds": max(runs) - min(runs),
        "seconds": runs,
    }


def log_gamma_rows(law: FixedLaw, n_above: np.ndarray) -> Any:
    """Return the law by logarithms of gamma functions, vectorised."""
    L, m, J, j = law.n_candidates, law.n_negatives, n_above[:, None], np.arange(law.n_negatives + 1)

    def log_choose(n: Any, k: Any) -> Any:
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    if law.replacement:
        return np.exp(log_choose(m, j) + xlogy(j, J / L) + xlog1py(m - j, -J / L))
    with np.errstate(invalid="ignore"):
        rows = np.exp(log_choose(J, j) + log_choose(L - J, m - j) - log_choose(L, m))
    return np.where((j <= J) & (m - j <= L - J), rows, 0.0)


def dense_gram(law: FixedLaw, prior: np.ndarray) -> Any:
    """Return A'DA from the whole matrix of the law, by BLAS."""
    root = law.pmf(np.arange(law.n_candidates + 1)) * np.sqrt(prior)[:, None]
    return root.T @ root


def measure_gram(n_pool: int, m: int, replacement: bool, repeats: int) -> dict[str, Any]:
    """Compare the two ways to the normal matrix after they have been found equal."""
    law = make_law(n_pool - 1, m, replacement=replacement)
    prior = np.full(n_pool, 1 / n_pool)
    ours, dense = law.gram(prior, floor=NEGLIGIBLE), dense_gram(law, prior)
    error = float(np.abs(ours - dense).max() / dense.max())
    assert error < 1e-11, error
    figure: dict[str, Any] = {
        "n_pool": n_pool,
        "n_negatives": m,
        "replacement": replacement,
        "largest_error": error,
        "truerank": seconds(lambda: law.gram(prior, floor=NEGLIGIBLE), repeats),
        "dense": seconds(lambda: dense_gram(law, prior), repeats),
        "dense_bytes": 8 * n_pool * (m + 1),
    }
    figure["ratio"] = figure["dense"]["median_seconds"] / figure["truerank"]["median_seconds"]
    return figure


def measure_pmf(replacement: bool, repeats: int) -> dict[str, Any]:
    """Compare nanoseconds per probability on 2,000 whole rows of N = 100,000, m = 999."""
    law = make_law(99_999, 999, replacement=replacement)
    above = np.linspace(0, 99_999, 2000).astype(np.int64)
    ours, theirs = law.pmf(above), log_gamma_rows(law, above)
    assert np.abs(ours - theirs).max() < 1e-9
    entries = ours.size
    figure: dict[str, Any] = {
        "replacement": replacement,
        "entries": entries,
        "recurrence": seconds(lambda: law.pmf(above), repeats),
        "log_gamma": seconds(lambda: log_gamma_rows(law, above), repeats),
    }
    for name in ("recurrence", "log_gamma"):
        figure[name]["nanoseconds_per_entry"] = 1e9 * figure[name]["median_seconds"] / entries
    return figure


def peak_bytes() -> int:
    """Return the most memory this program has held, not counting what its parent held when it was started."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text()) if status.exists() else None
    return 1024 * (int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def run_large(replacement: bool) -> None:
    """Fit BV for the large catalogue in this process and print its figures as JSON."""
    n_pool, m = LARGE
    metrics = make_metrics("recall@10,ndcg@10,ap")
    estimator = ESTIMATORS.make("bv(gamma=0.1)")
    design = Design(replacement=replacement)
    above = np.random.default_rng(0).binomial(m, 0.1, 1000)
    small = tally(SampledRanks.single(above % 5, n_negatives=9, n_pool=50, design=design))
    estimator.distribution(small)  # compiling is not what is measured
    estimator.estimate(small, metrics)
    before = peak_bytes()
    counted = tally(SampledRanks.single(above, n_negatives=m, n_pool=n_pool, design=design))
    start = time.perf_counter()
    weights = estimator.distribution(counted).weights
    fitted = time.perf_counter()
    peak = peak_bytes()
    values = estimator.estimate(counted, metrics).value
    end = time.perf_counter()
    rank = np.arange(1, n_pool + 1)
    one = np.ones_like(rank)
    for metric, value in zip(metrics, values, strict=True):
        direct = float(weights @ metric.gain(rank, 0 * one, one, n_pool * one))
        assert abs(direct - value) <= 1e-9 * max(abs(value), 1e-3), (str(metric), direct, value)
    print(
        json.dumps(
            {
                "fit_and_weights_seconds": fitted - start,
                "three_metrics_seconds": end - fitted,
                "peak_bytes": peak,
                "bytes_before": before,
            }
        )
    )


def measure_large(replacement: bool, repeats: int) -> dict[str, Any]:
    """Run the large fit several times, each in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.corrections", "--large", str(replacement)]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats)
    ]
    fits = [run["fit_and_weights_seconds"] for run in runs]
    return {
        "n_pool": LARGE[0],
        "n_negatives": LARGE[1],
        "replacement": replacement,
        "median_seconds": statistics.median(fits),
        "spread_seconds": max(fits) - min(fits),
        "seconds": fits,
        "three_metrics_seconds": statistics.median(run["three_metrics_seconds"] for run in runs),
        "peak_bytes": max(run["peak_bytes"] for run in runs),
        "bytes_of_the_fit": max(run["peak_bytes"] - run["bytes_before"] for run in runs),
        "dense_bytes": 8 * LARGE[0] * (LARGE[1] + 1),
    }


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--large", choices=["True", "False"], help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.large:
        run_large(given.large == "True")
        return
    figures: dict[str, Any] = {"gram": [], "pmf": [], "large": []}
    print(f"normal matrix {'N':>14} {'m':>5} {'truerank':>10} {'dense':>9} {'ratio':>7} {'error':>9}")
    for kind, replacement in KINDS.items():
        for n_pool, m in SIZES:
            found = measure_gram(n_pool, m, replacement, given.repeats)
            figures["gram"].append(found)
            ours, dense = found["truerank"]["median_seconds"], found["dense"]["median_seconds"]
            print(
                f"{kind:20} {n_pool:7} {m:5} {ours:9.4f}s {dense:8.3f}s {found['ratio']:7.1f} "
                f"{found['largest_error']:9.1e}"
            )
    for kind, replacement in KINDS.items():
        found = measure_pmf(replacement, given.repeats)
        figures["pmf"].append(found)
        ours, theirs = (found[name]["nanoseconds_per_entry"] for name in ("recurrence", "log_gamma"))
        print(
            f"one probability, {kind}: recurrence {ours:.2f} ns, log-gamma {theirs:.1f} ns, "
            f"ratio {theirs / ours:.0f}"
        )
    for kind, replacement in KINDS.items():
        found = measure_large(replacement, given.repeats)
        figures["large"].append(found)
        print(
            f"bv(gamma=0.1), N = {LARGE[0]:,}, m = {LARGE[1]}, {kind}: "
            f"fit and weights {found['median_seconds']:.2f} s (spread {found['spread_seconds']:.2f}), "
            f"{found['bytes_of_the_fit'] / 1e6:.0f} MB on top of the libraries, "
            f"{found['peak_bytes'] / 1e6:.0f} MB in all; the dense law: {found['dense_bytes'] / 1e9:.0f} GB"
        )
    cpu = cpu_name()
    target = given.out / folder_name(cpu) / "corrections.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": "corrections",
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
