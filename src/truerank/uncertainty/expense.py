"""What resampling a fitted estimate costs, told before it is done."""

from __future__ import annotations

import numpy as np

from truerank.core.errors import CannotEstimate
from truerank.core.tally import Tally
from truerank.core.uncertainty import Target
from truerank.estimators.beta_binomial import BetaBinomial
from truerank.estimators.likelihood import grid_of
from truerank.estimators.mes import MaximalEntropy
from truerank.estimators.mixture import MixtureEstimator
from truerank.estimators.mle import MaximumLikelihood
from truerank.uncertainty.outcomes import n_possible

_ENTRIES = 1 << 28  # chances held at once: 2 GB
_STEP = 2e-10  # CPU seconds per step of EM, outcome and bin
_DRAW = 3e-8  # per target: new negatives
_STEPS = {"exact": 700, "mes": 350, "beta-binomial": 50, "smooth": 350}  # fits in steps of EM, roughly


def bootstrap_seconds(estimator: MixtureEstimator, counted: Tally, target: Target, resamples: int) -> float:
    """Return about how many CPU seconds a bootstrap takes; a factor of three is to be allowed for.

    Parameters
    ----------
    estimator : what is fitted
    counted : the tally that would be resampled, completed or not
    target, resamples : what is asked
    """
    n_outcomes, n_bins = _shape(estimator, counted, target)
    if isinstance(estimator, MaximumLikelihood):
        steps = estimator.iterations if estimator.solver == "em" else _STEPS["exact"]
    elif isinstance(estimator, MaximalEntropy):
        steps = _STEPS["mes"]
    elif isinstance(estimator, BetaBinomial):
        steps = _STEPS["beta-binomial"]
    else:
        steps = _STEPS["smooth"]
    return resamples * (_STEP * steps * n_outcomes * n_bins + _DRAW * len(counted.cell))


def check_memory(estimator: MixtureEstimator, counted: Tally, target: Target) -> None:
    """Raise when the chances of all outcomes do not fit into memory.

    Raises
    ------
    CannotEstimate
        With the way out: ``delta`` does not hold them at once.
    """
    n_outcomes, n_bins = _shape(estimator, counted, target)
    if n_outcomes * n_bins > _ENTRIES:
        raise CannotEstimate(
            f"a bootstrap would hold the chances of {n_outcomes:,} sampled ranks in {n_bins:,} bins, "
            f"{8e-9 * n_outcomes * n_bins:.1f} GB. Use delta, or wider bins such as grid=0.5."
        )


def _shape(estimator: MixtureEstimator, counted: Tally, target: Target) -> tuple[int, int]:
    """Return the numbers of outcomes and of bins that fits to new samples have."""
    n_outcomes = n_possible(counted)
    if target == "population":
        n_outcomes = min(n_outcomes, int(np.count_nonzero(counted.cell_weights)))
    return n_outcomes, grid_of([counted], step=estimator.grid).n_bins
