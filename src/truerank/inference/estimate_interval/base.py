"""What all kinds of intervals do first.

What all intervals share: checks, exact values, the possible range, samples without spread.

What a metric can be at all, and what needs no interval.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter, check_choice, check_level
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import SampledRanks
from truerank.core.types import BoolArray, FloatArray
from truerank.estimation.adaptive_law import stopping_of
from truerank.estimation.corrections.equations import gain_at
from truerank.estimation.tally import Tally
from truerank.inference.bounds.identify import identification_bounds, known_contexts
from truerank.inference.bounds.problem import Pools, Shape
from truerank.inference.bounds.region import chernoff_limits, group_contexts
from truerank.inference.estimate_interval.registry import TARGETS, Estimated, Target, Uncertainty
from truerank.inference.user_interval import Band
from truerank.metrics.base import Metric


def possible_range(tally: Tally, metrics: Sequence[Metric]) -> tuple[FloatArray, FloatArray]:
    """Return each metric with all targets last and with all of them first, the smaller one first.

    A design that is not uniform says nothing about the whole pool; there it is the range of the sampled
    metric.
    """
    ends = _user_ends(tally, metrics).mean(axis=1)
    return ends.min(axis=0), ends.max(axis=0)


def range_of_any(tally: Tally, metrics: Sequence[Metric]) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest value that any of these users can have."""
    ends = _user_ends(tally, metrics)
    return ends.min(axis=(0, 1)), ends.max(axis=(0, 1))


def _user_ends(tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
    """Return the values of each user with all targets first and all of them last, (2, n_users, n_metrics)."""
    contexts, last = tally.contexts, tally.contexts.n_candidates
    if tally.design.law != "uniform":
        last = contexts.n_negatives
        contexts = replace(contexts, n_pool=contexts.n_negatives + contexts.n_relevant)
    ends = []
    for place in (np.zeros_like(last), last):
        gains = np.stack([gain_at(metric, place[:, None], contexts)[:, 0] for metric in metrics], axis=1)
        ends.append(tally.per_user(np.repeat(gains, contexts.n_negatives + 1, axis=0)))
    return np.stack(ends)


def is_exact(tally: Tally, ranks: SampledRanks) -> bool:
    """Whether every candidate of every target was drawn once, so that its rank is known."""
    if tally.design.law != "uniform" or (tally.ties == "random" and bool((ranks.n_tied > 0).any())):
        return False
    return bool(known_contexts(tally).all())


def exact_gains(tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
    """Return the gain in each cell, (n_cells, n_metrics), where all candidates were drawn."""
    contexts = tally.contexts
    each = contexts.take(np.repeat(np.arange(len(contexts)), contexts.n_negatives + 1))
    j = np.arange(tally.n_cells) - np.repeat(tally.offsets[:-1], contexts.n_negatives + 1)
    above, relevant, pool = each.n_relevant_above, each.n_relevant, each.n_pool
    columns = [metric.gain(j + 1 + above, above, relevant, pool) for metric in metrics]
    return np.stack([np.broadcast_to(column, j.shape) for column in columns], axis=1).astype(np.float64)


def is_flat(tally: Tally) -> bool:
    """Whether all targets have the same share of their sample above them, so that nothing tells of spread."""
    share = (tally.cell - tally.offsets[tally.context]) / tally.contexts.n_negatives[tally.context]
    return bool(np.ptp(share) == 0)


BOUNDS = "identification bounds"
_ROUNDING = 1e-9


def check_asked(found: Estimated, target: str, level: float) -> None:
    """Raise unless an interval can be asked for."""
    check_choice("target", target, TARGETS)
    check_level(level)
    if found.tally.n_users == 0:
        raise InvalidData("an interval needs at least one user, got none.")


def has_all_users(found: Estimated, target: Target) -> bool:
    """Whether the target is the value of just the users at hand."""
    n_test_users = found.tally.design.n_test_users
    return target == "test-users" and n_test_users in (None, found.tally.n_users)


def exact_band(found: Estimated, target: Target) -> Band | None:
    """Return intervals of no width where all candidates of all test users were ranked, else None.

    They lie at the exact value, which smoothing estimators may miss even then.
    """
    if not has_all_users(found, target) or not is_exact(found.tally, found.ranks):
        return None
    value = found.tally.cell_weights @ exact_gains(found.tally, found.metrics) / found.tally.n_users
    value = np.where(np.abs(value - found.value) <= _ROUNDING, found.value, value)
    return Band(value, value, ("exact",) * len(value))


def range_for(found: Estimated, target: Target) -> tuple[FloatArray, FloatArray]:
    """Return what the metrics can be for a target: of other users, what any of these can have."""
    limits = possible_range if has_all_users(found, target) else range_of_any
    return limits(found.tally, found.metrics)


def within_range(
    found: Estimated, target: Target, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return ends that lie within what the metrics can be."""
    least, most = range_for(found, target)
    return np.clip(low, least, most), np.clip(high, least, most)


def with_spread(found: Estimated, band: Band, has_spread: BoolArray, *, target: Target, level: float) -> Band:
    """Return the band, with bounds in place of intervals of metrics that do not differ between samples.

    All users in one cell say something about other samples, but not through their variance. Where there are
    no bounds, the interval is all that the metric can be.
    """
    if has_spread.all():
        return band
    flat = np.flatnonzero(~has_spread)
    least, most = range_for(found, target)
    name = "possible range, no spread"
    try:
        ends = allowed(found, target=target, level=level)
        least, most, name = ends[:, 0], ends[:, 1], f"{BOUNDS}, no spread"
    except (CannotEstimate, InvalidParameter):
        pass
    low, high, method = band.low.copy(), band.high.copy(), list(band.method)
    for column in flat.tolist():
        low[column], high[column], method[column] = least[column], most[column], name
    return Band(low, high, tuple(method))


def allowed(
    found: Estimated,
    *,
    target: Target,
    level: float,
    shape: Shape | None = None,
    pools: Pools = "free",
    progress: Progress = SILENT,
) -> FloatArray:
    r"""Return the least and largest value of each metric that the sample allows, (n_metrics, 2).

    Notes
    -----
    ``identification_bounds`` bounds the value of the users at hand. For ``population`` these are drawn at
    random, and
    with a single group of targets so is each event: its chance is the mean over all users, the region holds
    for it as well, and so do the bounds. In all other cases half of what the level leaves is spent on
    the users: their mean lies within [low, high] and the mean over all users within ``about_users`` of it.
    """
    extra = not (has_all_users(found, target) or (target == "population" and is_one_group(found)))
    own = 1 - (1 - level) / 2 if extra else level
    bounds = identification_bounds(
        found.tally.unbinned, found.metrics, level=own, shape=shape, pools=pools, progress=progress
    )
    ends = np.array([[bound.low, bound.high] for bound in bounds])
    if not extra:
        return ends
    n_test_users = found.tally.design.n_test_users if target == "test-users" else None
    wide = about_users(ends, found.tally.n_users, n_test_users, (1 - level) / 2)
    return np.stack(within_range(found, target, wide[:, 0], wide[:, 1]), axis=1)


def about_users(ends: FloatArray, n_users: int, n_test_users: int | None, alpha: float) -> FloatArray:
    r"""Return limits of the mean over all users, given those of the mean over some drawn from them.

    Values of users lie within [0, 1], so Chernoff's limits hold (Hoeffding 1963), for draws without
    replacement too. Of N users n were drawn: Serfling's half-width
    :math:`\sqrt{(1 - (n - 1)/N) \log(2/\alpha)/2n}` is taken where it is narrower. Both ends are missed with
    at most alpha together.

    Parameters
    ----------
    ends : (n_metrics, 2)
    n_users, n_test_users : n, and N or None for a whole population
    alpha : what may be missed
    """
    if n_test_users == n_users:
        return ends
    low = chernoff_limits(np.clip(ends[:, 0], 0, 1), n_users, alpha / 2)[0]
    high = chernoff_limits(np.clip(ends[:, 1], 0, 1), n_users, alpha / 2)[1]
    if n_test_users is not None:
        half = np.sqrt((1 - (n_users - 1) / n_test_users) * np.log(2 / alpha) / (2 * n_users))
        low, high = np.maximum(low, ends[:, 0] - half), np.minimum(high, ends[:, 1] + half)
    return np.stack([low, high], axis=1)


def is_one_group(found: Estimated) -> bool:
    """Whether bounds take all targets for alike, and there is one per user."""
    if bool(known_contexts(found.tally).any()) or found.tally.n_rows != found.tally.n_users:
        return False
    contexts = found.tally.unbinned.contexts
    group, _ = group_contexts(contexts, by_sample=stopping_of(found.tally) is None)
    return bool((group == 0).all())


@dataclass(frozen=True)
class Asked:
    """What an interval is asked for; see ``Uncertainty.band``."""

    target: Target
    level: float
    seed: int
    progress: Progress


@dataclass(frozen=True)
class EstimateInterval(Uncertainty, ABC):
    """A way to make intervals of what is not known exactly."""

    def band(
        self,
        found: Estimated,
        *,
        target: Target = "test-users",
        level: float = 0.95,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Band:
        """Return the intervals; those of exact values have no width."""
        check_asked(found, target, level)
        settled = exact_band(found, target)
        if settled is not None:
            return settled
        return self.inexact(found, Asked(target, level, seed, progress))

    @abstractmethod
    def inexact(self, found: Estimated, asked: Asked) -> Band:
        """Return the intervals of estimates."""
