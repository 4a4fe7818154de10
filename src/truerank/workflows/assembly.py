"""Results put together: estimates of the evaluated models, the data they belong to, and what repeats them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.model import InterruptedTraining
from truerank.core.provenance import versions
from truerank.core.random import stream
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.result import Estimate, Result, mark_best
from truerank.core.types import BoolArray, FloatArray
from truerank.inference.estimate_interval.registry import Target
from truerank.inference.score_interval import ScoreTest
from truerank.inference.user_interval import Band
from truerank.split.notes import data_notes
from truerank.workflows.estimate import BoundsWithMessages
from truerank.workflows.options import EvaluateOptions, RunSettings

if TYPE_CHECKING:
    from truerank.workflows.compare.differences import PairedDifferences


@dataclass(frozen=True)
class EvaluatedModel:
    """What evaluating one model gave.

    Parameters
    ----------
    name, model : its name in the result, and the spec or type behind that
    estimates : values and intervals, in the order of the metrics
    ranks, sampled : exact and sampled ranks, where there are any
    seconds : by stage (``fit``, ``rank``, ...)
    n_scores : how many scores were computed
    bounded : identification bounds of the sampled ranks
    per_user : (n_users, n_metrics) exact values of the users of ``ranks``; None where there are no ranks
    unknown : how many ``users`` and ``items`` a model of another library does not know
    interrupted : how far its training had come when it was interrupted; None where it was not
    """

    name: str
    model: str
    estimates: tuple[Estimate, ...]
    ranks: Ranks | None
    seconds: Mapping[str, float]
    n_scores: int
    bounded: BoundsWithMessages
    sampled: SampledRanks | None = None
    per_user: FloatArray | None = None
    unknown: Mapping[str, int] = field(default_factory=dict)
    interrupted: InterruptedTraining | None = None

    def notes(self) -> Iterator[str]:
        """Yield what there is to say about the model."""
        for what, count in self.unknown.items():
            fate = "rank below all others" if what == "items" else "get the same list"
            yield f"{self.name}: the model does not know {count:,} {what} of the data, which {fate}."
        if self.interrupted is not None:
            yield f"{self.name}: {self.interrupted}. A longer training may give other values."
        yield from self.bounded.notes


def assemble_result(
    models: Sequence[EvaluatedModel],
    settings: RunSettings,
    data: Mapping[str, Any],
    data_hash: str | Mapping[str, str],
    **provenance: Any,
) -> Result:
    """Return the result of the evaluated models, with all that is needed to repeat it.

    Parameters
    ----------
    models : the models that are finished
    settings : how they were evaluated
    data : counts of the data set, as ``Split.summary`` gives them
    data_hash : digest of the data, or one per model
    **provenance : what else is recorded, such as ``split`` or ``sampler``
    """
    unknown = {model.name: dict(model.unknown) for model in models if model.unknown}
    interrupted = {model.name: asdict(model.interrupted) for model in models if model.interrupted is not None}
    return Result(
        command="evaluate",
        estimates=tuple(_with_best(models, settings)),
        bounds=tuple(bound for model in models for bound in model.bounded.bounds),
        notes=(
            *data_notes(data),
            *(note for model in models for note in model.notes()),
        ),
        data=data,
        provenance={
            "models": {model.name: model.model for model in models},
            **provenance,
            "ties": settings.ties,
            "seen": settings.seen,
            "asked_target": settings.target,
            "seed": settings.seed,
            "data_hash": data_hash,
            "versions": versions(),
            **({"unknown": unknown} if unknown else {}),
            **({"interrupted": interrupted} if interrupted else {}),
            "seconds": {model.name: dict(model.seconds) for model in models},
            "scores_computed": {model.name: model.n_scores for model in models},
        },
        ranks={model.name: model.ranks for model in models if model.ranks is not None},
        sampled={model.name: model.sampled for model in models if model.sampled is not None},
    )


def _with_best(models: Sequence[EvaluatedModel], settings: RunSettings) -> list[Estimate]:
    """Return all estimates; they say which models may be best, by users in pairs where that is possible."""
    estimates = mark_best([estimate for model in models for estimate in model.estimates])
    per_user = [model.per_user for model in models if model.per_user is not None]
    is_paired = len(per_user) == len(models) and _have_same_users(models)
    if not is_paired or not 2 <= len(models) <= MOST_PAIRED:
        return estimates
    may_be_best = best_by_pairs(per_user, level=settings.level, seed=settings.seed)
    metrics = list(dict.fromkeys(e.metric for e in estimates if e.kind == "exact"))
    marks = {
        (model.name, metric): bool(may_be_best[row, column])
        for row, model in enumerate(models)
        for column, metric in enumerate(metrics)
    }
    return [
        replace(e, is_best=marks[e.model, e.metric]) if e.kind == "exact" and e.is_best is not None else e
        for e in estimates
    ]


def _have_same_users(models: Sequence[EvaluatedModel]) -> bool:
    first = models[0].ranks
    return first is not None and all(
        model.ranks is not None and np.array_equal(model.ranks.user, first.user) for model in models[1:]
    )


MOST_PAIRED = 40  # models of which all pairs are compared: 780
_DRAWS = 2000
_ROWS = 1 << 16  # users whose products are summed at once


def best_by_pairs(per_user: Sequence[FloatArray], *, level: float = 0.95, seed: int = 0) -> BoolArray:
    """Return which models may be the best in the population of users, (n_models, n_metrics).

    A model is left out where another is shown to be better: the simultaneous interval (max-t over all pairs
    and metrics) of their differences over users lies above 0. ``compare`` decides by the same intervals; here
    the largest statistic is drawn from the normal distribution with the covariance of the values over users,
    which takes a fraction of the time of resampled users.

    Parameters
    ----------
    per_user : (n_users, n_metrics) values of each model, of the same users
    level : simultaneous confidence level
    seed : of the draws

    Examples
    --------
    >>> good, bad = np.tile([[1.0], [0.9]], (50, 1)), np.tile([[0.1], [0.3]], (50, 1))
    >>> best_by_pairs([good, bad, good]).ravel().tolist()
    [True, False, True]
    """
    found = pair_intervals([per_user], level=level, seed=seed)
    may_be_best = np.ones((len(per_user), per_user[0].shape[1]), np.bool_)
    for row, (a, b) in enumerate(combinations(range(len(per_user)), 2)):
        may_be_best[b] &= ~(found.low[0, row] > 0)
        may_be_best[a] &= ~(found.high[0, row] < 0)
    return may_be_best


@dataclass(frozen=True, eq=False)
class PairIntervals:
    """Differences of all pairs of models, first minus second, (n_groups, n_pairs, n_metrics).

    Parameters
    ----------
    value : the differences
    low, high : simultaneous limits; those within rounding of 0 are 0
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray


def pair_intervals(
    groups: Sequence[Sequence[FloatArray]], *, level: float = 0.95, seed: int = 0
) -> PairIntervals:
    """Return the differences of all pairs of models in groups of users, with simultaneous intervals.

    They hold at once for all groups, pairs and metrics.

    Parameters
    ----------
    groups : per group, the (n_users, n_metrics) values of each model, of the same users
    level : simultaneous confidence level
    seed : of the draws
    """
    from truerank.workflows.compare.differences import simultaneous_intervals
    from truerank.workflows.compare.result import ROUNDING

    paired = group_differences(groups, seed=seed)
    found = simultaneous_intervals(paired, level=level, correction="max-t")
    shape = (len(groups), -1, groups[0][0].shape[1])
    low, high = (
        np.where(np.abs(limit) <= ROUNDING, 0.0, limit).reshape(shape) for limit in (found.low, found.high)
    )
    return PairIntervals(paired.value.reshape(shape), low, high)


def group_differences(groups: Sequence[Sequence[FloatArray]], *, seed: int = 0) -> PairedDifferences:
    """Return the differences of all pairs of models in groups of users, those of one group after the other.

    Draws of different groups are independent, which is how disjoint groups of users are; where groups share
    users this makes intervals wider, never narrower (the Gaussian correlation inequality).

    Parameters
    ----------
    groups, seed : as in ``pair_intervals``
    """
    from truerank.workflows.compare.differences import PairedDifferences, score_tests, standard_error

    pairs = list(combinations(range(len(groups[0])), 2))
    shape = (len(groups), len(pairs), groups[0][0].shape[1])
    value, error, shifts = np.zeros(shape), np.full(shape, np.nan), np.zeros((_DRAWS, *shape))
    scores: list[ScoreTest | None] = []
    for place, per_user in enumerate(groups):
        means = [values.mean(axis=0) for values in per_user]
        value[place] = [means[a] - means[b] for a, b in pairs]
        if len(per_user[0]) < 2:
            scores += [None] * (len(pairs) * shape[2])
            continue
        draws = _normal_draws(per_user, seed, place)
        for row, (a, b) in enumerate(pairs):
            differences = per_user[a] - per_user[b]
            error[place, row] = standard_error(differences)
            shifts[:, place, row] = draws[:, a] - draws[:, b]
            scores += score_tests(differences)
    flat = (len(groups) * len(pairs), shape[2])
    n_users = np.repeat([len(per_user[0]) for per_user in groups], len(pairs))
    return PairedDifferences(
        value.reshape(flat),
        error.reshape(flat),
        n_users,
        shifts.reshape(_DRAWS, *flat),
        np.full(flat, np.nan),
        scores,
    )


def _normal_draws(per_user: Sequence[FloatArray], seed: int, place: int) -> FloatArray:
    """Return draws of the errors of all means, (draws, n_models, n_metrics), for the group at a place."""
    n_users, n_metrics = per_user[0].shape
    width = len(per_user) * n_metrics
    means = np.concatenate([values.mean(axis=0) for values in per_user])
    products = np.zeros((width, width))
    for start in range(0, n_users, _ROWS):
        block = np.concatenate([values[start : start + _ROWS] for values in per_user], axis=1) - means
        products += block.T @ block
    spread, directions = np.linalg.eigh(products / (n_users - 1) / n_users)
    stage = f"evaluate/best/{place}" if place else "evaluate/best"
    normal = stream(seed, stage).standard_normal((_DRAWS, width))
    draws: FloatArray = (normal * np.sqrt(np.maximum(spread, 0))) @ directions.T
    return draws.reshape(_DRAWS, len(per_user), n_metrics)


def metric_estimates(
    name: str, per_user: FloatArray, options: EvaluateOptions, *, n_test_users: int | None = None
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
