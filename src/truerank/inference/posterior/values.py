"""Posterior of metrics: values of each metric under drawn rank distributions.

Given a distribution of global ranks, the mean over the sampled users of a metric is known up to where each
user's target stands within the ranks that fit its own sampled rank. The mean and variance of that sum follow
from the gains in each bin; users that were not sampled, or a whole population, add the mean under the
distribution itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.estimation.distribution.base import bin_gains
from truerank.estimation.distribution.likelihood import Likelihood, grouped, make_likelihood, outcome_groups
from truerank.estimation.tally import Tally
from truerank.inference.bounds.identify import fully_ranked_contexts, known_value
from truerank.inference.posterior.curves import Draws, Evidence
from truerank.metrics.base import Metric

#: Width of the bins of ranks in standard deviations of the sampled rank: curves are straight within one.
STEP = 0.25
_TINY = 1e-18


@dataclass(frozen=True, eq=False)
class MetricGains:
    """Gains of one metric by group of sampled ranks and bin, over the bins where they are not 0.

    Parameters
    ----------
    bins : (n,) the bins
    weighted : (n_groups, n) P(group | bin) times the summed gain over the group's targets / users
    squared : (n_groups, n) the same with squared gains / users^2
    mean : (n,) mean over users of the gain in a bin, for users whose sampled rank is not known
    mean_squared : (n,) of its square
    fixed : what users contribute whose candidates were all ranked
    unit : the smallest change of the mean over users that one target can make
    """

    bins: IntArray
    weighted: FloatArray
    squared: FloatArray
    mean: FloatArray
    mean_squared: FloatArray
    fixed: float
    unit: float


@dataclass(frozen=True, eq=False)
class SampleGains:
    """A sample as evidence about the distribution of ranks, with the gains of metrics under one.

    Parameters
    ----------
    likelihood : of the sampled ranks
    evidence : the same, by group
    gains : per metric
    n_rows : (n_groups,) targets of each group
    """

    likelihood: Likelihood
    evidence: Evidence
    gains: tuple[MetricGains, ...]
    n_rows: FloatArray

    @classmethod
    def of(cls, tally: Tally, metrics: Sequence[Metric]) -> SampleGains:
        """Return evidence and gains of a sample."""
        likelihood = make_likelihood([tally], step=STEP)
        matrix, fractions = grouped(likelihood, 0)
        rows_of_group = fractions * tally.n_rows
        evidence = Evidence(matrix, rows_of_group / design_effect(tally))
        cells, rows, context = observed_cells(tally, likelihood)
        weight = tally.cell_weights[cells]
        is_known = fully_ranked_contexts(tally)
        shape = (len(matrix), len(tally.contexts))
        unknown = csr_matrix((weight * ~is_known[context], (rows, context)), shape=shape)
        gains = tuple(_gains(metric, tally, likelihood, matrix, unknown, is_known) for metric in metrics)
        return cls(likelihood, evidence, gains, rows_of_group)

    def sample(
        self, draws: Draws, sampled: float, n_unsampled: float, generator: np.random.Generator
    ) -> FloatArray:
        """Return the value of each metric under each draw, (n_metrics, n_draws).

        Parameters
        ----------
        draws : of the distribution of ranks
        sampled : fraction of the users the mean is over that were sampled; 0 for a population
        n_unsampled : how many were not; infinite for a population
        generator : of the ranks of users within what their sampled ranks allow
        """
        inverse = 1 / np.maximum(self.evidence.matrix @ draws.masses, _TINY)
        result = np.empty((len(self.gains), draws.masses.shape[1]))
        for row, gains in enumerate(self.gains):
            masses = draws.masses[gains.bins]
            value = np.zeros(masses.shape[1])
            if sampled > 0:
                given = gains.weighted @ masses * inverse
                mean = gains.fixed + given.sum(axis=0)
                # the variance of a group's sum: squares less the squared mean of each of its targets
                second = np.einsum("gs,gs->s", gains.squared @ masses, inverse)
                second -= np.einsum("gs,gs,g->s", given, given, 1 / self.n_rows)
                value += sampled * gamma_draws(mean, second, generator)
            if sampled < 1:
                mean = gains.mean @ masses
                variance = (gains.mean_squared @ masses - mean**2) / n_unsampled
                value += (1 - sampled) * gamma_draws(mean, variance, generator)
            result[row] = value
        return result


def observed_cells(tally: Tally, likelihood: Likelihood) -> tuple[IntArray, IntArray, IntArray]:
    """Return the cells that occur, with the group of sampled ranks and the context of each."""
    seen, which = outcome_groups(likelihood, 0)
    group = np.full(len(likelihood.n_above), -1)
    group[seen] = which
    cells = np.flatnonzero(tally.cell_weights > 0)
    context = np.repeat(np.arange(len(tally.contexts)), tally.contexts.n_negatives + 1)[cells]
    return cells, group[likelihood.cells[0][cells]], context


def design_effect(tally: Tally, entries: BoolArray | None = None) -> float:
    """Return how many times as variable the sampled ranks are as those of as many independent targets.

    Targets of one user rise and fall together and share negatives. Measured on the scale on which a sampled
    rank has constant variance; 1 where users have one target each.

    Parameters
    ----------
    tally : the sampled ranks
    entries : of the users that are asked for; None takes all

    Examples
    --------
    >>> from truerank.core.ranks import SampledRanks
    >>> from truerank.estimation.tally import tally
    >>> design_effect(tally(SampledRanks.single([0, 3, 9], n_negatives=9, n_pool=100)))
    1.0
    """
    if tally.n_rows == tally.n_users:
        return 1.0
    above = tally.cell - tally.offsets[tally.context]
    place = np.arcsin(np.sqrt(above / tally.contexts.n_negatives[tally.context]))
    weight = tally.weight if entries is None else tally.weight * entries
    place -= weight @ place / (tally.n_rows if entries is None else weight.sum())
    by_user = np.bincount(tally.user, weight * place, tally.n_users)
    alone = float(weight @ place**2)
    return max(float(by_user @ by_user) / alone, 1.0) if alone > 0 else 1.0


def gamma_draws(mean: FloatArray, variance: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Return gamma variates with these moments: a sum of rare gains is skewed as counts are."""
    mean, variance = np.maximum(mean, 1e-12), np.maximum(variance, _TINY)
    shape = mean**2 / variance
    is_normal = shape > 1e5
    drawn = generator.gamma(np.where(is_normal, 1.0, shape), np.where(is_normal, 1.0, variance / mean))
    normal = mean + np.sqrt(variance) * generator.standard_normal(len(mean))
    result: FloatArray = np.where(is_normal, normal, drawn)
    return result


def _gains(
    metric: Metric,
    tally: Tally,
    likelihood: Likelihood,
    matrix: FloatArray,
    unknown: csr_matrix,
    is_known: BoolArray,
) -> MetricGains:
    n = tally.n_users
    first = bin_gains(metric, tally.contexts, likelihood.grid)
    second = bin_gains(metric, tally.contexts, likelihood.grid, power=2)
    bins = np.flatnonzero(first.any(axis=0))
    first, second = first[:, bins], second[:, bins]
    share = tally.context_weights / n
    positive = first[first > 0]
    return MetricGains(
        bins,
        matrix[:, bins] * (unknown @ first) / n,
        matrix[:, bins] * (unknown @ second) / n**2,
        share @ first,
        share @ second,
        known_value(tally, metric, is_known),
        float(positive.min()) / n if len(positive) else 0.0,
    )
