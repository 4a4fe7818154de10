"""Evaluate until the numbers are good enough."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from truerank.core.estimate import Estimate
from truerank.core.estimator import Estimator
from truerank.core.metric import Metric
from truerank.core.model import Model, Validate
from truerank.core.progress import SILENT, Progress
from truerank.core.result import Result
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.uncertainty import Target
from truerank.estimation import DEFAULT_LINEAR
from truerank.estimators import ESTIMATORS
from truerank.evaluation import DEFAULT_METRICS, check_targets, data_hash, described, fit_scorer, name_models
from truerank.metrics import make_metrics
from truerank.planning.goal import Found, Goal
from truerank.planning.search import find
from truerank.validation import make_validate


def evaluate_to_precision(
    models: Any,
    split: Split,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    precision: float,
    budget: int | None = None,
    level: float = 0.95,
    target: Target = "test-users",
    estimator: str | Estimator = DEFAULT_LINEAR,
    progress: Progress = SILENT,
    **options: Any,
) -> Result:
    r"""Return metrics whose intervals are as narrow as asked for, from as few scores as that takes.

    Interrupted with Ctrl-C, it returns the models that are finished, if there are any.

    Scores that are at hand (factors, sparse rows, arrays) are all ranked: exact evaluation by kernels is
    quicker than choosing. A scorer that must be asked is asked for little:

    * Users come in random order. The first round takes 200 of them.
    * Each row is scored from popular to rare items and ends once K items stand above its targets: the gain is
      exact and no estimator is needed, see ``Scan``.
    * From the first round the cheapest next step is forecast: going on with single users, or a look at some
      popular items of *all* of them, which settles most, and then single users among those left open.
    * Metrics of the whole list, such as AUC, may be cheaper to bound by sampled negatives of all users
      (``truerank.bounds``): the bounds hold whatever the estimator is off by.
    * After each round the intervals are looked at. It ends when all have the wanted half-width, when the
      budget does not allow one more row, or when every user is known.

    Parameters
    ----------
    models, split, metrics : as in ``evaluate``
    precision : the half-width that every interval shall have, such as 0.01
    budget : scores that may be computed for each model
    level, target : of the intervals; each metric has its own. ``test-users`` is the value exact evaluation
        would print, ``population`` that of all users like these
    estimator : gives the value, not the interval, where negatives are sampled
    progress : where long jobs report
    **options : ``design`` (``auto``, ``exact``, ``rows`` or ``negatives``), ``costs`` (seconds by ``measure``
        that decide between exact and rows), ``ties``, ``seen``, ``seed``, ``n_threads``

    Notes
    -----
    *Why looking often is allowed.* Intervals from rows hold after every single user at once (proof in
    ``Draws``), so they hold at the end, whatever ended it: a narrow interval, the budget, or chance. No level
    is spent on rounds. Where bounds from negatives may be used beside them, which depends on the metrics
    alone, each gets half of the error: that of the bounds and that of the rows add up to 1 - level at most,
    whichever of them is reported in the end, or both.

    *Ends.* Each round draws at least one of finitely many users or is the last one.

    Raises
    ------
    InvalidParameter
        When the budget does not allow a first round of 20 users.

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 1], n_users=3, n_items=3)
    >>> test = Interactions.from_codes([1, 2], [0, 2], n_users=3, n_items=3)
    >>> found = evaluate_to_precision("popularity", Split(train, test), "recall@1", precision=0.1)
    >>> found.estimate("recall@1").value, found.provenance["ways"]["popularity"]["design"]
    (0.5, 'exact')
    """
    goal = Goal(
        make_metrics(metrics),
        precision,
        budget,
        level,
        target,
        ESTIMATORS.make(estimator),
        **options,
    )
    check_targets(split)
    named = name_models(models)
    validate = make_validate(split, seen=goal.seen, n_threads=goal.n_threads)
    found: dict[str, Found] = {}
    for name, model in named.items():
        try:
            found[name] = _evaluate_one(model, split, goal, validate, progress)
        except KeyboardInterrupt:
            if not found:
                raise
            break
    specs = {name: described(model) for name, model in named.items() if name in found}
    return _assemble(found, specs, split, goal)


def _evaluate_one(
    model: Model | Scorer, split: Split, goal: Goal, validate: Validate | None, progress: Progress
) -> Found:
    started = time.perf_counter()
    scorer = fit_scorer(model, split, validate=validate, seed=goal.seed, progress=progress)
    fitted = time.perf_counter()
    found = find(scorer, split, goal, progress)
    found.seconds.update(fit=fitted - started, rank=time.perf_counter() - fitted)
    return found


def _assemble(found: dict[str, Found], specs: dict[str, str], split: Split, goal: Goal) -> Result:
    estimates = [
        Estimate(
            model=name,
            metric=str(metric),
            value=float(one.value[column]),
            low=float(one.limits[column, 0]),
            high=float(one.limits[column, 1]),
            level=goal.level,
            kind=one.kind,
            method=one.method,
            estimator=one.estimator,
            n_users=one.way.n_users,
            n_negatives=one.n_negatives,
            target=goal.target,
        )
        for name, one in found.items()
        for column, metric in enumerate(goal.metrics)
    ]
    is_exact = all(estimate.kind == "exact" for estimate in estimates)
    return Result(
        command="evaluate",
        estimates=tuple(estimates),
        notes=tuple(f"{name}: {' '.join(one.way.why)}" for name, one in found.items()),
        data=split.summary(),
        provenance={
            "models": specs,
            "split": split.method,
            "ties": goal.ties,
            "seen": goal.seen,
            "interval": "betting",
            "sampler": None if is_exact else "users in random order",
            "precision": goal.precision,
            "budget": goal.budget,
            "target": goal.target,
            "design": goal.design,
            "ways": {name: one.way.to_dict() for name, one in found.items()},
            "seed": goal.seed,
            "data_hash": data_hash(split),
            "versions": {"python": platform.python_version(), "numpy": np.__version__},
            "seconds": {name: one.seconds for name, one in found.items()},
            "scores_computed": {name: one.way.n_scores for name, one in found.items()},
        },
    )
