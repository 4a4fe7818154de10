r"""Posterior of differences between models, from the posterior of each.

The posteriors of two models say nothing about how their errors go together: what the prior gets wrong about
the users of a data set, it may get wrong for both. Draws are therefore coupled: with a common standard normal
f and one e_i of its own per model, model i takes the draw at the quantile

.. math:: \Phi(z_i), \qquad z_i = \sqrt{\rho} f + \sqrt{1 - \rho} e_i

of its own posterior (a Gaussian copula). Each model's posterior is left as it is. rho is the ``sharing`` of
the prior, the least that any data set has whose exact ranks are known, at least 0 (``benchmarks.decisions``).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from truerank.core.random import stream
from truerank.core.types import FloatArray, IntArray
from truerank.inference.posterior.interval import MetricPosterior

#: Joint draws of all models.
JOINT_DRAWS = 8192


@dataclass(frozen=True, eq=False)
class DifferencePosterior:
    """Draws from the joint posterior of differences between models.

    Parameters
    ----------
    values : (n_pairs, n_metrics, n_draws) first minus second model
    unit : (n_pairs, n_metrics) the smallest amount by which one target can change either model's metric
    widening : an interval of level 1 - a is the central 1 - widening a of the posterior
    """

    values: FloatArray
    unit: FloatArray
    widening: float

    @property
    def probability(self) -> FloatArray:
        """Posterior probability that the first model is better, equal values counted half."""
        share: FloatArray = ((self.values > 0).mean(axis=2) + (self.values >= 0).mean(axis=2)) / 2
        return share

    def limits(self, level: float, *, is_simultaneous: bool = False) -> tuple[FloatArray, FloatArray]:
        """Return the limits of the intervals, (n_pairs, n_metrics) each.

        Parameters
        ----------
        level : nominal coverage
        is_simultaneous : whether all intervals shall hold together. Then all leave out the same number of
            draws at either end, so few that all of them hold in enough joint draws
        """
        n = self.values.shape[2]
        alpha = (1 - level) * self.widening
        ordered = np.sort(self.values, axis=2)
        varies = ordered[:, :, 0] < ordered[:, :, -1]
        left_out = int(alpha * n / 2)
        if is_simultaneous and varies.any():
            place = np.argsort(np.argsort(self.values[varies], axis=1, kind="stable"), axis=1)
            outermost = np.sort(np.minimum(place, n - 1 - place).min(axis=0))
            left_out = int(outermost[int(alpha * n)])
        half = np.where(varies, self.unit / 2, 0.0)
        return ordered[:, :, left_out] - half, ordered[:, :, n - 1 - left_out] + half


def difference_posterior(
    posteriors: Mapping[str, MetricPosterior],
    pairs: Sequence[tuple[str, str]],
    *,
    sharing: float,
    groups: Mapping[str, Hashable] | None = None,
    seed: int = 0,
    n_draws: int = JOINT_DRAWS,
) -> DifferencePosterior:
    """Return the posterior of differences of metrics between models.

    Parameters
    ----------
    posteriors : of each model by name, for the same metrics
    pairs : names of first and second model of each difference
    sharing : rho, from 0 (independent errors) to 1
    groups : of each model; only models of one group share errors. None: all do
    seed, n_draws : of the joint draws. Those of a model depend on its name and group alone
    """
    drawn = {}
    for name, posterior in posteriors.items():
        group = None if groups is None else groups[name]
        quantiles = coupled_quantiles(name, group, sharing, seed=seed, n_draws=n_draws)
        drawn[name] = posterior.values[:, _drawn_at(posterior, quantiles)]
    return DifferencePosterior(
        np.stack([drawn[a] - drawn[b] for a, b in pairs]),
        np.stack([np.maximum(posteriors[a].unit, posteriors[b].unit) for a, b in pairs]),
        min(posterior.widening for posterior in posteriors.values()),
    )


def coupled_quantiles(
    name: str, group: Hashable, sharing: float, *, seed: int = 0, n_draws: int = JOINT_DRAWS
) -> FloatArray:
    """Return the quantile of its own posterior that a model takes in each joint draw, (n_draws,).

    Each of (i + 1/2)/n_draws comes once, so that the posterior of the model is kept.

    Examples
    --------
    >>> quantiles = coupled_quantiles("ease", 0, 1.0, n_draws=4)
    >>> sorted(quantiles.tolist()), (quantiles == coupled_quantiles("ials", 0, 1.0, n_draws=4)).all()
    ([0.125, 0.375, 0.625, 0.875], np.True_)
    """
    scores = ndtri((np.arange(n_draws) + 0.5) / n_draws)
    common = stream(seed, f"posterior/difference/group/{group}").permutation(scores)
    own = stream(seed, f"posterior/difference/model/{name}").permutation(scores)
    z = np.sqrt(sharing) * common + np.sqrt(1 - sharing) * own
    quantiles: FloatArray = (np.argsort(np.argsort(z)) + 0.5) / n_draws
    return quantiles


def _drawn_at(posterior: MetricPosterior, quantiles: FloatArray) -> IntArray:
    """Return the draws at quantiles of the posterior, ordered by the mean normal score of all metrics."""
    weights = posterior.weights
    score = np.zeros(len(weights))
    for row in posterior.values:
        order = np.argsort(row, kind="stable")
        sums = np.cumsum(weights[order]) - weights[order] / 2
        score[order] += ndtri(np.clip(sums, 1e-12, 1 - 1e-12))
    order = np.argsort(score, kind="stable")
    sums = np.cumsum(weights[order])
    place = np.searchsorted(sums, quantiles * sums[-1])
    found: IntArray = order[np.minimum(place, len(order) - 1)]
    return found
