"""Evaluation of models: fit, rank and measure, one model after the other.

``evaluate`` is what ``truerank.evaluate`` and the command call. Where the work is done (threads, a GPU, Dask,
Spark) and how much of it (all items, sampled negatives, as few scores as a precision needs) are arguments;
the numbers do not depend on where.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from truerank.core.digest import data_hash, file_hash
from truerank.core.errors import Interrupted, suggests_arguments
from truerank.core.model import Model, interrupted_training
from truerank.core.progress import SILENT, Progress, as_progress
from truerank.core.provenance import versions
from truerank.core.ranks import SampledRanks, SeenPolicy, TiePolicy
from truerank.core.result import Estimate, Result
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.distributed.engine import Engine
from truerank.inference.estimate_interval.registry import Target, Uncertainty
from truerank.inference.user_interval import Interval
from truerank.metrics.grades import Gain, graded_split, with_gains
from truerank.metrics.registry import values
from truerank.metrics.trec import evaluate_run
from truerank.ranking.exact import exact_ranks
from truerank.ranking.gpu.choice import paying_device, usable_device
from truerank.ranking.negatives import Sampler
from truerank.ranking.sampled import sample_ranks
from truerank.ranking.samplers.registry import SAMPLERS
from truerank.split.base import sample_users
from truerank.workflows.assembly import EvaluatedModel, assemble_result, metric_estimates
from truerank.workflows.estimate import BoundsWithMessages, bound_metrics, estimate_each
from truerank.workflows.fitting import (
    as_split,
    check_targets,
    described,
    fit_scorer,
    make_validate,
    name_models,
    unknown_of,
    warn_of_all_scores,
    was_interrupted,
)
from truerank.workflows.options import (
    DEFAULT_METRICS,
    Estimators,
    EvaluateOptions,
    Keep,
    Metrics,
    make_options,
)
from truerank.workflows.segments.grouping import By, label_split
from truerank.workflows.segments.values import evaluated_segments


@suggests_arguments
def evaluate(
    models: Any,
    split: Any,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    sampler: str | Sampler | None = None,
    estimators: Estimators | None = None,
    uncertainty: str | Uncertainty = "auto",
    bounds: bool | None = False,
    check: bool = False,
    precision: float | None = None,
    budget: int | str | None = None,
    price: float | None = None,
    scores: str | Path | None = None,
    gain: str | Gain | None = None,
    proxy: Any = None,
    ties: TiePolicy = "expected",
    seen: SeenPolicy = "remove",
    interval: str | Interval = "auto",
    level: float = 0.95,
    target: Target = "test-users",
    users: int | float | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    device: str = "cpu",
    engine: str | Engine | None = None,
    work_dir: str | Path | None = None,
    keep: Keep = "auto",
    rows: int | None = None,
    by: By = None,
    progress: Progress | bool = SILENT,
) -> Result:
    """Return metrics of one or several models on the test part of a split.

    Every item of each user's pool is ranked, so the values are exact; the intervals say how far they may lie
    from the values of the population that the test users are a sample of. With a ``sampler`` only sampled
    items are ranked and the values are estimates; with a ``precision`` a slow scorer is asked for as few
    scores as the intervals need. Interrupted with Ctrl-C, it returns the models that are finished; a training
    that was interrupted ends with its best epoch and is the last one. A warning `Interrupted`, the notes and
    the provenance say so.

    Parameters
    ----------
    models : a spec string, a model, the file of one, something with scores (see ``as_scorer``), a list of
        these, or a mapping from names to these
    split : train, test and perhaps valid events; or interactions, a data frame, a sparse matrix, a file or
        the name of a data set, which are split by leave-last-out (without times leave-one-out), with a
        warning that says so
    metrics : spec strings (a comma-separated text or a list) or metric objects
    sampler : how negatives are sampled, such as ``uniform(m=99)``; None ranks all items
    estimators : what to make of sampled ranks; None takes ``smooth``
    uncertainty : how intervals of estimates are made
    bounds : whether to add, for sampled ranks, all values that they allow (identification bounds); None adds
        them where that does not take long
    check : whether to rank all items too, and show the exact values beside the estimates
    precision : half-width that every interval shall have, such as 0.01; the users and items that are scored
        are then chosen by the evaluation itself, see ``truerank.workflows.precision.precision``
    budget : with ``precision``, what each model may cost: a number of scores, a time (``600s``, ``10min``,
        ``2h``) or, with a ``price``, money (``20usd``)
    price : with ``precision``, what 1,000 scores cost, to show what was spent and what is left
    scores : with ``precision``, the file in which scores of slow models (``slow_scorer``, ``http``) are kept,
        so that no score is asked for twice, by this run or another one
    gain : how much a target is worth to ``ndcg`` and ``err``: ``rating`` takes the rating of the test event,
        ``rating(form=exp2)`` 2^rating - 1; events of gain 0 are no targets. None counts all targets alike
    proxy : with ``precision``, cheap models that say which items are asked for first, such as ``item-knn``,
        or scorers; None takes ``ials(factors=32),item-knn``. They decide the cost, not what is found
    ties : how equal scores count: ``expected``, ``best``, ``worst`` or ``random``
    seen : what happens to items of train and valid: ``remove`` from the pool, put at its ``bottom``, ``keep``
    interval, level : the interval over users and its confidence level
    target : what intervals of estimates are for: the value of all ``test-users`` or of the ``population``
    users : how many test users to take, or which fraction of them, sampled at random; None takes all
    seed : of everything random
    n_threads : threads for ranking; None takes all cores
    device : ``cuda`` ranks models with factors or item-item matrices on a GPU where that pays
    engine : where ranks are computed: None for threads of this process, ``gpu`` or within a limit
        ``gpu(memory=2000000000)``, ``dask(address=tcp://host:8786)``, ``spark(master=yarn)``,
        ``local(threads=2)``
    work_dir : for engines with workers, a folder or URL that all of them can read
    keep : for engines with workers, what comes back from them: ``ranks``, or ``sums`` of each metric;
        ``auto`` takes sums above 20 million users
    rows : for engines with workers, users per task; None takes what suits the catalogue
    by : groupings of users or targets, such as ``history`` or ``popularity``, one or a list; the values of
        each group are then in ``result.by("history")``
    progress : where long jobs report; True shows bars

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 1], n_users=3, n_items=3)
    >>> test = Interactions.from_codes([1, 2], [0, 2], n_users=3, n_items=3)
    >>> evaluate("popularity", Split(train, test), "recall@1").value("recall@1")
    0.5
    >>> evaluate("popularity", Split(train, test), "recall@1", engine="local").value("recall@1")
    0.5
    """
    progress = as_progress(progress)
    options = make_options(
        metrics,
        sampler=sampler,
        estimators=estimators,
        uncertainty=uncertainty,
        bounds=bounds,
        check=check,
        precision=precision,
        budget=budget,
        price=price,
        scores=scores,
        gain=gain,
        proxy=proxy,
        ties=ties,
        seen=seen,
        interval=interval,
        level=level,
        target=target,
        users=users,
        seed=seed,
        n_threads=n_threads,
        device=device,
        engine=engine,
        work_dir=work_dir,
        keep=keep,
        rows=rows,
        by=by,
    )
    named = name_models(models)
    return run_evaluation(named, as_split(split, seed=seed, progress=progress), options, progress=progress)


def run_evaluation(
    models: Mapping[str, Model | Scorer],
    split: Split,
    options: EvaluateOptions,
    *,
    progress: Progress = SILENT,
) -> Result:
    """Return what ``evaluate`` returns, for named models and options that are checked already."""
    if options.precision is not None:
        result = _evaluate_to_precision(models, split, options, progress)
        unfinished = _unfinished(models, result.models())
    else:
        split = with_grades(split, options.gain)
        groups = label_split(options.by, split)
        split = take_users(split, options)
        if options.sampler is None or options.check:
            warn_of_all_scores(models, split, "A precision of 0.01 takes a few percent of them, or less.")
        finished = _finished(_evaluated(models, split, options, progress))
        unfinished = _unfinished(models, [model.name for model in finished])
        result = assemble_result(
            finished,
            options,
            split.summary(),
            data_hash(split),
            split=split.method,
            **options.provenance(),
        )
        if groups:
            n_test_users = split.n_test_users
            segments = evaluated_segments(
                finished, groups, options, n_test_users=n_test_users, progress=progress
            )
            result = replace(result, segments=segments)
    if not unfinished:
        return result
    provenance = {**result.provenance, "unfinished": unfinished}
    return replace(result, notes=(_interruption(models, unfinished), *result.notes), provenance=provenance)


def _unfinished(models: Mapping[str, Model | Scorer], finished: Collection[str]) -> list[str]:
    """Return the models that are missing because of Ctrl-C, and warn of them."""
    missing = [name for name in models if name not in finished]
    if missing:
        warnings.warn(_interruption(models, missing), Interrupted, stacklevel=4)
    return missing


def _interruption(models: Mapping[str, Model | Scorer], missing: Collection[str]) -> str:
    return f"interrupted: {len(models) - len(missing)} of {len(models)} models were evaluated."


def _evaluated(
    models: Mapping[str, Model | Scorer], split: Split, options: EvaluateOptions, progress: Progress
) -> Iterator[EvaluatedModel]:
    if not options.has_workers:
        return evaluate_each(models, split, options, progress=progress)
    from truerank.workflows.evaluate_on_engine import evaluate_each_on

    return evaluate_each_on(models, split, options, progress=progress)


def _evaluate_to_precision(
    models: Mapping[str, Model | Scorer], split: Split, options: EvaluateOptions, progress: Progress
) -> Result:
    from truerank.workflows.precision.goal import DEFAULT_PROXY
    from truerank.workflows.precision.precision import evaluate_to_precision

    return evaluate_to_precision(
        models,
        split,
        options.metrics,
        precision=options.precision or 0.0,
        budget=options.budget,
        price=options.price,
        scores=options.scores,
        proxy=DEFAULT_PROXY if options.proxy is None else options.proxy,
        level=options.level,
        target=options.target,
        ties=options.ties,
        seen=options.seen,
        seed=options.seed,
        n_threads=options.n_threads,
        progress=progress,
    )


def _finished(evaluated: Iterator[EvaluatedModel]) -> list[EvaluatedModel]:
    """Return the evaluated models; those that are finished survive Ctrl-C."""
    done: list[EvaluatedModel] = []
    try:
        for model in evaluated:
            done.append(model)
    except KeyboardInterrupt:
        if not done:
            raise
    return done


def with_grades(split: Split, gain: Gain | None) -> Split:
    """Return the split with gains of targets as their ratings, where there are any."""
    return split if gain is None else graded_split(split, gain)


def take_users(split: Split, options: EvaluateOptions) -> Split:
    """Return the split with as many test users as the options ask for."""
    return split if options.users is None else sample_users(split, options.users, seed=options.seed)


def evaluate_each(
    models: Mapping[str, Model | Scorer],
    split: Split,
    options: EvaluateOptions,
    *,
    progress: Progress = SILENT,
) -> Iterator[EvaluatedModel]:
    """Yield one model after the other, so that finished ones survive an interruption."""
    check_targets(split)
    device = usable_device(options.device)
    validate = make_validate(split, seen=options.seen, n_threads=options.n_threads)
    for name, model in models.items():
        seconds: dict[str, float] = {}
        with _timed(seconds, "fit"):
            scorer = fit_scorer(
                model, split, validate=validate, seed=options.seed, progress=progress, keeps_part=True
            )
        estimates: list[Estimate] = []
        ranks, sample, per_user, n_scores, bounded = None, None, None, 0, BoundsWithMessages()
        if options.sampler is not None:
            with _timed(seconds, "sample"):
                sample, n_scores = _sample(scorer, split, name, options, device, progress)
            chosen = options.estimation()
            counted = chosen.tally(sample)
            with _timed(seconds, "estimate"):
                estimates += estimate_each(name, sample, chosen, counted=counted, progress=progress)
            if options.bounds is not False:
                with _timed(seconds, "bounds"):
                    is_limited = options.bounds is None
                    bounded = bound_metrics(name, counted, chosen, is_limited=is_limited, progress=progress)
        if options.sampler is None or options.check:
            with _timed(seconds, "rank"):
                ranks = exact_ranks(
                    scorer,
                    split,
                    seen=options.seen,
                    n_threads=options.n_threads,
                    device=paying_device(
                        device, scorer, split, name=name, n_negatives=None, n_threads=options.n_threads
                    ),
                    memory=options.memory,
                    progress=progress,
                )
            if options.gain is not None:
                ranks = with_gains(ranks, split.test)
            n_scores += ranks.n_users * split.train.n_items
            with _timed(seconds, "metrics"):
                per_user = values(options.metrics, ranks, ties=options.ties, seed=options.seed)
                estimates += metric_estimates(name, per_user, options, n_test_users=split.n_test_users)
        yield EvaluatedModel(
            name,
            described(model),
            tuple(estimates),
            ranks,
            seconds,
            n_scores,
            bounded,
            sample,
            per_user,
            unknown_of(scorer),
            interrupted_training(scorer),
        )
        if was_interrupted(scorer):
            return


def _sample(
    scorer: Scorer, split: Split, name: str, options: EvaluateOptions, device: str, progress: Progress
) -> tuple[SampledRanks, int]:
    """Return sampled ranks, and how many scores they took."""
    sampler = options.sampler or SAMPLERS.make("uniform")
    n_negatives = getattr(sampler, "m", None) or getattr(sampler, "start", 100)
    sampled = sample_ranks(
        scorer,
        split,
        sampler,
        seen=options.seen,
        seed=options.seed,
        label=name,
        n_threads=options.n_threads,
        device=paying_device(
            device, scorer, split, name=name, n_negatives=n_negatives, n_threads=options.n_threads
        ),
        memory=options.memory,
        progress=progress,
    )
    ranks = sampled.ranks if options.gain is None else with_gains(sampled.ranks, split.test)
    return ranks, sampled.n_scores


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Record how long a stage took."""
    started = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - started


def evaluate_trec(
    run: Path, qrels: Path, options: EvaluateOptions, *, relevance: int = 1, n_pool: int | None = None
) -> Result:
    """Return metrics of a TREC run against qrels; a query stands for a user.

    Parameters
    ----------
    run, qrels : files in TREC form
    options : metrics, gain, ties and interval; ``seen`` and ``n_threads`` have no meaning here
    relevance, n_pool : see ``truerank.metrics.trec.ranks_from_run``
    """
    measured = evaluate_run(
        run,
        qrels,
        options.metrics,
        ties=options.ties,
        seed=options.seed,
        relevance=relevance,
        n_pool=n_pool,
        gain=options.gain,
    )
    return Result(
        command="trec",
        estimates=tuple(metric_estimates(run.name, measured.values, options)),
        data={"name": run.name, **measured.counts},
        provenance={
            "run": str(run),
            "qrels": str(qrels),
            "relevance": relevance,
            "n_pool": n_pool,
            **({} if options.gain is None else {"gain": str(options.gain)}),
            "ties": options.ties,
            "interval": str(options.interval),
            "seed": options.seed,
            "data_hash": {"run": file_hash(run), "qrels": file_hash(qrels)},
            "versions": versions(),
        },
    )
