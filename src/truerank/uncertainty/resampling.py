"""Estimates from new samples like the one at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from truerank.core.check import check_at_least, check_choice
from truerank.core.errors import CannotEstimate, InvalidData
from truerank.core.progress import SILENT, Progress, Task, tracked
from truerank.core.tally import Tally, tally
from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import FloatArray
from truerank.core.uncertainty import TARGETS, Estimated, Target
from truerank.estimators.mixture import MixtureEstimator
from truerank.estimators.replicates import make_replicates
from truerank.uncertainty.draws import Draws, OtherNegatives, OtherUsers
from truerank.uncertainty.expense import check_memory
from truerank.uncertainty.outcomes import completed, n_possible

_WEIGHTS = 1 << 22  # weights held at once: 32 MB
_RUNS = 250  # fitted at once
_OUTCOMES = 1000  # sampled ranks of all sizes of pools, above which these are put together
_WIDTH = 0.1  # relative width of such sizes


def resampled(
    found: Estimated | Sequence[Estimated],
    *,
    target: Target = "test-users",
    resamples: int = 1000,
    seed: int = 0,
    progress: Progress = SILENT,
) -> FloatArray:
    r"""Return what each of many new samples would have given, (resamples, n_metrics).

    For ``population`` users are drawn with replacement and the estimator is applied to them: what differs is
    what the users and their negatives add. For ``test-users`` the users' ranks stay, as fitted, and their
    negatives are drawn anew; the values are those of the new samples less their mean, plus the estimate.
    Where n of N test users were evaluated, f = n/N, both parts are put together:

    .. math:: \hat\theta_b = \hat\theta + \sqrt{1 - f} \, (\hat\theta^{users}_b - \hat\theta)
              + \sqrt f \, (\hat\theta^{negatives}_b - \overline{\hat\theta^{negatives}})

    Parameters
    ----------
    found : estimates of one model; or of several, for the same users in the same order. Then the result is
        (n_models, resamples, n_metrics), and resample b draws the same users for all of them, so that
        differences are paired. New negatives are drawn for each model on its own: what models owe to shared
        negatives is left out, which makes differences vary more than they do.
    target : what the values are to vary about
    resamples, seed : how many, and of which draws; resample b is a function of the seed and b
    progress : where resamples are reported

    Notes
    -----
    A prior or mapping that is fitted to the sample stays as it is;
    distributions of ranks are fitted anew. Where there are very many sizes of pools, those within a tenth of
    each other are put together for that, and what this changes in the estimate itself is taken back. Memory
    does not grow with resamples times users.
    """
    check_choice("target", target, TARGETS)
    check_at_least("resamples", resamples, 2)
    named = {"": found} if isinstance(found, Estimated) else {str(i): one for i, one in enumerate(found)}
    if not isinstance(found, Estimated):
        _check_same_users(found)
    parts = sum(_n_parts(one, target) for one in named.values())
    with tracked(progress, "resampling", parts * resamples) as task:
        values = [_values(one, target, resamples, seed, label, task) for label, one in named.items()]
    return values[0] if isinstance(found, Estimated) else np.stack(values)


def _values(
    found: Estimated, target: Target, resamples: int, seed: int, label: str, task: Task
) -> FloatArray:
    used = _coarser(found, seed)
    if isinstance(used.estimator, MixtureEstimator):
        check_memory(used.estimator, used.tally, target)
    return _resampled(used, target, resamples, seed, label, task) + (found.value - used.value)


def _coarser(found: Estimated, seed: int) -> Estimated:
    """Return the estimate with pools of similar size put together where fits would take very long.

    A fit costs as many products as there are outcomes, and every size of pool has outcomes of its own.
    """
    if not isinstance(found.estimator, MixtureEstimator):
        return found
    wide = resampled_tally(found, seed)
    if wide is found.tally:
        return found
    return replace(found, tally=wide, value=found.estimator.estimate(wide, found.metrics).value)


def resampled_tally(found: Estimated, seed: int = 0) -> Tally:
    """Return the tally whose outcomes new samples of a fitted estimate have, pools put together or not."""
    counted = found.tally
    is_fine = counted.width >= _WIDTH or counted.design.law != "uniform" or n_possible(counted) <= _OUTCOMES
    return counted if is_fine else tally(found.ranks, ties=counted.ties, seed=seed, width=_WIDTH)


def _share(found: Estimated, target: Target) -> float:
    """Return f: how much of what an interval is for are the users at hand."""
    n_users = found.tally.n_users
    return 0.0 if target == "population" else n_users / (found.tally.design.n_test_users or n_users)


def _n_parts(found: Estimated, target: Target) -> int:
    """Return 2 where both other users and other negatives are drawn, else 1."""
    return 1 + (0 < _share(found, target) < 1)


def _resampled(
    found: Estimated, target: Target, resamples: int, seed: int, label: str, task: Task
) -> FloatArray:
    share = _share(found, target)
    values = np.tile(found.value, (resamples, 1))
    if share < 1:
        own = _apply(found, OtherUsers.of(found.tally, seed), resamples, task)
        if share == 0:
            return own
        values += np.sqrt(1 - share) * (own - found.value)
    if found.tally.design.law != "uniform":
        raise CannotEstimate(
            f"other negatives can only be drawn where they were drawn uniformly, got design "
            f"'{found.tally.design.law}'. Use delta, or target 'population'."
        )
    new = _apply(found, OtherNegatives.of(completed(found.tally), seed, label), resamples, task)
    values += np.sqrt(share) * (new - new.mean(axis=0))
    return values


def _apply(found: Estimated, draws: Draws, resamples: int, task: Task) -> FloatArray:
    """Return the estimates of all new samples, a block of them at a time."""
    replicates = make_replicates(found.estimator, draws.tally, found.metrics, draws.cells)
    block = min(max(_WEIGHTS // len(draws.cells), 1), _RUNS)
    values = np.empty((resamples, len(found.metrics)))
    for first in range(0, resamples, block):
        numbers = range(first, min(first + block, resamples))
        weights = np.stack(list(ordered_map(draws.weights, numbers, n_threads=available_threads())))
        values[numbers.start : numbers.stop] = replicates.values(weights)
        task.advance(len(numbers))
    return values


def _check_same_users(found: Sequence[Estimated]) -> None:
    if not found:
        raise InvalidData("resamples need at least one estimate, got none.")
    first = found[0].ranks
    for one in found[1:]:
        if not np.array_equal(one.ranks.user[one.ranks.starts], first.user[first.starts]):
            raise InvalidData(
                "paired resamples need the same users in the same order for every model. Sort the rows by "
                "user, and leave out users that some model lacks."
            )
        if len(one.metrics) != len(found[0].metrics):
            raise InvalidData("paired resamples need the same metrics for every model.")
