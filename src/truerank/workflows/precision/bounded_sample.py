"""Bounds of metrics without a cut-off from sampled negatives of all users, where whole rows would be dear.

AUC, and NDCG of the whole list, need every score of a row. A few negatives of each user bound them instead:
the bounds hold whatever the bias of the estimator beside them is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from truerank.core.errors import TruerankError
from truerank.core.progress import Progress
from truerank.core.ranks import Ranks, SeenPolicy, TiePolicy
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray
from truerank.estimation.base import Estimator
from truerank.estimation.tally import tally
from truerank.inference.bounds.identify import identification_bounds
from truerank.inference.bounds.sample_size import SampleDesign
from truerank.metrics.base import Metric
from truerank.ranking.sampled import sample_ranks
from truerank.ranking.samplers.uniform import UniformSampler
from truerank.ranking.simulate import simulate_sample

_PILOT_NEGATIVES = 99  # of the sample simulated from the pilot's exact ranks
_FEWEST_NEGATIVES = 30  # fewer save next to nothing beside the pilot, and estimates suffer
_PLANNED_FRACTION = 0.9  # of the wanted half-width: bounds of the actual sample differ from predicted ones


@dataclass(frozen=True, eq=False)
class BoundedSample:
    """Estimates and identification bounds from sampled negatives of all users, and the scores computed."""

    value: FloatArray
    limits: FloatArray
    n_scores: int


def negatives_for_bounds(
    pilot: Ranks, metrics: Sequence[Metric], half_width: float, *, n_users: int, level: float, ties: TiePolicy
) -> int | None:
    """Return about how many negatives per user bound every metric this closely; None if only all items do.

    Parameters
    ----------
    pilot : exact ranks of some users
    metrics, half_width, level, ties : of the bounds
    n_users : users that negatives would be sampled for
    """
    m = min(_PILOT_NEGATIVES, int((pilot.n_pool - pilot.n_relevant).min()) // 2)
    if m < 1:
        return None
    try:
        simulated = simulate_sample(pilot, m)
        is_single = bool((pilot.n_relevant == 1).all()) and not pilot.n_tied.any()
        design = SampleDesign.of(
            tally(simulated, ties=ties),
            level=level,
            method="binomial" if is_single else "chernoff",
            shape=None,
            pools="free",
        )
        design = replace(design, n_users=n_users, start=0)
        sizes = [design.size(metric, _PLANNED_FRACTION * half_width) for metric in metrics]
    except TruerankError:  # there are no bounds for this kind of sample
        return None
    known = [size for size in sizes if size is not None]
    return max(_FEWEST_NEGATIVES, *known) if len(known) == len(sizes) else None


def sample_with_bounds(
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
) -> BoundedSample:
    """Sample negatives for all users; the bounds hold whatever the bias of the estimator is."""
    sampled = sample_ranks(
        scorer,
        split,
        UniformSampler(m=n_negatives),
        seen=seen,
        seed=seed,
        n_threads=n_threads,
        progress=progress,
    )
    counted = tally(sampled.ranks, ties=ties, seed=seed)
    bounds = identification_bounds(counted.unbinned, metrics, level=level, progress=progress)
    limits = np.array([[bound.low, bound.high] for bound in bounds])
    value = estimator.estimate(counted, metrics).value
    return BoundedSample(np.clip(value, limits[:, 0], limits[:, 1]), limits, sampled.n_scores)
