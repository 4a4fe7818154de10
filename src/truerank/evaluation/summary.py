"""From values per user to estimates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from truerank.core.estimate import Estimate
from truerank.core.interval import Band
from truerank.core.types import FloatArray
from truerank.core.uncertainty import Target
from truerank.evaluation.options import Options


def summarise(
    name: str, per_user: FloatArray, options: Options, *, n_test_users: int | None = None
) -> Iterator[Estimate]:
    """Yield one estimate per metric: the mean over users with its interval.

    Where the users were drawn from ``n_test_users`` and the target is their mean, the interval over users is
    narrowed by the finite-population factor sqrt(1 - n / n_test_users).
    """
    band = options.interval.band(per_user, level=options.level, seed=options.seed)
    target: Target = "population"
    if n_test_users is not None and options.target == "test-users":
        band, target = _of_finite_population(band, per_user, n_test_users), "test-users"
    for column, metric in enumerate(options.metrics):
        yield Estimate(
            model=name,
            metric=str(metric),
            value=float(per_user[:, column].mean()),
            low=float(band.low[column]),
            high=float(band.high[column]),
            level=options.level,
            kind="exact",
            method=band.method[column],
            n_users=len(per_user),
            target=target,
        )


def _of_finite_population(band: Band, per_user: FloatArray, n_test_users: int) -> Band:
    mean, factor = per_user.mean(axis=0), np.sqrt(1 - len(per_user) / n_test_users)
    method = tuple(f"{one}, finite population" for one in band.method)
    return Band(mean - factor * (mean - band.low), mean + factor * (band.high - mean), method)
