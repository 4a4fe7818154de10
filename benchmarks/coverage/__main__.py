"""How often intervals of estimates hold the exact value, and how wide they are.

The exact ranks of four models on MovieLens-1M, citeulike-a and part of Pinterest are taken as the truth. From
them samples are drawn again and again (500 times unless said otherwise); each gives estimates with 95 %
intervals for the value that exact evaluation of these users prints. Counted is how often that value lies
inside, per estimator and kind of interval, for Recall, NDCG and AP at 1, 10 and 50; the costly kinds take
part in some of the repetitions. A piece (data set, model, design) that is finished is kept in a folder, so
the run can be interrupted; pieces run on all processors.

    python -m benchmarks.coverage --keep FOLDER [--repeats 500] [--data ml-1m] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.coverage.design import DESIGNS
from benchmarks.coverage.population import DATA, FITTED, population
from benchmarks.coverage.region import TrueChances
from benchmarks.machine import machine
from truerank.core.errors import CannotEstimate
from truerank.core.interval import Band
from truerank.core.metric import Metric
from truerank.core.ranks import SampledRanks
from truerank.core.store import Store
from truerank.core.tally import Tally, tally
from truerank.core.types import FloatArray
from truerank.core.uncertainty import Estimated
from truerank.estimators import ESTIMATORS
from truerank.metrics import make_metrics, values
from truerank.uncertainty import UNCERTAINTIES

METRICS = tuple(f"{name}@{k}" for name in ("recall", "ndcg", "ap") for k in (1, 10, 50))
#: estimator, kind of interval and the share of the repetitions it takes part in: fits and programs cost more.
#: Bounds do not depend on the estimator; see ``BOUNDS``.
SHARES = {
    ("naive", "delta"): 0.2,
    ("bv(gamma=0.1)", "delta"): 1.0,
    ("mle", "delta"): 0.2,
    ("smooth", "delta"): 0.2,
    ("bv(gamma=0.1)", "bias-aware"): 0.04,
}
#: Their programs are solved in this share of the repetitions, which gives their widths. In the others they
#: are solved only where the confidence region misses the true ranks: else the bounds hold the value.
BOUNDS, SOLVED = ("any", "bounds"), 0.1
CASES = (*SHARES, BOUNDS)
LEVEL = 0.95


@dataclass
class Count:
    """How often the intervals of one case hold the exact values, and how wide they are.

    Parameters
    ----------
    held : (n_metrics,) how often
    width : (n_metrics,) sum over those that were computed
    repeats, computed : samples looked at, intervals computed
    method : the interval's own name for itself
    """

    held: FloatArray
    width: FloatArray
    repeats: int = 0
    computed: int = 0
    method: tuple[str, ...] = ()

    def add(self, band: Band, exact: FloatArray) -> None:
        """Count one sample."""
        slack = 1e-12  # an interval without width holds the value up to rounding
        self.held += (band.low - slack <= exact) & (exact <= band.high + slack)
        self.width += band.high - band.low
        self.repeats += 1
        self.computed += 1
        self.method = band.method


def measure(name: str, model: str, design: str, repeats: int, keep: Path | None) -> list[dict[str, Any]]:
    """Return coverage, mean width and bias per case and metric."""
    ranks = population(name, model, keep)
    drawing, metrics = DESIGNS[design], make_metrics(METRICS)
    exact = values(metrics, ranks, ties=drawing.ties).mean(axis=0)
    counts = {case: Count(np.zeros(len(metrics)), np.zeros(len(metrics))) for case in CASES}
    error = {spec: np.zeros(len(metrics)) for spec, _ in CASES}
    true = TrueChances.of(ranks, drawing.draw(ranks, 0), drawing.ties) if drawing.share == 1 else None
    for repeat in range(repeats):
        sample = drawing.draw(ranks, repeat)
        counted = tally(sample, ties=drawing.ties)
        estimated: dict[str, Estimated] = {}
        for case, share in SHARES.items():
            spec, kind = case
            if repeat >= share * repeats:
                continue
            try:
                if spec not in estimated:
                    estimated[spec] = _estimated(spec, sample, counted, metrics)
                    error[spec] += estimated[spec].value - exact
                counts[case].add(
                    UNCERTAINTIES.make(kind).band(estimated[spec], level=LEVEL, seed=repeat), exact
                )
            except CannotEstimate as reason:
                counts[case].method = (str(reason),) * len(metrics)
        of_bounds = counts[BOUNDS]
        is_held = true is not None and true.lie_within(sample, LEVEL)
        if not is_held or repeat < SOLVED * repeats:
            found = Estimated(sample, counted, ESTIMATORS.make("mle"), metrics, exact)
            before = of_bounds.held.copy()
            of_bounds.add(UNCERTAINTIES.make("bounds").band(found, level=LEVEL, seed=repeat), exact)
            assert not is_held or (of_bounds.held == before + 1).all(), (
                "a region that holds, bounds that miss"
            )
        else:
            of_bounds.held += 1
            of_bounds.repeats += 1
    about = {"data": name, "model": model, "design": design}
    rows = []
    for (spec, kind), count in counts.items():
        for column, metric in enumerate(METRICS):
            row = {
                **about,
                "estimator": spec,
                "uncertainty": kind,
                "metric": metric,
                "exact": float(exact[column]),
                "repeats": count.repeats,
                "method": count.method[column],
            }
            if count.repeats:
                row["coverage"] = float(count.held[column] / count.repeats)
                row["width"] = float(count.width[column] / count.computed)
            if count.repeats and (spec, kind) != BOUNDS:
                row["bias"] = float(
                    error[spec][column] / max(counts[case].repeats for case in SHARES if case[0] == spec)
                )
            rows.append(row)
    return rows


def _estimated(spec: str, sample: SampledRanks, counted: Tally, metrics: tuple[Metric, ...]) -> Estimated:
    estimator = ESTIMATORS.make(spec)
    return Estimated(sample, counted, estimator, metrics, estimator.estimate(counted, metrics).value)


def piece(name: str, model: str, design: str, repeats: int, keep: Path | None) -> list[dict[str, Any]]:
    """Return what was measured, from the folder when it was before; one thread."""
    with threadpool_limits(1):
        found: list[dict[str, Any]] = Store(keep).value(
            f"coverage {name} {model} {design} {repeats}",
            lambda: measure(name, model, design, repeats, keep),
        )
    return found


def show(rows: list[dict[str, Any]]) -> None:
    """Print, per design and case, the coverage over data sets, models and metrics."""
    print(f"{'design':32} {'estimator':16} {'interval':20} {'coverage: mean':>14} {'least':>6} {'width':>7}")
    for design in DESIGNS:
        for spec, kind in CASES:
            own = [
                row
                for row in rows
                if (row["design"], row["estimator"], row["uncertainty"]) == (design, spec, kind)
            ]
            shares = [row["coverage"] for row in own if "coverage" in row]
            if not shares:
                continue
            width = np.mean([row["width"] for row in own if "width" in row])
            print(
                f"{design:32} {spec:16} {kind:20} {np.mean(shares):14.3f} {min(shares):6.3f} {width:7.4f}",
                flush=True,
            )


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keep", type=Path, help="folder for finished pieces")
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--data", choices=list(DATA), action="append", help="all unless said otherwise")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="3 repeats of one model, nothing is written")
    options = parser.parse_args()
    repeats = 3 if options.quick else options.repeats
    names = options.data or list(DATA)
    models = FITTED[:1] if options.quick else FITTED
    for name in names:  # before the pieces, so that no two processes fit the same model
        for model in models:
            population(name, model, options.keep)
    asked = [(name, model, design) for design in DESIGNS for name in names for model in models]
    rows: list[dict[str, Any]] = []
    start = time.perf_counter()
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = {pool.submit(piece, *one, repeats, options.keep): one for one in asked}
        for number, job in enumerate(as_completed(jobs), 1):
            if job.exception() is not None:
                pool.shutdown(wait=False, cancel_futures=True)  # say it now, not after the others
            rows += job.result()
            print(
                f"{number}/{len(asked)} {' '.join(jobs[job])} {time.perf_counter() - start:.0f} s", flush=True
            )
    rows.sort(key=lambda row: (list(DESIGNS).index(row["design"]), row["data"], row["model"]))
    show(rows)
    if options.quick or names != list(DATA):
        return
    host = machine()
    result = {"benchmark": "coverage", "machine": host, "repeats": repeats, "level": LEVEL, "rows": rows}
    slug = re.sub(r"[^a-z0-9]+", "-", host["cpu"].lower()).strip("-")
    path = Path(__file__).parent.parent / "results" / slug / "coverage.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to benchmarks/results/{slug}/coverage.json")


if __name__ == "__main__":
    main()
