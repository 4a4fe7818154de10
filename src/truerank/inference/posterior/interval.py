"""Posterior intervals of metrics, the default for estimates from samples, and what they hold in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.errors import (
    MOST_RESAMPLES,
    CannotEstimate,
    InvalidParameter,
    check_at_least,
    check_choice,
)
from truerank.core.parallel import single_threaded_blas
from truerank.core.random import stream
from truerank.core.result import Estimate
from truerank.core.table import listed_in_words, percent
from truerank.core.types import FloatArray
from truerank.estimation.base import Estimator
from truerank.estimation.distribution.smooth import Smooth
from truerank.estimation.tally import Tally
from truerank.inference.estimate_interval.base import (
    BOUNDS,
    EXCLUDES,
    EstimateInterval,
    IntervalRequest,
    clip_to_range,
    identification_limits,
    target_range,
)
from truerank.inference.estimate_interval.registry import PointEstimates, Target, sampled_fraction
from truerank.inference.posterior.curves import Draws, Evidence, draw_curves
from truerank.inference.posterior.places import SPREADS
from truerank.inference.posterior.prior import CurveBasis, RankPrior, SeenItems, learnt_prior, make_curves
from truerank.inference.posterior.several import SHARING, SeveralTargets, coupled_sum, has_several
from truerank.inference.posterior.values import SampleGains
from truerank.inference.user_interval import Band
from truerank.metrics.base import Metric

#: Fewest targets: fewer say less about the curve than the prior was ever checked with.
FEWEST = 50
#: Draws from the posterior of the curve.
DRAWS = 1600
#: Largest distance of places from those of exchangeable targets. Real models mostly have less than 0.02;
#: worlds in which a user's best target is of another kind than the rest, or targets come in clusters, more
#: than 0.04.
MOST_MISFIT = 0.035
#: Part of the draws that each group of users has, where users have several targets: they cost more there.
_OF_GROUP = 0.375
#: Smallest effective number of draws; fewer have unreliable tails.
_EFFECTIVE = 60
#: Posterior probability of the roughest scale of the prior beyond which the curve lies outside its range.
_ROUGHEST = 0.5


@dataclass(frozen=True, eq=False)
class MetricPosterior:
    """Weighted draws from the posterior of some metrics, given the sampled ranks of one model.

    Parameters
    ----------
    values : (n_metrics, n_draws) the mean over the users of the target
    weights : (n_draws,) they sum to 1
    unit : (n_metrics,) the smallest amount by which one target can change a metric; 0 for a population
    resolved : first rank that the sample resolves; see ``resolved_rank``
    widening : an interval of level 1 - a is the central 1 - widening a of the posterior
    """

    values: FloatArray
    weights: FloatArray
    unit: FloatArray
    resolved: int
    widening: float

    def limits(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return the limits of the intervals of a level."""
        tail = (1 - level) * self.widening / 2
        ends = np.array([weighted_quantiles(row, self.weights, (tail, 1 - tail)) for row in self.values])
        return ends[:, 0] - self.unit / 2, ends[:, 1] + self.unit / 2


def weighted_quantiles(values: FloatArray, weights: FloatArray, levels: Sequence[float]) -> FloatArray:
    """Return quantiles of weighted values, interpolated between the middles of their weights.

    Examples
    --------
    >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([0.25, 0.25, 0.5]), [0.5]).tolist()
    [2.0]
    """
    order = np.argsort(values)
    sums = np.cumsum(weights[order]) - weights[order] / 2
    result: FloatArray = np.interp(levels, sums, values[order])
    return result


def metric_posterior(
    tally: Tally,
    metrics: Sequence[Metric],
    *,
    target: Target = "test-users",
    seen: SeenItems | None = None,
    seed: int = 0,
    n_draws: int = DRAWS,
    prior: RankPrior | None = None,
) -> MetricPosterior:
    """Return the posterior of metrics given sampled ranks.

    Parameters
    ----------
    tally : the sampled ranks
    metrics : sums over targets of a gain
    target : mean over the test users or over the population they come from
    seen : whether seen items stay in the list; None takes ``removed`` where pools differ in size
    seed, n_draws : of the draws
    prior : of the distribution of ranks; None takes the one that ships with the package

    Raises
    ------
    CannotEstimate
        When the prior has no ground: too few users, negatives that were not drawn uniformly, a curve rougher
        than all the prior was learnt from, targets of a user that are not exchangeable, or only some of them.
    """
    if tally.design.law != "uniform":
        raise CannotEstimate(
            f"there is no posterior of negatives that were not drawn uniformly. Sample uniformly (got design "
            f"'{tally.design.law}')."
        )
    if tally.n_users < FEWEST:
        raise CannotEstimate(
            f"there is no posterior with fewer than {FEWEST} users. Use bounds (got {tally.n_users} users)."
        )
    if tally.contexts.is_part:
        raise CannotEstimate(
            "there is no posterior for some targets of a user, whose places among the others have no law. "
            "Use bounds."
        )
    prior = prior or learnt_prior()
    seen = seen or ("removed" if np.ptp(tally.unbinned.contexts.n_pool) > 0 else "unknown")
    generator = stream(seed, "posterior")
    if has_several(tally):
        return _of_several(tally, metrics, target, seen, n_draws, prior, generator)
    with single_threaded_blas():
        sample = SampleGains.of(tally, metrics)
        curves = make_curves(prior, sample.likelihood.grid)
        draws = _checked_draws(sample.evidence, curves, prior, seen, n_draws, generator)
        fraction = sampled_fraction(target, tally.n_users, tally.design.n_test_users)
        n_unsampled = tally.n_users * (1 - fraction) / fraction if fraction > 0 else np.inf
        values = sample.sample(draws, fraction, n_unsampled, generator)
        unit = np.array([gains.unit if fraction == 1 else 0.0 for gains in sample.gains])
    resolved = resolved_rank(tally)
    return MetricPosterior(values, draws.weights, unit, resolved, prior.widening(seen, resolved))


def _of_several(
    tally: Tally,
    metrics: Sequence[Metric],
    target: Target,
    seen: SeenItems,
    n_draws: int,
    prior: RankPrior,
    generator: np.random.Generator,
) -> MetricPosterior:
    """Return the posterior where users have several targets; see ``several``."""
    with single_threaded_blas():
        sample = SeveralTargets.of(tally, metrics)
        curves = make_curves(prior, sample.likelihood.grid)
        n_each = int(n_draws * _OF_GROUP)
        drawn = [
            _checked_draws(group.evidence, curves, prior, seen, n_each, generator) for group in sample.groups
        ]
        usual = [draws.masses @ draws.weights for draws in drawn]
        spreads = sample.spread_weights(usual)
        if sample.misfit(usual, float(SPREADS[np.argmax(spreads)])) > MOST_MISFIT:
            raise CannotEstimate(
                "there is no posterior where the places of targets contradict that those of a user are "
                "exchangeable. Use bounds."
            )
        fraction = sampled_fraction(target, tally.n_users, tally.design.n_test_users)
        n_unsampled = tally.n_users * (1 - fraction) / fraction if fraction > 0 else np.inf
        values = [
            group.sample(draws, spreads, fraction, n_unsampled, generator)
            for group, draws in zip(sample.groups, drawn, strict=True)
        ]
        total = coupled_sum(values, [draws.weights for draws in drawn], SHARING, generator, n_draws)
    total += fraction * sample.fixed[:, None]
    unit = sample.unit if fraction == 1 else np.zeros(len(metrics))
    resolved = resolved_rank(tally)
    weights = np.full(n_draws, 1 / n_draws)
    return MetricPosterior(total, weights, unit, resolved, prior.widening(seen, resolved))


def resolved_rank(tally: Tally) -> int:
    """Return the first rank that a sample resolves: that which one sampled item is above in expectation.

    All targets above it mostly come first in their samples, so that the prior decides how they are spread.
    It is that of the largest sample in a pool of median size.

    Examples
    --------
    >>> from truerank.core.ranks import SampledRanks
    >>> from truerank.estimation.tally import tally
    >>> resolved_rank(tally(SampledRanks.single([0], n_negatives=99, n_pool=3706)))
    37
    """
    contexts = tally.contexts
    middle = weighted_quantiles(
        contexts.n_candidates.astype(np.float64), tally.context_weights / tally.n_rows, [0.5]
    )
    return int(np.rint((middle[0] + 1) / (contexts.n_negatives.max() + 1)))


def _checked_draws(
    evidence: Evidence,
    curves: CurveBasis,
    prior: RankPrior,
    seen: SeenItems,
    n_draws: int,
    generator: np.random.Generator,
) -> Draws:
    """Return draws of the curve; raise where the prior has no ground."""
    draws = draw_curves(evidence, curves, prior, seen, n_draws, generator)
    if draws.effective_size < _EFFECTIVE:  # once more, with four times as many
        draws = draw_curves(evidence, curves, prior, seen, 4 * n_draws, generator)
    if draws.effective_size < _EFFECTIVE:
        raise CannotEstimate("there is no posterior that can be drawn from evenly enough. Use bounds.")
    if draws.scale_weights[-1] > _ROUGHEST:
        raise CannotEstimate(
            "there is no posterior of ranks rougher than all the prior was learnt from. Use bounds."
        )
    return draws


@dataclass(frozen=True)
class PosteriorInterval(EstimateInterval):
    """Central part of the posterior of the metric, under a prior learnt from real recommenders.

    What a sample cannot resolve, the first ranks of a long list, is filled in from how ranks of real models
    are distributed, with the uncertainty that these differ by. The interval is one of the metric itself, not
    of an estimator, and holds about 95 of 100 true values over models like those it was learnt from
    (docs/posterior.md); single models can lie outside more often. A tenth of a second.

    The method's name says below which rank the prior decides. Where the prior has no ground (fewer than 50
    users, ranks rougher than any it was learnt from) the interval is the identification bounds, and says so.

    Parameters
    ----------
    seen : whether items that users know stay in the list: ``removed``, ``kept``, or ``unknown``; none takes
        ``removed`` where users have lists of different lengths and ``unknown`` elsewhere
    draws : from the posterior, at least 400

    Examples
    --------
    >>> str(PosteriorInterval(seen="kept"))
    'posterior(seen=kept)'
    """

    seen: SeenItems | None = None
    draws: int = DRAWS
    key: ClassVar[str] = "posterior"

    def __post_init__(self) -> None:
        check_choice("seen", self.seen or "unknown", ("removed", "kept", "unknown"))
        check_at_least("draws", self.draws, 400, MOST_RESAMPLES)

    def estimate_band(self, estimates: PointEstimates, request: IntervalRequest) -> Band:
        """Return the intervals."""
        return posterior_band(estimates, request, seen=self.seen, n_draws=self.draws)


def posterior_band(
    estimates: PointEstimates,
    request: IntervalRequest,
    *,
    seen: SeenItems | None = None,
    n_draws: int = DRAWS,
    prior: RankPrior | None = None,
) -> Band:
    """Return the posterior intervals, or identification bounds where the prior has no ground.

    Parameters
    ----------
    estimates, request : as for all intervals
    seen, n_draws, prior : as for ``metric_posterior``
    """
    try:
        posterior = metric_posterior(
            estimates.tally,
            estimates.metrics,
            target=request.target,
            seen=seen,
            seed=request.seed,
            n_draws=n_draws,
            prior=prior,
        )
    except CannotEstimate as reason:
        return _bounds(estimates, request, str(reason))
    low, high = posterior.limits(request.level)
    if not has_several(estimates.tally):
        low, high = hold_default(estimates.estimator, low, high, estimates.value)
    low, high = clip_to_range(estimates, request.target, low, high)
    return Band(low, high, (_name(posterior.resolved),) * len(low))


def hold_default(
    estimator: Estimator, low: FloatArray, high: FloatArray, value: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return limits that hold the estimate where it is the default one, which they are shown with."""
    if estimator.key != Smooth.key:
        return low, high
    return np.minimum(low, value), np.maximum(high, value)


def _name(resolved: int) -> str:
    """Return the method's name, which says where the prior decides."""
    if resolved <= 1:
        return "posterior"
    return f"posterior; below rank {resolved:,} the prior decides"


def _bounds(estimates: PointEstimates, request: IntervalRequest, reason: str) -> Band:
    """Return identification bounds, or the possible range where there are none, named with the reason."""
    because = reason.split(". ")[0]
    try:
        limits = identification_limits(
            estimates, target=request.target, level=request.level, progress=request.progress
        )
    except (CannotEstimate, InvalidParameter) as neither:
        least, most = target_range(estimates, request.target)
        name = f"possible range: {because}, and {str(neither).split('. ')[0].rstrip('.')}"
        return Band(least, most, (name,) * len(least))
    return Band(limits[:, 0], limits[:, 1], (f"{BOUNDS}: {because}",) * len(limits))


_HOLDS = {"test-users": "the exact value", "population": "the value of the user population"}
_RANK = re.compile(r"; below rank ([\d,]+) the prior decides")


def without_rank(method: str) -> str:
    """Return the name of an interval's method without the rank below which the prior decides.

    Of posterior intervals that do not hold the estimate it leaves out the reason as well: that is a sentence
    of ``posterior_sentences``.

    Examples
    --------
    >>> without_rank("posterior; below rank 37 the prior decides"), without_rank("delta, ignores bias")
    ('posterior', 'delta, ignores bias')
    """
    return _RANK.sub("", method.partition(EXCLUDES)[0] if method.startswith("posterior") else method)


def posterior_sentences(estimates: Iterable[Estimate]) -> list[str]:
    """Return what posterior intervals hold, where the prior decides, and which values they do not hold.

    Examples
    --------
    >>> method = "posterior; below rank 37 the prior decides"
    >>> interval = {"low": 0.05, "high": 0.14, "level": 0.95, "target": "test-users"}
    >>> for sentence in posterior_sentences([Estimate("ease", "ndcg@10", 0.1, method=method, **interval)]):
    ...     print(sentence)
    A posterior interval holds the exact value for about 95 % of models like those its prior was learnt from.
    Below rank 37 the prior decides how targets are spread, not the sample.
    """
    own = [e for e in estimates if without_rank(e.method) == "posterior" and e.low is not None]
    if not own:
        return []
    levels = listed_in_words([percent(level, space=" ") for level in sorted({e.level or 0.0 for e in own})])
    holds = listed_in_words(sorted({_HOLDS[e.target] for e in own}))
    like = "models like those its prior was learnt from"
    sentences = [f"A posterior interval holds {holds} for about {levels} of {like}."]
    found = [match[1] for e in own if (match := _RANK.search(e.method))]
    ranks = sorted(set(found), key=lambda rank: int(rank.replace(",", "")))
    if ranks:
        span = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
        sentences.append(f"Below {span} the prior decides how targets are spread, not the sample.")
    outside = [e.estimator for e in own if not (e.low or 0.0) <= e.value <= (e.high or 0.0)]
    if outside:
        names = listed_in_words(list(dict.fromkeys(outside)))
        what = "the interval is of the metric among all items, whatever the estimator"
        sentences.append(f"Values of {names} lie outside: {what}.")
    return sentences
