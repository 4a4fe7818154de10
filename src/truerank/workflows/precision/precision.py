"""Evaluation that stops when every confidence interval has the wanted half-width.

For models that are slow to score. Users are sampled in random order and scored until their values are exact;
a confidence sequence (valid at every sample size at once) allows stopping as soon as the interval is narrow
enough. Metrics without a cut-off may be bounded from sampled negatives of all users instead.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from truerank.core.digest import data_hash
from truerank.core.errors import InvalidParameter, suggests_arguments
from truerank.core.model import Model, Validate, interrupted_training
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import SeenPolicy, TiePolicy
from truerank.core.result import Result
from truerank.core.scorer import DenseScores, HasFactors, HasSparseRows, Scorer
from truerank.core.split import Split
from truerank.inference.estimate_interval.registry import Target
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics
from truerank.models.slow.score_file import ScoreFile
from truerank.workflows.assembly import EvaluatedModel, assemble_result
from truerank.workflows.estimate import BoundsWithMessages
from truerank.workflows.fitting import (
    check_targets,
    described,
    fit_scorer,
    make_validate,
    name_models,
    unknown_of,
    was_interrupted,
)
from truerank.workflows.options import DEFAULT_ESTIMATOR, DEFAULT_METRICS, Estimators, single_estimator
from truerank.workflows.plan.cost import RankingSeconds
from truerank.workflows.precision.budget import Budget, kept_scores, open_scores
from truerank.workflows.precision.goal import (
    DEFAULT_PROXY,
    PrecisionDesign,
    PrecisionGoal,
    PrecisionResult,
    PrecisionTrace,
)
from truerank.workflows.precision.model_values import AskedModel
from truerank.workflows.precision.part_sample import PartSample
from truerank.workflows.precision.partial_rows import PartialRows
from truerank.workflows.precision.precision_search import PrecisionSearch, evaluate_exactly
from truerank.workflows.precision.proxy_order import make_order


def evaluate_model(scorer: Scorer, split: Split, goal: PrecisionGoal, progress: Progress) -> PrecisionResult:
    """Evaluate one fitted model: exactly where its scores are cheap, else on a growing sample of users."""
    n_users = int((split.test.user_counts() > 0).sum())
    exact_scores = n_users * split.train.n_items
    is_cheap = isinstance(scorer, HasFactors | HasSparseRows | DenseScores) and goal.costs is None
    is_allowed = goal.budget is None or exact_scores <= goal.budget
    if goal.design == "exact" or (goal.design == "auto" and is_cheap and is_allowed):
        if not is_allowed:
            raise InvalidParameter(
                f"exact evaluation takes {exact_scores:,} scores, the budget is {goal.limit}. "
                "Raise the budget or use design='rows'."
            )
        why = (
            "as requested" if goal.design == "exact" else "its scores are available without calling the model"
        )
        return evaluate_exactly(scorer, split, goal, f"all items were ranked for all users: {why}.", progress)
    order, proxies = make_order(goal.proxy, split, seed=goal.seed, progress=progress)
    rows = PartialRows(
        scorer, split, cutoff=goal.cutoff, order=order, seen=goal.seen, n_threads=goal.n_threads
    )
    model = AskedModel(rows, goal.metrics, ties=goal.ties, seed=goal.seed)
    sample = PartSample(
        [model], precision=goal.precision, level=goal.row_level, target=goal.target, seed=goal.seed
    )
    return PrecisionSearch(scorer, split, goal, sample, exact_scores, proxies, progress).run()


@suggests_arguments
def evaluate_to_precision(
    models: Any,
    split: Split,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    precision: float,
    budget: int | str | None = None,
    price: float | None = None,
    scores: str | Path | None = None,
    level: float = 0.95,
    target: Target = "test-users",
    estimator: Estimators = DEFAULT_ESTIMATOR,
    design: PrecisionDesign = "auto",
    proxy: Any = DEFAULT_PROXY,
    costs: RankingSeconds | None = None,
    ties: TiePolicy = "expected",
    seen: SeenPolicy = "remove",
    seed: int = 0,
    n_threads: int | None = None,
    progress: Progress = SILENT,
) -> Result:
    r"""Return metrics whose intervals have the wanted half-width, from as few scores as that takes.

    Interrupted with Ctrl-C, it returns the models that are finished, if there are any, as ``evaluate`` does.

    Models whose scores are available without calling them (factors, sparse rows, arrays) are ranked exactly,
    which is quicker than sampling. Other models are evaluated on a growing sample:

    * Items are asked in the order of cheap models, the proxies, see ``ProxyOrder``. A user is scored until K
      items rank above the targets: the value is exact and no estimator is needed, see ``PartialRows``.
    * A look at 200 users says what is cheaper: to sample users in random order, or to score some items of
      *all* users first. That decides most misses, and gives the others a ceiling: the value they have if
      nothing else ranks above their targets. Users are then drawn among those, and random parts of their
      rows tell how far values lie below ceilings, see ``PartSample`` and ``RowParts``. For whom to go how
      deep is forecast anew after each round.
    * Metrics without a cut-off, such as AUC, may be cheaper to bound by sampled negatives of all users
      (``truerank.inference.bounds``): the bounds hold whatever the bias of the estimator is.
    * After each round the intervals are computed. Evaluation ends when all have the wanted half-width, when
      the budget does not allow one more user, or when every user is known.

    Parameters
    ----------
    models, split, metrics : as in ``evaluate``
    precision : wanted half-width of every interval, such as 0.01
    budget : what each model may cost: a number of scores (those kept from earlier runs count too, so that a
        run that was interrupted ends as one that was not), a time of this run (``600s``, ``10min``, ``2h``)
        or, with a price, money (``20usd``); None for no limit
    price : of 1,000 scores
    scores : file in which the scores of slow models (``slow_scorer``, ``http``) are kept, made where there is
        none
    level, target : of the intervals, for each metric separately. ``test-users`` is the value that exact
        evaluation would print, ``population`` its expectation for the population of users
    estimator : gives the value, not the interval, where negatives are sampled
    design : ``exact`` ranks all items for all users, ``rows`` samples users, ``negatives`` bounds the metrics
        from sampled negatives of all users; ``auto`` chooses
    proxy : cheap models whose scores say which items are asked for first: spec strings separated by commas,
        which are fitted to the train part, scorers, or a list of these. ``popularity`` alone needs no fit.
        The proxies decide what the evaluation costs, not what it finds
    costs : measured seconds (``measure_costs``), where these and not the number of scores shall decide
        between exact evaluation and sampling users
    ties, seen, seed, n_threads : as in ``evaluate``
    progress : where fitting and sampled users are reported

    Notes
    -----
    *Optional stopping.* Intervals from sampled users are a confidence sequence: they hold for all sample
    sizes at once (proof in ``ConfidenceSequence``), so they hold at the end, whatever the reason to stop: the
    precision, a number of scores, or the clock, even where slow answers and values have to do with each
    other. When the clock ends a round, no bet is placed on its users; what is known of them (values and
    ceilings) is a fact and is used as such.
    Where bounds from negatives may be used as well, which depends on the metrics alone, each kind gets half
    of 1 - level, so both hold together with probability at least ``level``, whichever is reported.

    *Termination.* Each round samples at least one of finitely many users or is the last one.

    Raises
    ------
    InvalidParameter
        When the budget allows neither complete rows of 20 users nor the K most promising items of all users.

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 1], n_users=3, n_items=3)
    >>> test = Interactions.from_codes([1, 2], [0, 2], n_users=3, n_items=3)
    >>> result = evaluate_to_precision("popularity", Split(train, test), "recall@1", precision=0.1)
    >>> result.estimate("recall@1").value, result.provenance["ways"]["popularity"]["design"]
    (0.5, 'exact')
    """
    goal = PrecisionGoal(
        make_metrics(metrics),
        precision,
        single_estimator(estimator, "evaluation to a precision"),
        design=design,
        proxy=proxy,
        costs=costs,
        limit=Budget.read(budget, price=price),
        level=level,
        target=target,
        ties=ties,
        seen=seen,
        seed=seed,
        n_threads=n_threads,
    )
    check_targets(split)
    named = name_models(models)
    validate = make_validate(split, seen=goal.seen, n_threads=goal.n_threads)
    done: list[EvaluatedModel] = []
    traces: dict[str, PrecisionTrace] = {}
    with open_scores(scores, split, named) as file:
        for name, model in named.items():
            try:
                scorer, result = _fit_and_evaluate(name, model, split, goal, validate, progress, file)
            except KeyboardInterrupt:
                if not done:
                    raise
                break
            traces[name] = result.trace
            done.append(_evaluated(name, described(model), scorer, result, goal))
            if was_interrupted(scorer):
                break
    is_exact = all(estimate.kind == "exact" for model in done for estimate in model.estimates)
    return assemble_result(
        done,
        goal,
        split.summary(),
        data_hash(split),
        split=split.method,
        interval="betting",
        sampler=None if is_exact else "users in random order",
        precision=goal.precision,
        budget=budget,
        **({} if price is None else {"price": price}),
        **({} if scores is None else {"scores": str(scores)}),
        design=goal.design,
        ways={name: trace.to_dict() for name, trace in traces.items()},
    )


def _fit_and_evaluate(
    name: str,
    model: Model | Scorer,
    split: Split,
    goal: PrecisionGoal,
    validate: Validate | None,
    progress: Progress,
    file: ScoreFile | None,
) -> tuple[Scorer, PrecisionResult]:
    started = time.perf_counter()
    scorer = fit_scorer(model, split, validate=validate, seed=goal.seed, progress=progress, keeps_part=True)
    fitted = time.perf_counter()
    with kept_scores(scorer, file, name) as told:
        result = evaluate_model(scorer, split, goal, progress)
    result.seconds.update(fit=fitted - started, rank=time.perf_counter() - fitted)
    return scorer, replace(result, trace=replace(result.trace, why=(*result.trace.why, *told)))


def _evaluated(
    name: str, spec: str, scorer: Scorer, result: PrecisionResult, goal: PrecisionGoal
) -> EvaluatedModel:
    return EvaluatedModel(
        name,
        spec,
        result.estimates(name, goal),
        None,
        result.seconds,
        result.trace.n_scores,
        BoundsWithMessages(notes=(f"{name}: {' '.join(result.trace.why)}",)),
        unknown=unknown_of(scorer),
        interrupted=interrupted_training(scorer),
    )
