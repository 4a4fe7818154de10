"""Ranks of several models in, their differences and a verdict out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from truerank.comparison.difference import Comparison
from truerank.comparison.entry import make_entry
from truerank.comparison.options import Options
from truerank.comparison.pairing import AnyRanks, align
from truerank.comparison.ranking import rank_models
from truerank.comparison.referee import Referee
from truerank.core.errors import InvalidParameter
from truerank.core.estimator import Estimator
from truerank.core.metric import Metric
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import Ranks, SampledRanks, SeenPolicy
from truerank.core.split import Split
from truerank.estimation import DEFAULT_LINEAR
from truerank.estimators import ESTIMATORS
from truerank.evaluation import name_models
from truerank.metrics import make_metrics
from truerank.ranks import Sampler


def compare(
    models: Any,
    split: Split | None = None,
    metrics: str | Metric | Sequence[str | Metric] = "ndcg@10,recall@10",
    *,
    estimator: str | Estimator = DEFAULT_LINEAR,
    sampler: str | Sampler | None = None,
    seen: SeenPolicy = "remove",
    n_threads: int | None = None,
    n_test_users: int | None = None,
    progress: Progress = SILENT,
    **options: Any,
) -> Comparison:
    """Return the differences between models, with intervals that hold together and a verdict for each.

    Models with the same users are compared user by user. From exact ranks the difference on these users is
    simply known. From sampled ranks a verdict must hold for every rank distribution that the samples allow,
    or it says that this sample cannot tell.

    Parameters
    ----------
    models : exact or sampled ranks by name; or, with a split, models as in ``evaluate``
    split : train and test events, where models are given
    metrics : spec strings or objects
    estimator : what to make of sampled ranks
    sampler, seen, n_threads : how models are ranked; None ranks all items
    n_test_users : the test users from which those with exact ranks were drawn at random; None when all were
        taken
    progress : where long jobs report
    **options : ``target``, ``level``, ``correction``, ``baseline``, ``tie_margin``, ``bounds``, ``shape``,
        ``common_users``, ``ties``, ``seed`` and ``resamples`` as in ``Options``

    Raises
    ------
    InvalidData
        When models were not tested on the same targets and pools, or share only some of their users.

    Examples
    --------
    >>> a, b = Ranks.single([0, 3, 0, 7], n_pool=10), Ranks.single([0, 3, 5, 9], n_pool=10)
    >>> found = compare({"A": a, "B": b}, metrics="recall@1")
    >>> print(found.differences[0].sentence)
    A beats B in recall@1 on these 4 users, exactly: +0.2500. Among all users like them: ...
    """
    chosen = Options(make_metrics(metrics), ESTIMATORS.make(estimator), **options)
    if split is not None:
        named = name_models(models)
        chosen.pairs(list(named))  # before the work starts
        ranks: Mapping[str, AnyRanks] = rank_models(
            named,
            split,
            sampler=sampler,
            seen=seen,
            seed=chosen.seed,
            n_threads=n_threads,
            progress=progress,
        )
        n_test_users = split.n_test_users
    else:
        ranks = _given(models, sampler)
    pairs = chosen.pairs(list(ranks))
    aligned, notes = align(ranks, chosen)
    most = max(one.n_users for one in aligned.values())
    if n_test_users is not None and n_test_users < most:
        raise InvalidParameter(
            f"n_test_users must be at least the {most:,} users that were ranked, got {n_test_users}. "
            "Correct it."
        )
    entries = [make_entry(name, one, chosen) for name, one in aligned.items()]
    return Referee(entries, chosen, n_test_users, progress).run(pairs, notes)


def _given(models: Any, sampler: object) -> Mapping[str, AnyRanks]:
    if not isinstance(models, Mapping) or not all(
        isinstance(one, (Ranks, SampledRanks)) for one in models.values()
    ):
        raise InvalidParameter(
            "without a split, models must be a mapping from names to exact or sampled ranks. Give a split, "
            "or ranks."
        )
    if sampler is not None:
        raise InvalidParameter("a sampler needs models and a split. Leave it out: ranks are given.")
    return models
