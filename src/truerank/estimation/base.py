"""Base class of estimators of global metrics from ranks among sampled items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.errors import CannotEstimate, InvalidData
from truerank.core.plugin import Plugin
from truerank.core.ranks import RankDistribution
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.tally import Tally
from truerank.metrics.base import Metric


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimated metrics and their standard errors.

    Parameters
    ----------
    value : (n_metrics,) means over users
    standard_error : (n_metrics,) standard deviation over users / sqrt(n_users). It includes the variance of
        both the users and the sampled items, but no bias. NaN for a single user.
    """

    value: FloatArray
    standard_error: FloatArray


@dataclass(frozen=True)
class Estimator(Plugin, ABC):
    """A corrected value x for each cell (context, n_above); an estimate is the mean over users of its sums.

    A target with j sampled irrelevant items above it counts as x[j] instead of the gain at its sampled rank.
    x depends on the sizes of sample and pool, the targets above, and the metric; on the sampled ranks only
    where a prior or a distribution is fitted to them. Then the standard error does not include the variance
    of the fit. The gain of a metric with a cut-off must be constant beyond the cut-off.

    Where every candidate of every target was ranked, all ranks are known and nothing is estimated:
    ``corrected``, ``weights``, ``estimate`` and ``estimate_runs`` then give exact values, whatever the
    estimator and the design. A new estimator defines ``correct_sample`` and, where it has them,
    ``weigh_sample`` and ``estimate_samples`` for samples that leave ranks unknown.
    """

    #: Whether the global metric is estimated; ``naive`` alone reports the sampled metric as it is.
    is_global: ClassVar[bool] = True

    @property
    def fitted_part(self) -> str:
        """What is fitted to the sample and held fixed by intervals: ``prior``, ``mapping`` or nothing."""
        return ""

    @abstractmethod
    def correct_sample(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return what ``corrected`` returns, for a sample that leaves ranks unknown."""

    def weigh_sample(self, tally: Tally) -> list[FloatArray]:
        """Return what ``weights`` returns, for a sample that leaves ranks unknown."""
        raise CannotEstimate(
            f"'{self}' has no weights over global ranks, because it is not linear in the metric. "
            f"Use estimator 'bv'."
        )

    def estimate_samples(self, tallies: Sequence[Tally], metrics: Sequence[Metric]) -> FloatArray:
        """Return what ``estimate_runs`` returns, for samples that leave ranks unknown."""
        return np.stack([self.estimate(tally, metrics).value for tally in tallies])

    def corrected(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return the corrected value of each metric in each cell, (n_cells, n_metrics).

        Raises
        ------
        CannotEstimate
            When the method cannot treat the design, or a metric is not a sum over targets.
        """
        if tally.is_fully_ranked:
            return cell_gains(tally, metrics, tally.contexts.n_pool)
        return self.correct_sample(tally, metrics)

    def weights(self, tally: Tally) -> list[FloatArray]:
        """Return, per context, signed weights over J = 0..L irrelevant items above the target.

        They do not depend on the metric: the estimate of any metric is the sum over contexts of weights times
        gain. Those of a context sum to its rows / n_users.

        Raises
        ------
        CannotEstimate
            When the method is not linear in the metric.
        """
        if tally.is_fully_ranked:
            return [tally.counts(context) / tally.n_users for context in range(len(tally.contexts))]
        return self.weigh_sample(tally)

    def distribution(self, tally: Tally) -> RankDistribution:
        """Return the weights as a distribution over global ranks 1..N, signed unless all ranks are known.

        Raises
        ------
        CannotEstimate
            When contexts differ, so that there is no common list of ranks.
        """
        if len(tally.contexts) != 1:
            raise CannotEstimate(
                f"a rank distribution needs one pool size, sample size and number of targets, got "
                f"{len(tally.contexts)} different ones. Use estimates of metrics, or weights per context."
            )
        (weights,) = self.weights(tally)
        n_above = int(tally.contexts.n_relevant_above[0])
        full = np.zeros(int(tally.contexts.n_pool[0]))
        full[n_above : n_above + len(weights)] = weights
        return RankDistribution(full / full.sum(), method=str(self), signed=not tally.is_fully_ranked)

    def per_user(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return the estimated value of each metric for each user, (n_users, n_metrics).

        The value of a single user is very noisy and may lie outside [0, 1]; only the mean is an estimate.
        """
        return tally.per_user(self.corrected(tally, metrics))

    def estimate(self, tally: Tally, metrics: Sequence[Metric]) -> Estimates:
        """Return the mean over users of each metric, with its standard error."""
        if tally.n_users == 0:
            raise InvalidData("an estimate needs at least one user, got none.")
        values = self.per_user(tally, metrics)
        n_users = tally.n_users
        spread = values.std(axis=0, ddof=1) if n_users > 1 else np.full(len(metrics), np.nan)
        return Estimates(values.mean(axis=0), spread / np.sqrt(n_users))

    def estimate_runs(self, tallies: Sequence[Tally], metrics: Sequence[Metric]) -> FloatArray:
        """Return the estimate of each metric in each of several samples, (n_runs, n_metrics).

        For runs of one experiment, such as repeats; an estimator may compute for several runs at once.
        """
        sampled = [tally for tally in tallies if not tally.is_fully_ranked]
        if len(sampled) == len(tallies):
            return self.estimate_samples(tallies, metrics)
        estimated = iter(self.estimate_samples(sampled, metrics) if sampled else ())
        return np.stack(
            [
                self.per_user(tally, metrics).mean(axis=0) if tally.is_fully_ranked else next(estimated)
                for tally in tallies
            ]
        )


def cell_gains(tally: Tally, metrics: Sequence[Metric], n_pool: IntArray) -> FloatArray:
    """Return the gain of a target whose rank is its sampled rank, in each cell, (n_cells, n_metrics).

    Parameters
    ----------
    tally : the cells
    metrics : what is measured
    n_pool : (n_contexts,) the length of the list in which the rank counts
    """
    j, each = tally.cells()
    pool = np.repeat(n_pool, tally.contexts.n_negatives + 1)
    return np.stack([each.gains(metric, j + 1 + each.n_relevant_above, pool) for metric in metrics], axis=1)


def check_uniform(estimator: Estimator, tally: Tally) -> None:
    """Raise unless negatives were sampled uniformly, as the sampling laws assume."""
    if tally.design.law != "uniform":
        raise CannotEstimate(
            f"'{estimator}' needs negatives that were drawn uniformly, got design '{tally.design.law}'. "
            f"Use estimator 'naive', which reports the sampled metric as it is, or sample uniformly."
        )
