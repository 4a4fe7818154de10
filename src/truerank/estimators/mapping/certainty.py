"""The mapping that is exact for a known rank distribution."""

from __future__ import annotations

import numpy as np

from truerank.core.distribution import RankDistribution
from truerank.core.errors import CannotEstimate, InvalidParameter
from truerank.core.types import FloatArray
from truerank.estimators.law import make_law


def expected_curve(distribution: RankDistribution, n: int, *, replacement: bool = True) -> FloatArray:
    """Return E[SHR@1] ... E[SHR@n] for ranks that follow a distribution; O(N sqrt(n)).

    Raises
    ------
    CannotEstimate
        When weights are negative.
    InvalidParameter
        When n is below 2, or above N without replacement.
    """
    if distribution.weights.min() < 0:
        raise CannotEstimate(
            f"an expected curve needs weights >= 0, but those of {distribution.method!r} are signed. Use a "
            f"distribution from 'mle', 'mapping' or exact ranks."
        )
    if n < 2 or distribution.n_pool < 2:
        raise InvalidParameter(f"n and n_pool must be at least 2, got {n} and {distribution.n_pool}.")
    law = make_law(distribution.n_pool - 1, n - 1, replacement=replacement)
    curve: FloatArray = np.minimum(np.cumsum(law.add(distribution.weights[None, :])[0]), 1.0)
    curve[-1] = 1.0
    return curve


def exact_map(distribution: RankDistribution, n: int, *, replacement: bool = True) -> FloatArray:
    r"""Return the real f(1) ... f(n) with HR@f(k) = E[SHR@k], HR taken linear between whole ranks.

    With replacement E[SHR@k] is the mean of HR at a Beta(k, n - k) share of the list, so f is the certainty
    equivalent of that lottery under the utility HR:

    .. math:: f(k) = F^{-1}\bigl( E F(X) \bigr)

    If F is a concave function of G then f_F <= f_G (Arrow and Pratt): recommenders with more targets at the
    top are read earlier. ``beta(a)`` is the case F(x) = x^a.

    Parameters
    ----------
    distribution : of global ranks 1..N, weights >= 0
    n : items of the sampled list, the target included
    replacement : whether an item can be drawn twice

    Notes
    -----
    Where HR is flat the first of the ranks with that value is given; f(n) is N. Below rank 1, HR is taken
    linear from 0 at 0, so f(1) may lie below 1.

    Examples
    --------
    >>> uniform = RankDistribution(np.full(1000, 1e-3), method="uniform")
    >>> exact_map(uniform, 4).round(2).tolist()  # beta(a=1) gives 250.75, 500.5, 750.25, 1000
    [250.25, 500.0, 749.75, 1000.0]
    """
    expected = expected_curve(distribution, n, replacement=replacement)
    weights = distribution.weights
    total = np.cumsum(weights)
    place = np.minimum(np.searchsorted(total, expected * (1 - 1e-14), side="left"), len(weights) - 1)
    share = np.divide(
        expected - (total[place] - weights[place]),
        weights[place],
        out=np.zeros(n),
        where=weights[place] > 0,
    )
    locations: FloatArray = place + np.clip(share, 0.0, 1.0)
    locations[-1] = float(len(weights))
    return locations
