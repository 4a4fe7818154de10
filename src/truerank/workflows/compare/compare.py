"""Ranks of several models in, their differences and a verdict out.

Differences of all pairs with intervals, bounds and verdicts.

Models and a split in, ranks on the same users, targets and negatives out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtr

from truerank.core.errors import InvalidParameter
from truerank.core.model import Model
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import Ranks, SampledRanks, SeenPolicy
from truerank.core.result import Estimate
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.estimation.base import Estimator
from truerank.estimation.corrections.priors import fitted_prior
from truerank.estimation.registry import ESTIMATORS
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics
from truerank.ranking.exact import exact_ranks
from truerank.ranking.negatives import Sampler
from truerank.ranking.sampled import sample_ranks
from truerank.ranking.samplers.registry import SAMPLERS
from truerank.workflows.compare.bounds import Adviser, ModelBounds, model_bounds
from truerank.workflows.compare.differences import (
    AnyRanks,
    Contrasts,
    Family,
    align_ranks,
    make_family,
    paired_differences,
    pairing,
)
from truerank.workflows.compare.options import ComparedModel, CompareOptions, make_entry
from truerank.workflows.compare.result import (
    ROUNDING,
    Circumstance,
    Comparison,
    Difference,
    Strength,
    Verdict,
    judge,
    sentence,
)
from truerank.workflows.estimate import DEFAULT_LINEAR
from truerank.workflows.evaluate import check_targets, fit_scorer, make_validate, name_models


@dataclass(frozen=True, eq=False)
class Referee:
    """Who puts numbers and words together.

    Parameters
    ----------
    entries : the models
    options : the rules
    n_test_users : from which those with exact ranks were drawn; None when all were taken
    progress : where long jobs report
    """

    entries: Sequence[ComparedModel]
    options: CompareOptions
    n_test_users: int | None
    progress: Progress

    def run(self, pairs: Sequence[tuple[int, int]], notes: list[str]) -> Comparison:
        """Compare the pairs."""
        options = self.options
        found = paired_differences(self.entries, pairs, options, progress=self.progress)
        family = make_family(found, level=options.level, correction=options.correction)
        limits: ModelBounds | None = None
        if options.bounds and any(entry.found is not None for entry in self.entries):
            limits = model_bounds(self.entries, options, progress=self.progress)
            notes = [*notes, *(f"no bounds for {name}: {why}" for name, why in limits.reasons.items())]
        adviser = None if limits is None else Adviser(self.entries, limits, options)
        # what bounds and noise hold together: half of 1 - level each, and all pairs in any case
        joint = make_family(
            found,
            level=(1 + options.level) / 2,
            correction="max-t" if options.correction == "max-t" else "holm",
        )
        differences = tuple(
            self._difference(found, family, joint, adviser, row, pair, column)
            for row, pair in enumerate(pairs)
            for column in range(len(options.metrics))
        )
        return Comparison(
            self._estimates(), differences, (*notes, *self._notes(differences)), self._provenance()
        )

    def _difference(
        self,
        found: Contrasts,
        family: Family,
        joint: Family,
        adviser: Adviser | None,
        row: int,
        pair: tuple[int, int],
        column: int,
    ) -> Difference:
        options, place = self.options, (row, column)
        a, b = pair
        first, second = self.entries[a], self.entries[b]
        is_exact = first.found is None and second.found is None
        value, n_users = float(found.value[place]), int(found.n_users[row])
        if is_exact and abs(value) <= ROUNDING:
            value = 0.0
        factor = self._factor(first, second) if options.target == "test-users" else 1.0
        low, high = _scaled(value, float(family.low[place]), float(family.high[place]), factor)
        bounds = None
        if adviser is not None and not is_exact:
            ends = adviser.limits.of_difference(a, b, (joint.low[row], joint.high[row]))
            if np.isfinite(ends[0][column]):
                bounds = float(ends[0][column]), float(ends[1][column])
        verdict, strength, alone = judge(
            (low, high),
            bounds,
            margin=options.tie_margin,
            is_exact=is_exact,
            is_population=options.target == "population" or self._is_subset,
        )
        if is_exact and factor > 0 and strength is Strength.EXACT:
            strength = Strength.USERS
        kin = pairing(first.ranks, second.ranks)
        needed, sought = None, False
        if adviser is not None and bounds is not None and verdict is Verdict.UNRESOLVED:
            sought = bounds[0] <= value <= bounds[1] and abs(value) > 0
            needed = adviser.negatives(a, b, options.metrics[column], abs(value)) if sought else None
        sizes = {entry.n_negatives for entry in (first, second) if entry.found is not None}
        one = Difference(
            first=first.name,
            second=second.name,
            metric=str(options.metrics[column]),
            value=value,
            low=_number(low),
            high=_number(high),
            level=options.level,
            target=options.target,
            probability=_number(
                _probability(value, float(found.error[place]), n_users, factor, family, place)
            ),
            population_low=_number(family.low[place]),
            population_high=_number(family.high[place]),
            p_value=_number(family.p_value[place]),
            p_adjusted=_number(family.p_adjusted[place]),
            p_randomised=_number(found.p_randomised[place]),
            bound_low=None if bounds is None else bounds[0],
            bound_high=None if bounds is None else bounds[1],
            method=self._method(first, second, is_paired=kin.is_paired, is_known=is_exact and factor == 0),
            pairing=str(kin),
            verdict=verdict,
            strength=strength,
            by_interval=alone,
            n_users=n_users,
            needed_negatives=needed,
        )
        at = Circumstance(
            estimator="" if is_exact else str(options.estimator),
            cutoff=options.metrics[column].cutoff,
            n_negatives=sizes.pop() if len(sizes) == 1 else None,
            margin=options.tie_margin,
            sought=sought,
        )
        return replace(one, sentence=sentence(one, at))

    @property
    def _is_subset(self) -> bool:
        """Whether some model's users are only part of the test users."""
        drawn = [entry.found.ranks.design.n_test_users for entry in self.entries if entry.found is not None]
        return any(
            total is not None and total > len(entry.users)
            for entry in self.entries
            for total in (self.n_test_users, *drawn)
        )

    def _factor(self, first: ComparedModel, second: ComparedModel) -> float:
        """Return which part of the users' error is left for the target: none where all items were ranked.

        The mean over n users drawn from N is off by sqrt(1 - n/N) of what it is off from all users like them.
        Sampled ranks keep the whole, which is too much.
        """
        if first.found is not None or second.found is not None:
            return 1.0
        if self.n_test_users is None:
            return 0.0
        n_users = min(len(first.users), len(second.users))
        return float(np.sqrt(max(1 - n_users / self.n_test_users, 0.0)))

    def _method(self, first: ComparedModel, second: ComparedModel, *, is_paired: bool, is_known: bool) -> str:
        if is_known:
            return "exact"
        options = self.options
        if first.per_user is None or second.per_user is None:
            kind = "joint bootstrap" if is_paired else "independent bootstraps"
        else:
            kind = "differences per user" if is_paired else "independent means"
        words = [kind, options.correction if options.correction != "none" else "no correction"]
        if first.found is not None or second.found is not None:
            if fitted_prior(options.estimator) is not None:
                words.append("prior taken as known")
            words.append("ignores bias")
        return ", ".join(words)

    def _notes(self, differences: Sequence[Difference]) -> list[str]:
        notes = []
        apart = [f"{one.first} and {one.second}" for one in differences if one.pairing == "independent users"]
        if apart:
            pairs = ", ".join(dict.fromkeys(apart))
            notes.append(f"{pairs} have no users in common: they are compared as independent samples.")
        is_sampled = any(entry.found is not None for entry in self.entries)
        if is_sampled and self.options.target == "test-users":
            notes.append(
                "intervals hold the spread of users too, so for these users they are wider than needed."
            )
        return notes

    def _estimates(self) -> tuple[Estimate, ...]:
        return tuple(
            Estimate(
                model=entry.name,
                metric=str(metric),
                value=float(entry.value[column]),
                kind="exact" if entry.found is None else "estimate",
                estimator="exact" if entry.found is None else str(self.options.estimator),
                n_users=len(entry.users),
                n_negatives=entry.n_negatives,
            )
            for entry in self.entries
            for column, metric in enumerate(self.options.metrics)
        )

    def _provenance(self) -> dict[str, Any]:
        options = self.options
        return {
            "metrics": [str(metric) for metric in options.metrics],
            "estimator": str(options.estimator),
            "target": options.target,
            "level": options.level,
            "correction": options.correction,
            "baseline": options.baseline,
            "tie_margin": options.tie_margin,
            "bounds": options.bounds,
            "shape": options.shape,
            "ties": options.ties,
            "resamples": options.resamples,
            "seed": options.seed,
            "n_test_users": self.n_test_users,
        }


def _scaled(value: float, low: float, high: float, factor: float) -> tuple[float, float]:
    """Return the ends drawn towards the value."""
    if factor == 0:
        return value, value
    return value - factor * (value - low), value + factor * (high - value)


def _probability(
    value: float, error: float, n_users: int, factor: float, family: Family, place: tuple[int, int]
) -> float:
    """Return how probable it is that the first is better: known, or by Student's law."""
    if factor == 0:
        return 0.5 + 0.5 * float(np.sign(value))
    if factor == 1 or not error > 0:
        return float(family.probability[place])
    return float(stdtr(n_users - 1, value / (factor * error)))


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


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
    models : by name, as ``evaluation.name_models`` returns them
    split : train and test events
    sampler : how negatives are drawn; None ranks all items. With ``shared=false`` each model has its own
    seen, seed, n_threads, progress : as in ``evaluate``
    """
    check_targets(split)
    chosen = None if sampler is None else SAMPLERS.make(sampler)
    validate = make_validate(split, seen=seen, n_threads=n_threads)
    ranks: dict[str, Ranks | SampledRanks] = {}
    for name, model in models.items():
        scorer = fit_scorer(model, split, validate=validate, seed=seed, progress=progress)
        if chosen is None:
            ranks[name] = exact_ranks(scorer, split, seen=seen, n_threads=n_threads, progress=progress)
        else:
            ranks[name] = sample_ranks(
                scorer,
                split,
                chosen,
                seen=seen,
                seed=seed,
                label=name,
                n_threads=n_threads,
                progress=progress,
            ).ranks
    return ranks


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
        ``common_users``, ``ties``, ``seed`` and ``resamples`` as in ``CompareOptions``

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
    chosen = CompareOptions(make_metrics(metrics), ESTIMATORS.make(estimator), **options)
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
    aligned, notes = align_ranks(ranks, chosen)
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
