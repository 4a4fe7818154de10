"""Results put together: estimates of the evaluated models, the data they belong to, and what repeats them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from truerank.core.provenance import versions
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.result import Estimate, Result
from truerank.core.types import FloatArray
from truerank.inference.estimate_interval.registry import Target
from truerank.inference.user_interval import Band
from truerank.workflows.estimate import BoundsWithMessages
from truerank.workflows.options import EvaluateOptions, RunSettings


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
    """

    name: str
    model: str
    estimates: tuple[Estimate, ...]
    ranks: Ranks | None
    seconds: Mapping[str, float]
    n_scores: int
    bounded: BoundsWithMessages
    sampled: SampledRanks | None = None


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
    return Result(
        command="evaluate",
        estimates=tuple(estimate for model in models for estimate in model.estimates),
        bounds=tuple(bound for model in models for bound in model.bounded.bounds),
        notes=tuple(note for model in models for note in model.bounded.notes),
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
            "seconds": {model.name: dict(model.seconds) for model in models},
            "scores_computed": {model.name: model.n_scores for model in models},
        },
        ranks={model.name: model.ranks for model in models if model.ranks is not None},
        sampled={model.name: model.sampled for model in models if model.sampled is not None},
    )


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
