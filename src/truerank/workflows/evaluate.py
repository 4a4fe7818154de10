"""Metrics of a TREC run.

One call, wherever the work is done.

One model after the other: fit, rank, measure.

From what is to be evaluated to what gives scores.

Models and scorers by the names they have in a result.

What identifies the data of a result.

From values per user to estimates.

Composer: how good a scorer is on the validation part of a split.
"""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.model import Model, Validate
from truerank.core.plugin import parse_spec
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import Ranks, SampledRanks, SeenPolicy
from truerank.core.result import Estimate, Result
from truerank.core.scorer import Scorer, as_scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray
from truerank.distributed.engine import ENGINES, Engine
from truerank.distributed.local import Gpu
from truerank.estimation.tally import Tally
from truerank.inference.estimate_interval.registry import Target
from truerank.inference.user_interval import Band
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics, values
from truerank.metrics.trec import evaluate_run
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import Sampled, sample_ranks
from truerank.ranking.samplers.registry import SAMPLERS
from truerank.split.base import sample_users
from truerank.workflows.estimate import BoundsWithMessages, Estimation, bound_metrics, estimate_each
from truerank.workflows.options import DEFAULT_METRICS, EvaluateOptions, make_options


def fit_scorer(
    model: Model | Scorer,
    split: Split,
    *,
    validate: Validate | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Scorer:
    """Return the scorer: a model is fitted on the train part, a scorer is taken as it is."""
    if isinstance(model, Model):
        return model.fit(split.train, validate=validate, seed=seed, progress=progress)
    return model


def described(model: Model | Scorer) -> str:
    """Return how a result names what was evaluated: the spec of a model, the type of a scorer."""
    return str(model) if isinstance(model, Model) else f"scores ({type(model).__name__})"


def check_targets(split: Split) -> None:
    """Raise unless the test part holds a target."""
    if len(split.test) == 0:
        raise InvalidData(
            f"the test part must hold at least one target, but split {split.method!r} left none. "
            "Choose another split or check the data."
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


def data_hash(split: Split) -> str:
    """Return a digest of the pairs in each part; equal for equal data in any row order."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (split.train, split.test, split.valid):
        if part is not None:
            lists = part.by_user()
            digest.update(np.ascontiguousarray(lists.indptr).tobytes())
            digest.update(np.ascontiguousarray(lists.items).tobytes())
    return digest.hexdigest()


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


def evaluate_trec(
    run: Path, qrels: Path, options: EvaluateOptions, *, relevance: int = 1, n_pool: int | None = None
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
        estimates=tuple(metric_estimates(run.name, found.values, options)),
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


def make_validate(
    split: Split,
    metric: str | None = None,
    *,
    seen: SeenPolicy = "remove",
    n_threads: int | None = None,
) -> Validate | None:
    """Return what early stopping watches: a metric over all items on the validation part.

    The test part is not looked at, and its items stay in the pool. None when there is no validation part.
    The metric is NDCG@10 unless another one is named (over all items where pools are smaller).

    Examples
    --------
    >>> import numpy as np
    >>> from truerank.core.interactions import Interactions
    >>> from truerank.core.scorer import as_scorer
    >>> train, valid, test = (Interactions.from_codes([0], [item], n_items=4) for item in (0, 1, 2))
    >>> validate = make_validate(Split(train, test, valid), "recall@1")
    >>> validate(as_scorer(np.array([[9.0, 3.0, 1.0, 2.0]])))
    1.0
    """
    if split.valid is None or len(split.valid) == 0:
        return None
    held_out = Split(split.train, split.valid, method=split.method)
    return partial(_mean, split=held_out, metric=metric, seen=seen, n_threads=n_threads)


def _mean(scorer: Scorer, split: Split, metric: str | None, seen: SeenPolicy, n_threads: int | None) -> float:
    ranks = exact_ranks(scorer, split, seen=seen, n_threads=n_threads)
    chosen = make_metrics(metric or f"ndcg@{min(10, int(ranks.n_pool.max()))}")
    return float(values(chosen, ranks).mean())


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
    bounded: BoundsWithMessages
    sampled: SampledRanks | None = None


def evaluate_here(
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
    **options : fields of ``EvaluateOptions``

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 1], n_users=3, n_items=3)
    >>> test = Interactions.from_codes([1, 2], [0, 2], n_users=3, n_items=3)
    >>> result = evaluate_here("popularity", Split(train, test), "recall@1")
    >>> result.value("recall@1")
    0.5
    """
    chosen = make_options(metrics, **options)
    split = take_users(split, chosen)
    done = tuple(evaluate_each(name_models(models), split, chosen, progress=progress))
    return assemble_result(done, split, chosen)


def take_users(split: Split, options: EvaluateOptions) -> Split:
    """Return the split with as many test users as the options ask for."""
    return split if options.users is None else sample_users(split, options.users, seed=options.seed)


def evaluate_each(
    models: Mapping[str, Model | Scorer],
    split: Split,
    options: EvaluateOptions,
    *,
    progress: Progress = SILENT,
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
        ranks, drawn, n_scores, bounded = None, None, 0, BoundsWithMessages()
        if options.sampler is not None:
            sampled, seconds["sample"] = _timed(partial(_sample, scorer, split, name, options, progress))
            drawn = sampled.ranks
            n_scores += sampled.n_scores
            chosen = options.estimation()
            counted = chosen.tally(sampled.ranks)
            found, seconds["estimate"] = _timed(
                partial(_estimate, name, sampled.ranks, chosen, counted, progress)
            )
            estimates += found
            if options.bounds is not False:
                bounded, seconds["bounds"] = _timed(
                    partial(
                        bound_metrics,
                        name,
                        counted,
                        chosen,
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


def _rank(scorer: Scorer, split: Split, options: EvaluateOptions, progress: Progress) -> Ranks:
    return exact_ranks(
        scorer,
        split,
        seen=options.seen,
        n_threads=options.n_threads,
        device=options.device,
        progress=progress,
    )


def _exact(name: str, ranks: Ranks, options: EvaluateOptions, n_test_users: int | None) -> list[Estimate]:
    per_user = values(options.metrics, ranks, ties=options.ties, seed=options.seed)
    return list(metric_estimates(name, per_user, options, n_test_users=n_test_users))


def _sample(scorer: Scorer, split: Split, name: str, options: EvaluateOptions, progress: Progress) -> Sampled:
    sampler = options.sampler or SAMPLERS.make("uniform")
    return sample_ranks(
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


def _estimate(
    name: str, ranks: SampledRanks, chosen: Estimation, counted: Tally, progress: Progress
) -> list[Estimate]:
    return list(estimate_each(name, ranks, chosen, counted=counted, progress=progress))


def _timed(work: Callable[[], ReturnT]) -> tuple[ReturnT, float]:
    started = time.perf_counter()
    done = work()
    return done, time.perf_counter() - started


def assemble_result(done: Sequence[Evaluated], split: Split, options: EvaluateOptions) -> Result:
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


def evaluate(
    models: Any,
    split: Split,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    engine: str | Engine | None = None,
    work_dir: str | Path | None = None,
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
    engine : where ranks are computed: None for threads of this process, ``gpu``,
        ``dask(address=tcp://host:8786)``, ``spark(master=yarn)``, ``local(threads=2)``
    work_dir : for engines with workers, a folder or URL that all of them can read
    progress : where long jobs report
    **options : ``ties``, ``seen``, ``interval``, ``level``, ``users``, ``target``, ``seed``, ``n_threads``,
        ``device``, ``sampler``, ``estimators``, ``uncertainty``, ``bounds`` and ``check`` as in
        ``truerank.workflows.options.EvaluateOptions``

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 1], n_users=3, n_items=3)
    >>> test = Interactions.from_codes([1, 2], [0, 2], n_users=3, n_items=3)
    >>> evaluate("popularity", Split(train, test), "recall@1", engine="local").value("recall@1")
    0.5
    """
    made = None if engine is None else ENGINES.make(engine)
    if work_dir is not None and (made is None or isinstance(made, Gpu)):
        raise InvalidParameter(
            "work_dir is for engines with workers. Name one, such as dask, or leave it out."
        )
    if made is None:
        return evaluate_here(models, split, metrics, progress=progress, **options)
    if isinstance(made, Gpu):
        result = evaluate_here(models, split, metrics, progress=progress, device=made.device, **options)
        return replace(result, provenance={**result.provenance, "engine": str(made)})
    from truerank.workflows.evaluate_on_engine import evaluate_on  # evaluates with functions of this module

    return evaluate_on(made, models, split, metrics, work_dir=work_dir, progress=progress, **options)
