"""How fast rank distributions are fitted, and what the ways of others cost.

* Each case of ``CASES``: sampled ranks to estimates of three metrics, from the counts (``Tally``) and from
  the rows (``SampledRanks``), against the time that was asked for.
* EM as the authors run it, a loop over users over all ranks; timed on a part and extrapolated, after both
  have been found equal.
* The exact maximum by a general solver (cvxpy with Clarabel, where installed) on the same bins.
* 100 runs at once, users with pools of their own, 150 metrics: the floor is the matrix products of EM alone.

Ratios are of processor time, all threads together, so that a machine with other work to do can be used.

    python -m benchmarks.estimators [--quick] [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from benchmarks.machine import folder_name, machine
from truerank.core.parallel import single_threaded_blas
from truerank.core.ranks import Design, SampledRanks, Stopping
from truerank.estimation.distribution.base import MixtureEstimator, plug_in
from truerank.estimation.distribution.likelihood import make_likelihood
from truerank.estimation.distribution.mle import log_likelihood
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.metrics.registry import make_metrics

SIZES = (99, 199, 399, 799, 1599, 3199)
METRICS = "recall@10,ndcg@10,ap@10"


@dataclass(frozen=True)
class Case:
    """An estimator on simulated ranks.

    Parameters
    ----------
    estimator : its spec
    n_pool : ranks
    n_users : one target each
    sizes : negatives after each round; one number for samples of fixed size
    limit : seconds that were asked for
    """

    estimator: str
    n_pool: int
    n_users: int
    sizes: tuple[int, ...]
    limit: float


CASES = [
    Case("mle(solver=exact)", 20_720, 137_000, (99,), 0.05),
    Case("mle(solver=exact)", 20_720, 137_000, SIZES, 1.0),
    Case("mle", 20_720, 137_000, (99,), 0.05),
    Case("mle", 1_000_000, 137_000, (99,), 0.05),
    Case("mle(iterations=50)", 20_720, 137_000, SIZES, 1.0),
    Case("mes", 1_000_000, 137_000, (99,), 0.5),
    Case("mes", 1_000_000, 137_000, (499,), 0.5),
    Case("beta-binomial", 1_000_000, 137_000, (99,), 0.05),
    Case("smooth", 1_000_000, 137_000, (99,), 0.05),
    Case("smooth", 1_000_000, 137_000, (499,), 0.05),
    Case("smooth", 20_720, 137_000, SIZES, 1.0),
]
QUICK = [Case(case.estimator, case.n_pool // 10, 2000, case.sizes[:3], case.limit) for case in CASES[::2]]


def draw_sample(n_pool: int, n_users: int, sizes: tuple[int, ...], seed: int = 0) -> SampledRanks:
    """Return sampled ranks of a decent model, drawn in rounds as long as nothing stands above the target."""
    draw = np.random.default_rng(seed)
    J = np.minimum(draw.beta(0.3, 1.2, n_users) * n_pool, n_pool - 1).astype(np.int64)
    above, m = np.zeros(n_users, dtype=np.int64), np.zeros(n_users, dtype=np.int64)
    for size in sizes:
        on = above == 0
        above[on] = draw.binomial(size - m[on], J[on] / (n_pool - 1))
        m[on] = size
    design = Design(replacement=True, stopping=Stopping(sizes) if len(sizes) > 1 else None)
    return SampledRanks.single(above, n_negatives=m, n_pool=n_pool, design=design)


def seconds(work: Callable[[], object], repeats: int) -> dict[str, Any]:
    """Time a call several times; the first, which compiles or warms, is not counted."""
    work()
    runs, busy = [], []
    for _ in range(repeats):
        start, before = time.perf_counter(), time.process_time()
        work()
        runs.append(time.perf_counter() - start)
        busy.append(time.process_time() - before)
    return {"median_s": statistics.median(runs), "cpu_s": statistics.median(busy), "seconds": runs}


def measure(case: Case, repeats: int) -> dict[str, Any]:
    """Time one case from counts and from rows."""
    sample, measured = draw_sample(case.n_pool, case.n_users, case.sizes), make_metrics(METRICS)
    estimator = ESTIMATORS.make(case.estimator)
    counted = tally(sample)
    figure: dict[str, Any] = {
        "estimator": case.estimator,
        "n_pool": case.n_pool,
        "n_users": case.n_users,
        "sizes": case.sizes,
        "limit_s": case.limit,
        "from_counts": seconds(lambda: estimator.estimate(counted, measured), repeats),
        "from_rows": seconds(lambda: estimator.estimate(tally(sample), measured), repeats),
    }
    if isinstance(estimator, MixtureEstimator):
        likelihood, fit = estimator.fit_tallies([counted])
        figure["shape"] = likelihood.matrix.shape
        figure["diagnostics"] = dict(fit.diagnostics[0]) if fit.diagnostics else {}
    figure["share_of_limit"] = figure["from_counts"]["median_s"] / case.limit
    return figure


def user_loop(sample: SampledRanks, iterations: int) -> np.ndarray:
    """Return EM as the authors' notebooks have it: each step goes through all users and all ranks."""
    N = int(sample.n_pool[0])
    theta = np.arange(N) / (N - 1)
    pairs = {}
    for m, j in sorted(set(zip(sample.n_negatives.tolist(), sample.n_above.tolist(), strict=True))):
        choose = gammaln(m + 1) - gammaln(j + 1) - gammaln(m - j + 1)
        pairs[m, j] = np.exp(choose + xlogy(j, theta) + xlog1py(m - j, -theta))
    masses = np.full(N, 1 / N)
    for _ in range(iterations):
        total = np.zeros(N)
        for m, j in zip(sample.n_negatives.tolist(), sample.n_above.tolist(), strict=True):
            joint = masses * pairs[m, j]
            total += joint / joint.sum()
        masses = total / len(sample)
    return masses


def measure_loop(case: Case, ours: float, n_part: int) -> dict[str, Any]:
    """Time the loop over users on a part, after it has been found to give the same distribution."""
    part, iterations = draw_sample(case.n_pool, n_part, case.sizes), 3
    exact = ESTIMATORS.make(f"mle(iterations={iterations}, grid=0)").distribution(tally(part)).weights
    start = time.process_time()
    theirs = user_loop(part, iterations)
    took = time.process_time() - start
    error = float(np.abs(exact - theirs).max())
    assert error < 1e-12, error
    steps = 50 if len(case.sizes) > 1 else 100
    whole = took * case.n_users / n_part * steps / iterations
    return {
        "users": n_part,
        "steps": iterations,
        "took_s": took,
        "extrapolated_s": whole,
        "ratio": whole / ours,
    }


def measure_solver(case: Case, repeats: int) -> dict[str, Any] | None:
    """Compare the exact maximum with that of a general solver on the same bins."""
    if find_spec("cvxpy") is None:
        return None
    cvxpy: Any = import_module("cvxpy")
    counted = tally(draw_sample(case.n_pool, case.n_users, case.sizes))
    estimator = ESTIMATORS.make("mle(solver=exact)")
    assert isinstance(estimator, MixtureEstimator)
    likelihood, fit = estimator.fit_tallies([counted])
    A, p = likelihood.matrix, likelihood.fractions[0]
    masses = cvxpy.Variable(A.shape[1], nonneg=True)
    problem = cvxpy.Problem(cvxpy.Maximize(p @ cvxpy.log(A @ masses)), [cvxpy.sum(masses) == 1])
    start = time.process_time()
    problem.solve(solver=cvxpy.CLARABEL)
    took = time.process_time() - start
    theirs = np.maximum(masses.value, 0)
    value = float(log_likelihood(A, likelihood.fractions, theirs[None] / theirs.sum())[0])
    ours = seconds(lambda: estimator.fit(likelihood, [counted]), repeats)
    return {
        "shape": A.shape,
        "cvxpy_s": took,
        "truerank": ours,
        "ratio": took / ours["cpu_s"],
        "gap": fit.diagnostics[0]["gap"],
        "truerank_minus_cvxpy": fit.diagnostics[0]["log_likelihood"] - value,
    }


def measure_batch(n_users: int, n_runs: int, repeats: int) -> dict[str, Any]:
    """Time many runs of users with pools of their own, and the matrix products alone."""
    draw = np.random.default_rng(0)
    pools = 3706 - np.minimum(draw.geometric(1 / 165, n_users) + 20, 2000)
    J = (draw.beta(0.3, 1.2, n_users) * (pools - 1)).astype(np.int64)
    runs = [
        tally(
            SampledRanks.single(
                draw.binomial(99, J / (pools - 1)),
                n_negatives=99,
                n_pool=pools,
                design=Design(replacement=True),
            )
        )
        for _ in range(n_runs)
    ]
    measured = make_metrics(
        ",".join(f"{name}@{k}" for name in ("recall", "ndcg", "ap") for k in range(1, 51))
    )
    estimator = ESTIMATORS.make("mle")
    assert isinstance(estimator, MixtureEstimator)
    likelihood = make_likelihood(runs, step=0.1)
    fit = estimator.fit(likelihood, runs)
    A, masses = likelihood.matrix, np.array(fit.masses)

    def products() -> None:
        ratio = masses
        for _ in range(100):
            ratio = (ratio @ A.T) @ A

    def floor() -> None:
        with single_threaded_blas():
            products()

    products_s = seconds(floor, repeats)["cpu_s"]
    figure = {
        "contexts": len(runs[0].contexts),
        "runs": n_runs,
        "shape": A.shape,
        "metrics": len(measured),
        "likelihood": seconds(lambda: make_likelihood(runs, step=0.1), repeats),
        "em": seconds(lambda: estimator.fit(likelihood, runs), repeats),
        "metrics_from_masses": seconds(lambda: plug_in(likelihood, fit.masses, runs, measured), repeats),
        "products_cpu_s": products_s,
    }
    figure["em_over_products"] = figure["em"]["cpu_s"] / products_s
    return figure


def show(figure: dict[str, Any]) -> None:
    """Print one case."""
    counts, rows = figure["from_counts"]["median_s"], figure["from_rows"]["median_s"]
    busy = figure["from_counts"]["cpu_s"]
    kind = str(figure["sizes"][0]) + (f"..{figure['sizes'][-1]}" if len(figure["sizes"]) > 1 else "")
    shape = " x ".join(map(str, figure.get("shape", ()))) or "-"
    gap = figure.get("diagnostics", {}).get("gap")
    print(
        f"{figure['estimator']:22} {figure['n_pool']:>9} {figure['n_users']:>8} {kind:>9} {shape:>12} "
        f"{counts:>8.4f}s {busy:>8.4f}s {rows:>8.4f}s {figure['limit_s']:>6.2f}s "
        f"{figure['share_of_limit']:>6.0%} {'-' if gap is None else f'{gap:.1e}':>8}",
        flush=True,
    )


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--quick", action="store_true", help="small cases, nothing is written")
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    cases = QUICK if given.quick else CASES
    print(
        f"{'estimator':22} {'N':>9} {'users':>8} {'m':>9} {'matrix':>12} {'counts':>9} {'cpu':>9} "
        f"{'rows':>9} {'limit':>7} {'share':>6} {'gap':>8}"
    )
    figures: dict[str, Any] = {"cases": [], "loop": []}
    for case in cases:
        figures["cases"].append(measure(case, given.repeats))
        show(figures["cases"][-1])
    for case, found in zip(cases, figures["cases"], strict=True):
        if "exact" in case.estimator or not case.estimator.startswith("mle") or case.n_pool > 100_000:
            continue
        loop = measure_loop(case, found["from_rows"]["cpu_s"], 100 if given.quick else 400)
        figures["loop"].append({"estimator": case.estimator, **loop})
        print(
            f"{case.estimator} as a loop over users: {loop['extrapolated_s']:.0f} s "
            f"(from {loop['users']} users, {loop['steps']} steps), {loop['ratio']:.0f} times ours"
        )
    figures["solver"] = measure_solver(cases[0], given.repeats)
    if figures["solver"]:
        one = figures["solver"]
        print(
            f"exact maximum by cvxpy: {one['cvxpy_s']:.2f} s, {one['ratio']:.0f} times ours; "
            f"our log-likelihood is higher by {one['truerank_minus_cvxpy']:.1e}, our gap {one['gap']:.1e}"
        )
    batch = measure_batch(500 if given.quick else 6040, 10 if given.quick else 100, given.repeats)
    figures["batch"] = batch
    print(
        f"{batch['runs']} runs, {batch['contexts']} pools, matrix {batch['shape'][0]} x {batch['shape'][1]}: "
        f"likelihood {batch['likelihood']['median_s']:.3f} s, EM {batch['em']['median_s']:.2f} s = "
        f"{batch['em_over_products']:.2f} times its matrix products, "
        f"{batch['metrics']} metrics {batch['metrics_from_masses']['median_s']:.3f} s"
    )
    if given.quick:
        return
    host = machine()
    slug = folder_name()
    path = Path(__file__).parent / "results" / slug / "estimators.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"benchmark": "estimators", "machine": host, "repeats": given.repeats, "figures": figures}
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to benchmarks/results/{slug}/estimators.json", file=sys.stderr)


if __name__ == "__main__":
    main()
