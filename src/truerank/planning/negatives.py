"""The same number of sampled negatives for every user, and the bounds they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from truerank.bounds import identified
from truerank.bounds.sizing import Plan as BoundPlan
from truerank.core.errors import TruerankError
from truerank.core.estimator import Estimator
from truerank.core.metric import Metric
from truerank.core.progress import Progress
from truerank.core.ranks import Ranks, SeenPolicy, TiePolicy
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.tally import tally
from truerank.core.types import FloatArray
from truerank.ranks import sample, simulate_sample
from truerank.ranks.uniform import Uniform

_PILOT = 99  # negatives of the sample that a pilot's exact ranks are turned into
_FEWEST = 30  # negatives: fewer save next to nothing beside the pilot, and estimates suffer
_MARGIN = 0.9  # of the wanted half-width is planned for: the bound of the sample itself will differ


@dataclass(frozen=True, eq=False)
class Bounded:
    """What a sample of negatives gave: estimates, their bounds, and the scores it took."""

    value: FloatArray
    limits: FloatArray
    n_scores: int


def bounding_size(
    pilot: Ranks, metrics: Sequence[Metric], half_width: float, *, n_users: int, level: float, ties: TiePolicy
) -> int | None:
    """Return about how many negatives per user bound every metric that closely; None if only all do.

    Parameters
    ----------
    pilot : exact ranks of some users
    metrics, half_width, level, ties : wanted
    n_users : users that the negatives would be drawn for
    """
    m = min(_PILOT, int((pilot.n_pool - pilot.n_relevant).min()) // 2)
    if m < 1:
        return None
    try:
        drawn = simulate_sample(pilot, m)
        is_single = bool((pilot.n_relevant == 1).all()) and not pilot.n_tied.any()
        plan = BoundPlan.of(
            drawn,
            ties,
            level=level,
            method="binomial" if is_single else "chernoff",
            shape=None,
            pools="free",
        )
        plan = replace(plan, n_users=n_users, start=0)
        sizes = [plan.size(metric, _MARGIN * half_width) for metric in metrics]
    except TruerankError:  # bounds do not treat every sample; then this is no way to go
        return None
    known = [size for size in sizes if size is not None]
    return max(_FEWEST, *known) if len(known) == len(sizes) else None


def bound(
    scorer: Scorer,
    split: Split,
    metrics: Sequence[Metric],
    estimator: Estimator,
    *,
    n_negatives: int,
    level: float,
    ties: TiePolicy,
    seen: SeenPolicy,
    seed: int,
    n_threads: int | None,
    progress: Progress,
) -> Bounded:
    """Draw negatives for all users; the bounds hold whatever the estimator is off by."""
    drawn = sample(
        scorer,
        split,
        Uniform(m=n_negatives),
        seen=seen,
        seed=seed,
        n_threads=n_threads,
        progress=progress,
    )
    found = identified(drawn.ranks, metrics, level=level, ties=ties, progress=progress)
    limits = np.array([[one.low, one.high] for one in found])
    value = estimator.estimate(tally(drawn.ranks, ties=ties, seed=seed), metrics).value
    return Bounded(np.clip(value, limits[:, 0], limits[:, 1]), limits, drawn.n_scores)
