"""One model after the other: fit, rank, measure."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from truerank.core.estimate import Estimate
from truerank.core.metric import Metric
from truerank.core.model import Model
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.result import Result
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.estimation import Bounded, bound, estimate_each
from truerank.evaluation.digest import data_hash
from truerank.evaluation.fitting import check_targets, described, fit_scorer
from truerank.evaluation.naming import name_models
from truerank.evaluation.options import DEFAULT_METRICS, Options, make_options
from truerank.evaluation.summary import summarise
from truerank.metrics import values
from truerank.ranks import SAMPLERS, Sampled, exact_ranks, sample
from truerank.split import draw_users
from truerank.validation import make_validate

ReturnT = TypeVar("ReturnT")


@dataclass(frozen=True)
class Evaluated:
    """What evaluating one model gave."""

    name: str
    model: str
    estimates: tuple[Estimate, ...]
    ranks: Ranks | None
    seconds: Mapping[str, float]
    n_scores: int
    bounded: Bounded
    sampled: SampledRanks | None = None


def evaluate(
    models: Any,
    split: Split,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    progress: Progress = SILENT,
    **options: Any,
) -> Result:
    """Return metrics of models, computed by this process: what ``truerank.evaluate`` does without an engine.

    Parameters
    ----------
    models, split, metrics, progress : as in ``truerank.evaluate``
    **options : fields of ``Options``

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 1], n_users=3, n_items=3)
    >>> test = Interactions.from_codes([1, 2], [0, 2], n_users=3, n_items=3)
    >>> result = evaluate("popularity", Split(train, test), "recall@1")
    >>> result.value("recall@1")
    0.5
    """
    chosen = make_options(metrics, **options)
    split = take_users(split, chosen)
    done = tuple(evaluate_each(name_models(models), split, chosen, progress=progress))
    return assemble(done, split, chosen)


def take_users(split: Split, options: Options) -> Split:
    """Return the split with as many test users as the options ask for."""
    return split if options.users is None else draw_users(split, options.users, seed=options.seed)


def evaluate_each(
    models: Mapping[str, Model | Scorer], split: Split, options: Options, *, progress: Progress = SILENT
) -> Iterator[Evaluated]:
    """Yield one model after the other, so that finished ones survive an interruption."""
    check_targets(split)
    validate = make_validate(split, seen=options.seen, n_threads=options.n_threads)
    for name, model in models.items():
        started = time.perf_counter()
        scorer = fit_scorer(model, split, validate=validate, seed=options.seed, progress=progress)
        fitted = time.perf_counter()
        seconds = {"fit": fitted - started}
        estimates: list[Estimate] = []
        ranks, drawn, n_scores, bounded = None, None, 0, Bounded()
        if options.sampler is not None:
            sampled, seconds["sample"] = _timed(partial(_sample, scorer, split, name, options, progress))
            drawn = sampled.ranks
            n_scores += sampled.n_scores
            found, seconds["estimate"] = _timed(partial(_estimate, name, sampled.ranks, options, progress))
            estimates += found
            if options.bounds is not False:
                bounded, seconds["bounds"] = _timed(
                    partial(
                        bound,
                        name,
                        sampled.ranks,
                        options.estimation(),
                        is_limited=options.bounds is None,
                        progress=progress,
                    )
                )
        if options.sampler is None or options.check:
            ranks, seconds["rank"] = _timed(partial(_rank, scorer, split, options, progress))
            n_scores += ranks.n_users * split.train.n_items
            found, seconds["metrics"] = _timed(partial(_exact, name, ranks, options, split.n_test_users))
            estimates += found
        yield Evaluated(name, described(model), tuple(estimates), ranks, seconds, n_scores, bounded, drawn)


def _rank(scorer: Scorer, split: Split, options: Options, progress: Progress) -> Ranks:
    return exact_ranks(
        scorer,
        split,
        seen=options.seen,
        n_threads=options.n_threads,
        device=options.device,
        progress=progress,
    )


def _exact(name: str, ranks: Ranks, options: Options, n_test_users: int | None) -> list[Estimate]:
    per_user = values(options.metrics, ranks, ties=options.ties, seed=options.seed)
    return list(summarise(name, per_user, options, n_test_users=n_test_users))


def _sample(scorer: Scorer, split: Split, name: str, options: Options, progress: Progress) -> Sampled:
    sampler = options.sampler or SAMPLERS.make("uniform")
    return sample(
        scorer,
        split,
        sampler,
        seen=options.seen,
        seed=options.seed,
        label=name,
        n_threads=options.n_threads,
        device=options.device,
        progress=progress,
    )


def _estimate(name: str, ranks: SampledRanks, options: Options, progress: Progress) -> list[Estimate]:
    return list(estimate_each(name, ranks, options.estimation(), progress=progress))


def _timed(work: Callable[[], ReturnT]) -> tuple[ReturnT, float]:
    started = time.perf_counter()
    done = work()
    return done, time.perf_counter() - started


def assemble(done: Sequence[Evaluated], split: Split, options: Options) -> Result:
    """Return the result of the finished models with all that is needed to repeat it."""
    return Result(
        command="evaluate",
        estimates=tuple(estimate for model in done for estimate in model.estimates),
        bounds=tuple(entry for model in done for entry in model.bounded.bounds),
        notes=tuple(note for model in done for note in model.bounded.notes),
        data=split.summary(),
        provenance={
            "models": {model.name: model.model for model in done},
            "split": split.method,
            "ties": options.ties,
            "seen": options.seen,
            "interval": str(options.interval),
            "uncertainty": str(options.uncertainty),
            "target": options.target,
            "users": options.users,
            "sampler": None if options.sampler is None else str(options.sampler),
            "seed": options.seed,
            "data_hash": data_hash(split),
            "versions": {"python": platform.python_version(), "numpy": np.__version__},
            "seconds": {model.name: dict(model.seconds) for model in done},
            "scores_computed": {model.name: model.n_scores for model in done},
        },
        ranks={model.name: model.ranks for model in done if model.ranks is not None},
        sampled={model.name: model.sampled for model in done if model.sampled is not None},
    )
