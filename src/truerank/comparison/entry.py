"""One model of a comparison: its values, per user where they are sums over users."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from truerank.comparison.options import Options
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.tally import tally
from truerank.core.types import FloatArray, IntArray
from truerank.core.uncertainty import Estimated
from truerank.estimators.mixture import MixtureEstimator
from truerank.metrics import values


@dataclass(frozen=True, eq=False)
class Entry:
    """What is compared.

    Parameters
    ----------
    name : of the model
    ranks : exact or sampled
    value : (n_metrics,) exact values, or estimates
    per_user : (n_users, n_metrics) what ``value`` is the mean of; None where a distribution is fitted
    found : the estimates and what they were made from; None for exact ranks
    """

    name: str
    ranks: Ranks | SampledRanks
    value: FloatArray
    per_user: FloatArray | None
    found: Estimated | None

    @property
    def users(self) -> IntArray:
        """Codes of the users, in the order of ``per_user``."""
        codes: IntArray = self.ranks.user[self.ranks.starts]
        return codes

    @property
    def digest(self) -> str:
        """What names the users, so that models with the same ones get the same resamples."""
        content = np.ascontiguousarray(self.users, np.int64).tobytes()
        return hashlib.blake2b(content, digest_size=8).hexdigest()

    @property
    def n_negatives(self) -> int | None:
        """Negatives per target; None for exact ranks and where they differ."""
        if isinstance(self.ranks, Ranks):
            return None
        sizes = np.unique(self.ranks.n_negatives)
        return int(sizes[0]) if len(sizes) == 1 else None


def make_entry(name: str, ranks: Ranks | SampledRanks, options: Options) -> Entry:
    """Evaluate or estimate the metrics of one model."""
    if len(ranks) == 0:
        raise InvalidData(f"model {name!r} must have at least one user, got none. Leave it out.")
    largest = int(ranks.n_pool.max())
    for metric in options.metrics:
        if metric.cutoff is not None and metric.cutoff > largest:
            raise InvalidParameter(
                f"cutoff of {metric} must be at most the largest pool of {largest} items. Lower it."
            )
    if isinstance(ranks, Ranks):
        exact = values(options.metrics, ranks, ties=options.ties, seed=options.seed)
        return Entry(name, ranks, exact.mean(axis=0), exact, None)
    counted = tally(ranks, ties=options.ties, seed=options.seed)
    estimator = options.estimator
    if isinstance(estimator, MixtureEstimator):
        per_user, value = None, estimator.estimate(counted, options.metrics).value
    else:
        per_user = estimator.per_user(counted, options.metrics)
        value = per_user.mean(axis=0)
    return Entry(name, ranks, value, per_user, Estimated(ranks, counted, estimator, options.metrics, value))
