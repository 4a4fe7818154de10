"""Expectation, bias and variance of an estimator over samples, for known global ranks.

Exact sums over the outcomes of a sampling law, for targets of users without other targets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from truerank.core.errors import InvalidData
from truerank.core.ranks import RankDistribution
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.base import Estimator
from truerank.estimation.corrections.naive import Naive
from truerank.estimation.law import Law
from truerank.estimation.tally import Contexts, Tally
from truerank.metrics.base import Metric


@dataclass(frozen=True)
class SamplingMoments:
    """Moments of an estimate of one metric over all samples of given ranks, one target per user.

    Parameters
    ----------
    truth : the exact metric
    mean : expectation of the estimate
    sd_row : root of the mean over users of the variance of one user's value
    sd_mean : standard deviation of the estimate over ``n_users`` users
    n_users : users in the mean
    """

    truth: float
    mean: float
    sd_row: float
    sd_mean: float
    n_users: int

    @property
    def bias(self) -> float:
        """Expectation minus truth."""
        return self.mean - self.truth


def corrected_values(estimator: Estimator, metric: Metric, law: Law) -> FloatArray:
    """Return x of each outcome for a target without other targets, (m + 1,) or (n_outcomes,).

    Outcomes are sampled ranks, or pairs of a sample size and a sampled rank under an adaptive law.

    Examples
    --------
    >>> from truerank.estimation.law import Binomial
    >>> from truerank.estimation.corrections.rank_estimate import RankEstimate
    >>> from truerank.metrics.registry import METRICS
    >>> corrected_values(RankEstimate(), METRICS.make("ap"), Binomial(8, 2)).tolist()  # at ranks 1, 5 and 9
    [1.0, 0.2, 0.1111111111111111]
    """
    tally = _single(law)
    values = estimator.corrected(tally, [metric])[:, 0]
    starts = dict(zip(law.sizes, tally.offsets.tolist(), strict=False))
    first = np.array([starts[m] for m in law.outcome_sizes.tolist()])
    picked: FloatArray = values[first + law.outcome_above]
    return picked


def expected_values(
    metric: Metric, law: Law, n_above: ArrayLike, *, estimator: Estimator | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the variance of one target's value for each J items above it.

    Parameters
    ----------
    metric, law : what is measured, and the sampling law
    n_above : J of each target
    estimator : ``naive`` unless given
    """
    return law.moments(corrected_values(estimator or Naive(), metric, law), n_above)


def sampling_moments(
    metric: Metric,
    law: Law,
    ranks: ArrayLike | RankDistribution,
    *,
    estimator: Estimator | None = None,
    n_users: int | None = None,
) -> SamplingMoments:
    """Return truth, expectation and spread of an estimate for known global ranks.

    Parameters
    ----------
    metric, law : what is measured, and the sampling law
    ranks : global ranks 1..N of the users, or a distribution over them
    estimator : ``naive`` unless given
    n_users : users in the mean; the number of ranks, or 1 for a distribution, unless given

    Raises
    ------
    InvalidData
        When a rank lies outside 1..N.
    """
    above, fraction, counted = population(ranks, law.n_candidates + 1)
    n_users = counted if n_users is None else n_users
    mean, variance = expected_values(metric, law, above, estimator=estimator)
    one = np.ones_like(above)
    exact = metric.gain(above + 1, 0 * one, one, one + law.n_candidates)
    spread = float(fraction @ variance)
    return SamplingMoments(
        truth=float(fraction @ np.broadcast_to(exact, above.shape)),
        mean=float(fraction @ mean),
        sd_row=float(np.sqrt(spread)),
        sd_mean=float(np.sqrt(spread / n_users)),
        n_users=n_users,
    )


def population(ranks: ArrayLike | RankDistribution, n_ranks: int) -> tuple[IntArray, FloatArray, int]:
    """Return the distinct J, the fraction of users with each, and the number of users."""
    if isinstance(ranks, RankDistribution):
        if ranks.n_pool != n_ranks:
            raise InvalidData(
                f"the rank distribution must have {n_ranks} ranks like the law, got {ranks.n_pool}."
            )
        above = np.flatnonzero(ranks.weights)
        return above, ranks.weights[above], 1
    given = np.asarray(ranks)
    if given.size == 0 or given.dtype.kind not in "iu" or given.min() < 1 or given.max() > n_ranks:
        raise InvalidData(f"global ranks must be integers in 1..{n_ranks}, and there must be at least one.")
    distinct, counts = np.unique(given, return_counts=True)
    return distinct.astype(np.int64) - 1, counts / given.size, int(given.size)


def _single(law: Law) -> Tally:
    """Return a tally with the contexts of one target under a law and no rows."""
    sizes = np.array(law.sizes, dtype=np.int64)
    one = np.ones_like(sizes)
    none = np.zeros(0, dtype=np.int64)
    return Tally(
        contexts=Contexts(sizes, one * law.n_candidates, 0 * one, one, one + law.n_candidates),
        user=none,
        cell=none,
        weight=np.zeros(0),
        n_users=0,
        n_rows=0,
        design=law.design,
    )
