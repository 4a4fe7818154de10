"""Draw samples, compute the intervals of one case, and count."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.coverage.case import Case
from benchmarks.coverage.count import Count
from benchmarks.coverage.design import DESIGNS, Drawing
from benchmarks.coverage.region import TrueChances
from truerank.core.errors import CannotEstimate
from truerank.core.ranks import Ranks
from truerank.core.types import FloatArray
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.inference.estimate_interval.registry import UNCERTAINTIES, PointEstimates
from truerank.metrics.registry import make_metrics, values

METRICS = tuple(f"{name}@{k}" for name in ("recall", "ndcg", "ap") for k in (1, 10, 50))
LEVEL = 0.95
#: Programs of bounds are solved in this share of the repetitions, which gives their widths. In the others
#: they are solved only where the confidence region misses the true ranks: else the bounds hold the value.
SOLVED = 0.1


def exact_values(ranks: Ranks, design: str) -> FloatArray:
    """Return what exact evaluation prints, (n_metrics,)."""
    found: FloatArray = values(make_metrics(METRICS), ranks, ties=DESIGNS[design].ties).mean(axis=0)
    return found


def measure(ranks: Ranks, design: str, case: Case, repeats: range) -> Count:
    """Return the counts of some repetitions."""
    count = of_bounds if case.uncertainty == "bounds" else of_estimates
    return count(ranks, DESIGNS[design], case, repeats, exact_values(ranks, design))


def of_estimates(ranks: Ranks, drawing: Drawing, case: Case, repeats: range, exact: FloatArray) -> Count:
    """Count the intervals of an estimator; none where it cannot treat the design."""
    metrics = make_metrics(METRICS)
    estimator, uncertainty = ESTIMATORS.make(case.estimator), UNCERTAINTIES.make(case.uncertainty)
    count = Count.none(len(metrics))
    for repeat in repeats:
        sample = drawing.draw(ranks, repeat)
        counted = tally(sample, ties=drawing.ties)
        try:
            value = estimator.estimate(counted, metrics).value
            found = PointEstimates(sample, counted, estimator, metrics, value)
            count.add(uncertainty.band(found, level=LEVEL, seed=repeat), value, exact)
        except CannotEstimate as reason:
            return replace(Count.none(len(metrics)), method=(str(reason),) * len(metrics))
    return count


def of_bounds(ranks: Ranks, drawing: Drawing, case: Case, repeats: range, exact: FloatArray) -> Count:
    """Count identification bounds."""
    metrics = make_metrics(METRICS)
    bounds, estimator = UNCERTAINTIES.make(case.uncertainty), ESTIMATORS.make("mle")
    true = TrueChances.of(ranks, drawing.draw(ranks, 0), drawing.ties) if drawing.share == 1 else None
    count = Count.none(len(metrics))
    for place, repeat in enumerate(repeats):
        sample = drawing.draw(ranks, repeat)
        is_held = true is not None and true.lie_within(sample, LEVEL)
        if is_held and place >= SOLVED * len(repeats):
            count.add_held()
            continue
        found = PointEstimates(sample, tally(sample, ties=drawing.ties), estimator, metrics, exact)
        before = count.held.copy()
        count.add(bounds.band(found, level=LEVEL, seed=repeat), exact, exact)
        assert not is_held or (count.held == before + 1).all(), "a region that holds, bounds that miss"
    return count
