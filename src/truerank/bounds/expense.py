"""What bounds cost, told before they are computed."""

from __future__ import annotations

import numpy as np

from truerank.bounds.interval import check_tally, known_contexts
from truerank.bounds.problem import STEP, Problem
from truerank.core.ranks import SampledRanks, TiePolicy
from truerank.core.tally import tally
from truerank.estimators.design import stopping_of

_EACH = 6e-5  # CPU seconds per bound, group of targets and place


def bound_seconds(ranks: SampledRanks, ties: TiePolicy = "expected") -> float:
    """Return about how many CPU seconds one bound takes; a factor of three is to be allowed for.

    It depends on the sample alone, not on a clock.

    Raises
    ------
    CannotEstimate
        When there are no bounds for the sample.

    Examples
    --------
    >>> bound_seconds(SampledRanks.single([0, 0, 1, 2, 4], n_negatives=19, n_pool=100)) < 0.1
    True
    """
    counted = tally(ranks, ties=ties, width=0.0)
    check_tally(counted)
    is_known = known_contexts(counted)
    if is_known.all():
        return 0.0
    contexts = counted.contexts.take(np.flatnonzero(~is_known))
    problem = Problem.of(contexts, counted.design, stopping_of(counted), None)
    return _EACH * len(problem.kind) * len(problem.places((), STEP))
