"""Composer: models and a split in, metrics with intervals out."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from truerank.core.check import check_choice, check_level
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.estimate import Estimate
from truerank.core.estimator import Estimator
from truerank.core.interval import Band, Interval
from truerank.core.metric import Metric
from truerank.core.model import Model
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import SEEN_POLICIES, TIE_POLICIES, Ranks, SampledRanks, SeenPolicy, TiePolicy
from truerank.core.result import Result
from truerank.core.scorer import Scorer, as_scorer
from truerank.core.spec import parse_spec
from truerank.core.split import Split
from truerank.core.stream import check_seed
from truerank.core.types import FloatArray
from truerank.core.uncertainty import TARGETS, Target
from truerank.estimation import DEFAULT_ESTIMATORS, Estimation, estimate_each
from truerank.estimators import ESTIMATORS
from truerank.inference import INTERVALS
from truerank.metrics import make_metrics, values
from truerank.metrics.trec import evaluate_run
from truerank.models import MODELS
from truerank.ranks import SAMPLERS, Sampled, Sampler, exact_ranks, sample
from truerank.split import draw_users
from truerank.validation import make_validate

DEFAULT_METRICS = "ndcg@10,recall@10"
ReturnT = TypeVar("ReturnT")


@dataclass(frozen=True)
class Options:
    """How to evaluate; checked once, before any work starts.

    Parameters
    ----------
    metrics : metrics in the order of the result
    ties : how equal scores count, see ``docs/glossary.md``
    seen : what happens to items of train and valid: removed from the pool, put at its bottom, or kept
    interval, level : the interval over users
    users : how many test users to take, or their share, drawn at random; None takes all
    target : what intervals are for: the value of all test users, or of all users like them. An exact value of
        all test users is that value, so its interval is for the population.
    seed : of everything random
    n_threads : threads for ranking; None takes all cores
    sampler : how negatives are drawn; None ranks all items
    estimators : what to make of sampled ranks
    check : whether to rank all items too, and show the exact values beside the estimates
    """

    metrics: tuple[Metric, ...]
    ties: TiePolicy = "expected"
    seen: SeenPolicy = "remove"
    interval: Interval = field(default_factory=lambda: INTERVALS.make("auto"))
    level: float = 0.95
    users: int | float | None = None
    target: Target = "test-users"
    seed: int = 0
    n_threads: int | None = None
    sampler: Sampler | None = None
    estimators: tuple[Estimator, ...] = ()
    check: bool = False

    def __post_init__(self) -> None:
        if self.sampler is None and (self.estimators or self.check):
            raise InvalidParameter(
                "estimators and check need sampled ranks. Say how to sample, for example sampler='uni100'."
            )
        check_choice("ties", self.ties, TIE_POLICIES)
        check_choice("seen", self.seen, SEEN_POLICIES)
        check_level(self.level)
        check_choice("target", self.target, TARGETS)
        check_seed(self.seed)
        if self.n_threads is not None and self.n_threads < 1:
            raise InvalidParameter(f"n_threads must be an integer >= 1, got {self.n_threads}.")


@dataclass(frozen=True)
class Evaluated:
    """What evaluating one model gave."""

    name: str
    model: str
    estimates: tuple[Estimate, ...]
    ranks: Ranks | None
    seconds: Mapping[str, float]
    n_scores: int


def evaluate(
    models: Any,
    split: Split,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    progress: Progress = SILENT,
    **options: Any,
) -> Result:
    """Return metrics of one or several models on the test part of a split.

    Every item of each user's pool is ranked, so the values are exact; the intervals say how far they may lie
    from those of other users like these. With a ``sampler`` only sampled items are ranked and the values are
    estimates.

    Parameters
    ----------
    models : a spec string, a model, something with scores (see ``as_scorer``), a list of these, or a
        mapping from names to these
    split : train, test and perhaps valid events
    metrics : spec strings (a comma-separated text or a list) or metric objects
    progress : where long jobs report
    **options : ``ties``, ``seen``, ``interval``, ``level``, ``users``, ``target``, ``seed``, ``n_threads``,
        ``sampler``, ``estimators`` and ``check`` as in ``Options``

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


def make_options(
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    interval: str | Interval = "auto",
    sampler: str | Sampler | None = None,
    estimators: str | Estimator | Sequence[str | Estimator] | None = None,
    **options: Any,
) -> Options:
    """Build ``Options`` from spec strings or objects."""
    chosen: tuple[Estimator, ...] = ()
    if estimators is not None or sampler is not None:
        chosen = ESTIMATORS.make_all(DEFAULT_ESTIMATORS if estimators is None else estimators)
    return Options(
        metrics=make_metrics(metrics),
        interval=INTERVALS.make(interval),
        sampler=None if sampler is None else SAMPLERS.make(sampler),
        estimators=chosen,
        **options,
    )


def name_models(models: Any) -> dict[str, Model | Scorer]:
    """Return models and scorers by the name they have in the result: a spec as it was written."""
    if isinstance(models, Mapping):
        return {name: _model_or_scorer(model) for name, model in models.items()}
    listed = models if isinstance(models, list) else [models]
    named: dict[str, Model | Scorer] = {}
    for entry in listed:
        model = _model_or_scorer(entry)
        name = str(model) if isinstance(model, Model) else type(model).__name__
        if isinstance(entry, str):
            name = str(parse_spec(entry))
        if name in named:
            raise InvalidParameter(f"model {name!r} is given twice. Leave one out or name them in a mapping.")
        named[name] = model
    if not named:
        raise InvalidParameter("at least one model is needed, got none. Use for example popularity.")
    return named


def _model_or_scorer(given: Any) -> Model | Scorer:
    if isinstance(given, str):
        return MODELS.make(given)
    return given if isinstance(given, Model) else as_scorer(given)


def evaluate_each(
    models: Mapping[str, Model | Scorer], split: Split, options: Options, *, progress: Progress = SILENT
) -> Iterator[Evaluated]:
    """Yield one model after the other, so that finished ones survive an interruption."""
    if len(split.test) == 0:
        raise InvalidData(
            f"the test part must hold at least one target, but split {split.method!r} left none. "
            "Choose another split or check the data."
        )
    validate = make_validate(split, seen=options.seen, n_threads=options.n_threads)
    for name, model in models.items():
        started = time.perf_counter()
        scorer = (
            model.fit(split.train, validate=validate, seed=options.seed, progress=progress)
            if isinstance(model, Model)
            else model
        )
        fitted = time.perf_counter()
        seconds = {"fit": fitted - started}
        estimates: list[Estimate] = []
        ranks, n_scores = None, 0
        if options.sampler is not None:
            sampled, seconds["sample"] = _timed(partial(_sample, scorer, split, name, options, progress))
            n_scores += sampled.n_scores
            found, seconds["estimate"] = _timed(partial(_estimate, name, sampled.ranks, options))
            estimates += found
        if options.sampler is None or options.check:
            ranks, seconds["rank"] = _timed(partial(_rank, scorer, split, options, progress))
            n_scores += ranks.n_users * split.train.n_items
            found, seconds["metrics"] = _timed(partial(_exact, name, ranks, options, split.n_test_users))
            estimates += found
        yield Evaluated(name, _described(model), tuple(estimates), ranks, seconds, n_scores)


def _rank(scorer: Scorer, split: Split, options: Options, progress: Progress) -> Ranks:
    return exact_ranks(scorer, split, seen=options.seen, n_threads=options.n_threads, progress=progress)


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
        progress=progress,
    )


def _estimate(name: str, ranks: SampledRanks, options: Options) -> list[Estimate]:
    chosen = Estimation(options.metrics, options.estimators, options.ties, options.level, options.seed)
    return list(estimate_each(name, ranks, chosen))


def _timed(work: Callable[[], ReturnT]) -> tuple[ReturnT, float]:
    started = time.perf_counter()
    done = work()
    return done, time.perf_counter() - started


def _described(model: Model | Scorer) -> str:
    return str(model) if isinstance(model, Model) else f"scores ({type(model).__name__})"


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


def assemble(done: Sequence[Evaluated], split: Split, options: Options) -> Result:
    """Return the result of the finished models with all that is needed to repeat it."""
    return Result(
        command="evaluate",
        estimates=tuple(estimate for model in done for estimate in model.estimates),
        data=split.summary(),
        provenance={
            "models": {model.name: model.model for model in done},
            "split": split.method,
            "ties": options.ties,
            "seen": options.seen,
            "interval": str(options.interval),
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
    )


def evaluate_trec(
    run: Path, qrels: Path, options: Options, *, relevance: int = 1, n_pool: int | None = None
) -> Result:
    """Return metrics of a TREC run against qrels; a query stands for a user.

    Parameters
    ----------
    run, qrels : files in TREC form
    options : metrics, ties and interval; ``seen`` and ``n_threads`` have no meaning here
    relevance, n_pool : see ``truerank.metrics.trec.ranks_from_run``
    """
    found = evaluate_run(
        run, qrels, options.metrics, ties=options.ties, seed=options.seed, relevance=relevance, n_pool=n_pool
    )
    return Result(
        command="trec",
        estimates=tuple(summarise(run.name, found.values, options)),
        data={"name": run.name, **found.counts},
        provenance={
            "run": str(run),
            "qrels": str(qrels),
            "relevance": relevance,
            "n_pool": n_pool,
            "ties": options.ties,
            "interval": str(options.interval),
            "seed": options.seed,
        },
    )


def data_hash(split: Split) -> str:
    """Return a digest of the pairs in each part; equal for equal data in any row order."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (split.train, split.test, split.valid):
        if part is not None:
            lists = part.by_user()
            digest.update(np.ascontiguousarray(lists.indptr).tobytes())
            digest.update(np.ascontiguousarray(lists.items).tobytes())
    return digest.hexdigest()
