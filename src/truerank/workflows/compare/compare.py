"""Compare models: differences of their metrics for all pairs, with simultaneous intervals and verdicts.

``compare`` takes ranks, or fits and ranks the models itself: on the same users and targets, and against the
same negatives where negatives are sampled. Differences are taken user by user where models have the same
users. From exact ranks the difference on the test users is known, so a verdict is about the population of
users that these come from, unless it is asked for these users alone. From sampled ranks it is about these
users, and needs more than an interval for noise: the posterior of the difference, under a prior learnt from
real recommenders, must exclude 0, or the identification bounds must.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from truerank.core.errors import MOST_RESAMPLES, InvalidParameter, suggests_arguments
from truerank.core.model import Model
from truerank.core.progress import SILENT, Progress, as_progress
from truerank.core.ranks import Ranks, SampledRanks, SeenPolicy, TiePolicy
from truerank.core.result import Result
from truerank.core.scorer import Scorer
from truerank.core.split import GroupLabels, Split
from truerank.inference.bounds.problem import Shape
from truerank.inference.estimate_interval.registry import Target
from truerank.inference.posterior.prior import SeenItems
from truerank.metrics.base import Metric
from truerank.metrics.grades import GAINS, Gain, graded_split, with_gains
from truerank.metrics.registry import make_metrics
from truerank.ranking.exact import exact_ranks
from truerank.ranking.negatives import Sampler
from truerank.ranking.sampled import sample_ranks
from truerank.ranking.samplers.registry import SAMPLERS
from truerank.split.notes import data_notes
from truerank.workflows.compare.builder import ComparisonBuilder
from truerank.workflows.compare.differences import AnyRanks, align_ranks
from truerank.workflows.compare.options import (
    CompareOptions,
    Correction,
    check_decide,
    make_compared_model,
)
from truerank.workflows.compare.result import Comparison
from truerank.workflows.fitting import (
    as_split,
    check_targets,
    fit_scorer,
    make_validate,
    name_models,
    warn_of_all_scores,
)
from truerank.workflows.options import DEFAULT_ESTIMATOR, Estimators, single_estimator
from truerank.workflows.segments.grouping import By, label_split, make_groupings


def rank_models(
    models: Mapping[str, Model | Scorer],
    split: Split,
    *,
    sampler: str | Sampler | None = None,
    seen: SeenPolicy = "remove",
    seed: int = 0,
    n_threads: int | None = None,
    progress: Progress = SILENT,
) -> dict[str, Ranks | SampledRanks]:
    """Fit models and rank their targets, against all items or against negatives that all models share.

    Parameters
    ----------
    models : by name, as ``workflows.evaluate.name_models`` returns them
    split : train and test events
    sampler : how negatives are sampled; None ranks all items. With ``shared=false`` each model has its own
    seen, seed, n_threads, progress : as in ``evaluate``
    """
    check_targets(split)
    made_sampler = None if sampler is None else SAMPLERS.make(sampler)
    validate = make_validate(split, seen=seen, n_threads=n_threads)
    ranks: dict[str, Ranks | SampledRanks] = {}
    for name, model in models.items():
        scorer = fit_scorer(model, split, validate=validate, seed=seed, progress=progress)
        if made_sampler is None:
            ranks[name] = exact_ranks(scorer, split, seen=seen, n_threads=n_threads, progress=progress)
        else:
            ranks[name] = sample_ranks(
                scorer,
                split,
                made_sampler,
                seen=seen,
                seed=seed,
                label=name,
                n_threads=n_threads,
                progress=progress,
            ).ranks
    return ranks


@suggests_arguments
def compare(
    models: Any,
    split: Any = None,
    metrics: str | Metric | Sequence[str | Metric] = "ndcg@10,recall@10",
    *,
    estimator: Estimators = DEFAULT_ESTIMATOR,
    sampler: str | Sampler | None = None,
    gain: str | Gain | None = None,
    target: Target | None = None,
    level: float = 0.95,
    correction: Correction = "max-t",
    baseline: str | None = None,
    tie_margin: float | None = None,
    posterior: bool = True,
    bounds: bool = True,
    shape: Shape | None = None,
    common_users: bool = False,
    ties: TiePolicy = "expected",
    seen: SeenPolicy = "remove",
    seed: int = 0,
    resamples: int = 2000,
    n_threads: int | None = None,
    n_test_users: int | None = None,
    by: By = None,
    decide: bool = False,
    proxy: Any = None,
    scores: str | Path | None = None,
    budget: int | str | None = None,
    price: float | None = None,
    progress: Progress | bool = SILENT,
) -> Comparison:
    """Return the differences between models with simultaneous confidence intervals and a verdict for each.

    Models with the same users are compared user by user. From exact ranks the difference on these users is
    known, and an interval says what it can be in the population that they come from. From sampled ranks a
    verdict needs a posterior interval that excludes 0, or bounds that do; otherwise the verdict is that this
    sample cannot tell.

    Parameters
    ----------
    models : exact or sampled ranks by name, or a result that has them; with a split, models as in
        ``evaluate``
    split : where models are given, train and test events, or other data as in ``evaluate``
    metrics : spec strings or objects
    estimator : estimator of the metrics from sampled ranks; exact ranks need none
    sampler : how negatives are sampled where models are given; None ranks all items
    gain : how much a target is worth, as in ``evaluate``, where models are given; ranks have their own gains
    target : what intervals and verdicts are about: the mean over the ``population`` of users that the test
        users come from, or over these ``test-users`` alone. None takes the population where all ranks are
        exact, and the test users where some are sampled: there their own ranks are the first question
    level : simultaneous confidence level of all intervals, and of all bounds
    correction : for multiple comparisons: ``max-t``, ``holm`` (with Bonferroni intervals) or ``none``
    baseline : name of the model that every other one is compared with; None compares all pairs
    tie_margin : differences up to this size count as equivalent; None where every difference matters
    posterior : whether sampled ranks get posterior intervals, under a prior of rank distributions learnt from
        real recommenders. Without them intervals are for noise only, and verdicts need bounds
    bounds : whether to compute bounds over all rank distributions that the samples allow. They have the last
        word; without posterior and bounds a verdict rests on the estimator
    shape : ``decreasing`` assumes that a rank is at most as frequent as any better one, which narrows bounds
    common_users : whether to leave out users that not all models have
    ties, seen, seed : as in ``evaluate``
    resamples : bootstrap samples of users; at least 10 must be expected beyond the level
    n_threads : threads that rank the models; None takes all cores
    n_test_users : test users from which those with exact ranks were sampled at random; None when all were
        taken
    by : groupings of users or targets, such as ``history``, one or a list; ``found.by("history")`` then has
        the differences in each group, with intervals that hold for all its groups at once. Where ranks are
        given, it needs the split that they were ranked on
    decide : whether to ask models, on the same users, only until it is known which is better on the test
        users, or that they differ by at most ``tie_margin``: for models that are slow to score, see
        ``evaluate_to_precision``. Without a baseline the best one is looked for, and others are asked no more
        once they have lost; intervals are valid whenever it stops, and share 1 - level
    proxy : with ``decide``, cheap models whose scores say which items are asked for first
    scores : with ``decide``, the file in which scores of slow models are kept, as in ``evaluate``
    budget, price : with ``decide``, what all models together may cost, and the price of 1,000 scores, as in
        ``evaluate``
    progress : where fitting, ranking, resampling and bounds are reported; True shows bars

    Raises
    ------
    InvalidData
        When models were not tested on the same targets and pools, or share only some of their users.

    Examples
    --------
    >>> a, b = Ranks.single([0, 3, 0, 7], n_pool=10), Ranks.single([0, 3, 5, 9], n_pool=10)
    >>> print(compare({"A": a, "B": b}, metrics="recall@1").differences[0].sentence)
    these 4 users cannot tell A from B in recall@1: noise. On these users the difference is exactly +0.2500...
    >>> print(compare({"A": a, "B": b}, metrics="recall@1", target="test-users").differences[0].sentence)
    A beats B in recall@1 on these 4 users, exactly: +0.2500. In the population of users: ...
    """
    progress = as_progress(progress)
    chosen = {"sampler": sampler, "gain": gain, "by": by, "shape": shape, "target": target}
    needing = {"proxy": proxy, "scores": scores, "budget": budget, "price": price}
    check_decide(decide, split, needing, chosen)
    options = CompareOptions(
        make_metrics(metrics),
        single_estimator(estimator, "compare"),
        target="population" if target is None else target,
        level=level,
        correction=correction,
        baseline=baseline,
        tie_margin=tie_margin,
        posterior=posterior,
        bounds=bounds,
        shape=shape,
        common_users=common_users,
        ties=ties,
        seed=seed,
        resamples=MOST_RESAMPLES if decide else resamples,  # a decision draws none
        by=make_groupings(by),
    )
    made_gain = None if gain is None else GAINS.make(gain)
    groups: Sequence[GroupLabels] = ()
    if options.by and _holds_ranks(models):
        groups, split = label_split(options.by, _split_of_ranks(split)), None
    if split is not None:
        _check_no_ranks(models)
        named = name_models(models)
        split = as_split(split, seed=seed, progress=progress)
        options.pairs(list(named))  # raises before any model is fitted
        if decide:
            from truerank.workflows.compare.decide import decide_models

            return decide_models(
                named,
                split,
                options,
                proxy=proxy,
                scores=scores,
                budget=budget,
                price=price,
                seen=seen,
                n_threads=n_threads,
                progress=progress,
            )
        if made_gain is not None:
            split = graded_split(split, made_gain)
        groups = label_split(options.by, split)
        if sampler is None:
            instead = "To decide which model is better takes a few percent of them, or less: use decide."
            warn_of_all_scores(named, split, instead)
        ranks: Mapping[str, AnyRanks] = rank_models(
            named,
            split,
            sampler=sampler,
            seen=seen,
            seed=seed,
            n_threads=n_threads,
            progress=progress,
        )
        if made_gain is not None:
            ranks = {name: with_gains(one, split.test) for name, one in ranks.items()}  # type: ignore[type-var]
        n_test_users = split.n_test_users
    else:
        ranks = _given_ranks(models, sampler, made_gain)
    if target is None and not all(isinstance(model_ranks, Ranks) for model_ranks in ranks.values()):
        options = replace(options, target="test-users")
    pairs = options.pairs(list(ranks))
    aligned, notes = align_ranks(ranks, options)
    if split is not None:
        notes = [*data_notes(split.summary()), *notes]
    most_users = max(model_ranks.n_users for model_ranks in aligned.values())
    if n_test_users is not None and n_test_users < most_users:
        raise InvalidParameter(
            f"n_test_users must be at least the {most_users:,} users that were ranked, got {n_test_users}. "
            "Give the number of test users that these were sampled from."
        )
    compared = [make_compared_model(name, model_ranks, options) for name, model_ranks in aligned.items()]
    known_seen: SeenItems | None = None
    if split is not None:  # items at the bottom of the list take no rank from targets
        known_seen = "kept" if seen == "keep" else "removed"
    found = ComparisonBuilder(compared, options, n_test_users, progress, known_seen).run(pairs, notes)
    if made_gain is not None:
        found = replace(found, provenance={**found.provenance, "gain": str(made_gain)})
    if not groups:
        return found
    from truerank.workflows.compare.groups import GroupComparison

    grouped = GroupComparison(aligned, pairs, options, n_test_users, progress, known_seen)
    return replace(found, segments=tuple(grouped.run(labels, found) for labels in groups))


def _holds_ranks(models: Any) -> bool:
    each = models.values() if isinstance(models, Mapping) else ()
    return isinstance(models, Result) or any(isinstance(one, (Ranks, SampledRanks)) for one in each)


def _split_of_ranks(split: Any) -> Split:
    if not isinstance(split, Split):
        raise InvalidParameter(
            "by needs the split that the ranks are of, which says who is in a group. Give it as the second "
            "argument: compare(ranks, split, by='history')."
        )
    return split


def _check_no_ranks(models: Any) -> None:
    if not isinstance(models, Result) and _holds_ranks(models):
        raise InvalidParameter(
            "ranks are compared without a split, but a second argument was given. Name the others, such as "
            "compare(ranks, metrics='ndcg@10')."
        )


def _given_ranks(models: Any, sampler: object, gain: Gain | None) -> Mapping[str, AnyRanks]:
    if isinstance(models, Result):
        models = models.ranks or models.sampled
    if not isinstance(models, Mapping) or not all(
        isinstance(ranks, (Ranks, SampledRanks)) for ranks in models.values()
    ):
        raise InvalidParameter(
            "without a split, models must be a mapping from names to exact or sampled ranks. Give a split, "
            "or ranks."
        )
    if sampler is not None:
        raise InvalidParameter(
            "sampler is used when models are ranked here, which needs a split, but ranks were given. Leave "
            "sampler out, or give models and a split."
        )
    if gain is not None:
        raise InvalidParameter(
            "gain is used when models are ranked here, which needs a split, but ranks were given, and these "
            "have the gains that they were made with. Leave gain out, or give models and a split."
        )
    return models
