"""Sampled ranks in, the smallest and largest value of a metric that they allow out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerank.bounds.problem import STEP, Pools, Problem, Shape
from truerank.core.check import check_choice, check_level
from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter
from truerank.core.metric import Metric
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.ranks import SampledRanks, TiePolicy
from truerank.core.tally import Tally, tally
from truerank.core.types import BoolArray, FloatArray
from truerank.estimators.design import stopping_of
from truerank.estimators.normal import gain_at
from truerank.estimators.outcome import check_outcomes
from truerank.inference.event import observe
from truerank.inference.identification import Bound
from truerank.metrics import make_metrics


def identified(
    ranks: SampledRanks | Tally,
    metrics: str | Metric | Sequence[str | Metric] = "ndcg@10,recall@10",
    *,
    level: float = 0.95,
    shape: Shape | None = None,
    pools: Pools = "free",
    ties: TiePolicy = "expected",
    step: float = STEP,
    progress: Progress = SILENT,
) -> tuple[Bound, ...]:
    """Return, per metric, the smallest and the largest value that the sampled ranks allow.

    What is bounded is the value that exact evaluation of these users would print: their ranks are fixed and
    only the negatives are random. The bounds hold for all metrics at once with probability ``level`` at
    least, whatever the ranks are; no estimator enters.

    Parameters
    ----------
    ranks : sampled ranks, or a tally of them that was made with ``width=0``
    metrics : spec strings or objects
    level : simultaneous confidence of all bounds
    shape : None, or ``decreasing`` where a rank is known to be at most as frequent as any better one; in
        pools of similar size, and for each number of targets beside and above
    pools : ``free`` lets the ranks depend on the size of the pool; ``shared`` where it is known that the
        distribution of R/N does not
    ties : as in ``estimate``; samples with replacement that hold ties need ``best`` or ``worst``, adaptive
        ones ``best``
    step : distance of the ranks taken, in standard deviations of the sampled rank
    progress : where metrics are reported

    Raises
    ------
    CannotEstimate
        When negatives were not drawn uniformly, ties cannot be treated, or nothing fits.

    Examples
    --------
    >>> ranks = SampledRanks.single([0, 0, 1, 2, 4, 6, 9, 14] * 50, n_negatives=19, n_pool=100)
    >>> print(*identified(ranks, "recall@1,recall@20"), sep="; ")
    recall@1 lies in [0.000, 0.310]; recall@20 lies in [0.347, 0.740]
    """
    chosen = make_metrics(metrics)
    check_level(level)
    check_choice("shape", shape or "decreasing", ("decreasing",))
    check_choice("pools", pools, ("free", "shared"))
    if not 0 < step <= 1:
        raise InvalidParameter(f"step must lie in (0, 1], got {step!r}. Use {STEP}.")
    counted = ranks if isinstance(ranks, Tally) else tally(ranks, ties=ties, width=0.0)
    check_tally(counted)
    _check_cutoffs(chosen, counted)
    is_known = known_contexts(counted)
    fixed = np.array([_known_value(counted, metric, is_known) for metric in chosen])
    if is_known.all():
        return tuple(
            Bound(str(metric), float(value), float(value), level, "exact")
            for metric, value in zip(chosen, fixed, strict=True)
        )
    contexts = counted.contexts.take(np.flatnonzero(~is_known))
    problem = Problem.of(contexts, counted.design, stopping_of(counted), shape)
    region, n_users = observe(counted, ~is_known, problem.events, level=level)
    weight = np.add.reduceat(counted.cell_weights, counted.offsets[:-1])[~is_known] / contexts.n_relevant
    shares = np.bincount(problem.group, weight) / n_users
    with tracked(progress, "bounds", len(chosen)) as task:
        ends = problem.ends(chosen, region, shares, step=step, pools=pools, task=task)
    ends *= n_users / counted.n_users
    return tuple(
        Bound(str(metric), *_within(value + own, metric, counted), level, region.method)
        for metric, value, own in zip(chosen, fixed, ends, strict=True)
    )


def check_tally(counted: Tally) -> None:
    """Raise unless the law of every row is known exactly."""
    if counted.n_rows == 0:
        raise InvalidData("bounds need at least one user, got none.")
    if counted.design.law != "uniform":
        raise CannotEstimate(
            f"bounds need negatives that were drawn uniformly, got design '{counted.design.law}'. "
            f"Sample uniformly."
        )
    if counted.width > 0:
        raise InvalidParameter("bounds need every size of pool as it is. Make the tally with width=0.")
    rule, is_tied = stopping_of(counted), bool((counted.weight < 1).any())
    if rule is not None and (is_tied or counted.ties == "worst"):
        raise CannotEstimate(
            "bounds of adaptive samples need ties 'best', because the rule looks at items above the target."
        )
    if counted.design.replacement and (is_tied or counted.ties == "random"):
        raise CannotEstimate(
            "bounds of samples with replacement need ties 'best' or 'worst', because a tied item can be "
            "drawn twice."
        )
    check_outcomes(counted)


def _check_cutoffs(metrics: Sequence[Metric], counted: Tally) -> None:
    largest = int(counted.contexts.n_pool.max())
    for metric in metrics:
        if metric.cutoff is not None and metric.cutoff > largest:
            raise InvalidParameter(
                f"cutoff of {metric} must be at most the largest pool of {largest} items. Lower it."
            )


def known_contexts(counted: Tally) -> BoolArray:
    """Return the contexts in which every candidate was drawn once."""
    contexts = counted.contexts
    if counted.design.replacement or stopping_of(counted) is not None:
        return np.zeros(len(contexts), dtype=np.bool_)
    known: BoolArray = contexts.n_negatives == contexts.n_candidates
    return known


def _known_value(counted: Tally, metric: Metric, is_known: BoolArray) -> float:
    """Return what targets with known ranks add to the mean over users."""
    total = 0.0
    for row in np.flatnonzero(is_known).tolist():
        counts = counted.counts(row)
        seen = np.flatnonzero(counts)
        total += float(counts[seen] @ gain_at(metric, seen, counted.contexts.take(np.array([row])))[0])
    return total / counted.n_users


def _within(ends: FloatArray, metric: Metric, counted: Tally) -> tuple[float, float]:
    """Return the ends, no further out than with all targets first and with all of them last."""
    rows = np.add.reduceat(counted.cell_weights, counted.offsets[:-1]) / counted.n_users
    contexts = counted.contexts
    first = float(rows @ gain_at(metric, np.array([0]), contexts)[:, 0])
    last = float(rows @ gain_at(metric, contexts.n_candidates[:, None], contexts)[:, 0])
    low, high = np.clip(ends, min(first, last), max(first, last)).tolist()
    return low, high
