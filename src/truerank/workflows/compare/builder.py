"""Differences between models that were ranked: intervals, bounds and a verdict for each pair and metric.

The steps are those of their own modules (paired differences, simultaneous intervals, posteriors, bounds);
here they meet: which interval a difference gets, what the verdict rests on, and which words say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtr

from truerank.core.progress import Progress
from truerank.core.provenance import ranks_hash, versions
from truerank.core.result import Estimate
from truerank.estimation.corrections.priors import fitted_prior
from truerank.inference.posterior.prior import SeenItems
from truerank.workflows.compare.bounds import ModelBounds, NegativesNeeded, model_bounds
from truerank.workflows.compare.differences import (
    PairedDifferences,
    SimultaneousIntervals,
    count_wins,
    paired_differences,
    pairing,
    simultaneous_intervals,
    users_needed,
)
from truerank.workflows.compare.options import ComparedModel, CompareOptions
from truerank.workflows.compare.posterior import (
    PosteriorDifferences,
    is_prior_decisive,
    posterior_differences,
)
from truerank.workflows.compare.result import (
    ROUNDING,
    Comparison,
    Difference,
    SentenceContext,
    Strength,
    Verdict,
    decide_verdict,
    verdict_sentence,
)


@dataclass(frozen=True, eq=False)
class ComparisonBuilder:
    """Computes differences, intervals, bounds and verdicts of all pairs and assembles the result.

    Parameters
    ----------
    models : their values, and ranks that fit together (see ``align_ranks``)
    options : metrics, levels and rules
    n_test_users : test users from which those with exact ranks were sampled; None when all were taken
    progress : where resampling, posteriors and bounds are reported
    seen : whether seen items stay in the list; None where this is not known
    """

    models: Sequence[ComparedModel]
    options: CompareOptions
    n_test_users: int | None
    progress: Progress
    seen: SeenItems | None = None

    def run(self, pairs: Sequence[tuple[int, int]], notes: list[str]) -> Comparison:
        """Compare the pairs, given by the indices of their models."""
        options = self.options
        paired = paired_differences(self.models, pairs, options, progress=self.progress)
        intervals = simultaneous_intervals(paired, level=options.level, correction=options.correction)
        is_sampled = any(model.estimated is not None for model in self.models)
        posterior: PosteriorDifferences | None = None
        if options.posterior and is_sampled:
            posterior = posterior_differences(
                self.models,
                pairs,
                options,
                seen=self.seen,
                n_test_users=self.n_test_users,
                progress=self.progress,
            )
            notes = [
                *notes,
                *(
                    f"{name}: {why}; its differences have intervals for noise only, and verdicts need bounds."
                    for name, why in posterior.reasons.items()
                ),
            ]
        bounds: ModelBounds | None = None
        if options.bounds and is_sampled:
            bounds = model_bounds(self.models, options, progress=self.progress)
            notes = [*notes, *(f"no bounds for {name}: {why}" for name, why in bounds.reasons.items())]
        negatives_needed = None if bounds is None else NegativesNeeded(self.models, bounds, options)
        # intervals that go into the bounds: half of 1 - level is theirs, over all pairs in any case
        joint = simultaneous_intervals(
            paired,
            level=(1 + options.level) / 2,
            correction="max-t" if options.correction == "max-t" else "holm",
        )
        differences = tuple(
            self._difference(paired, intervals, joint, posterior, negatives_needed, row, pair, column)
            for row, pair in enumerate(pairs)
            for column in range(len(options.metrics))
        )
        return Comparison(
            self._estimates(), differences, (*notes, *self._notes(differences)), self._provenance()
        )

    def _difference(
        self,
        paired: PairedDifferences,
        intervals: SimultaneousIntervals,
        joint: SimultaneousIntervals,
        posterior: PosteriorDifferences | None,
        negatives_needed: NegativesNeeded | None,
        row: int,
        pair: tuple[int, int],
        column: int,
    ) -> Difference:
        options, cell = self.options, (row, column)
        a, b = pair
        first, second = self.models[a], self.models[b]
        is_exact = first.estimated is None and second.estimated is None
        value, n_users = float(paired.value[cell]), int(paired.n_users[row])
        if is_exact and abs(value) <= ROUNDING:
            value = 0.0
        is_population = options.target == "population" or self._is_subset
        factor = self._error_factor(first, second) if options.target == "test-users" else 1.0
        noise = _scaled(value, float(intervals.low[cell]), float(intervals.high[cell]), factor)
        low, high = noise
        probability = _probability(
            value, float(paired.error[cell]), n_users, factor, float(intervals.probability[cell])
        )
        bounds = None
        if negatives_needed is not None and not is_exact:
            lower, upper = negatives_needed.bounds.of_difference(a, b, (joint.low[row], joint.high[row]))
            if np.isfinite(lower[column]):
                bounds = float(lower[column]), float(upper[column])
        resolved = None
        if posterior is not None and np.isfinite(posterior.low[cell]):
            cut = None if is_population else bounds  # bounds hold for the users that were ranked
            low, high, resolved = *posterior.within(cell, cut), int(posterior.resolved[row])
            probability = float(posterior.probability[cell])
        verdict, strength, by_interval = decide_verdict(
            noise,
            bounds,
            posterior=None if resolved is None else (low, high),
            prior_decides=resolved is not None
            and is_prior_decisive(options.metrics[column], resolved, int(first.ranks.n_pool.max())),
            margin=options.tie_margin,
            is_exact=is_exact,
            is_population=is_population,
        )
        if is_exact and factor > 0 and strength is Strength.EXACT:
            strength = Strength.USERS
        kinship = pairing(first.ranks, second.ranks)
        needed, is_searched = None, False
        if negatives_needed is not None and bounds is not None and verdict is Verdict.UNRESOLVED:
            is_searched = bounds[0] <= value <= bounds[1] and abs(value) > 0
            if is_searched:
                needed = negatives_needed.for_pair(a, b, options.metrics[column], abs(value))
        sizes = {model.n_negatives for model in (first, second) if model.estimated is not None}
        base = float(second.value[column])
        relative = [_finite(limit / base) if base > 0 else None for limit in (value, low, high)]
        wins, draws, losses = count_wins(first, second, column) if kinship.is_paired else (None, None, None)
        difference = Difference(
            first=first.name,
            second=second.name,
            metric=str(options.metrics[column]),
            value=value,
            low=_finite(low),
            high=_finite(high),
            level=options.level,
            target=options.target,
            probability=_finite(probability),
            population_low=_finite(intervals.low[cell]),
            population_high=_finite(intervals.high[cell]),
            p_value=_finite(intervals.p_value[cell]),
            p_adjusted=_finite(intervals.p_adjusted[cell]),
            p_randomised=_finite(paired.p_randomised[cell]),
            bound_low=None if bounds is None else bounds[0],
            bound_high=None if bounds is None else bounds[1],
            method=self._method(
                first,
                second,
                is_paired=kinship.is_paired,
                is_known=is_exact and factor == 0,
                has_posterior=resolved is not None,
            ),
            pairing=str(kinship),
            verdict=verdict,
            strength=strength,
            by_interval=by_interval,
            n_users=n_users,
            needed_negatives=needed,
            relative=relative[0],
            relative_low=relative[1],
            relative_high=relative[2],
            wins=wins,
            ties=draws,
            losses=losses,
            is_least_p=bool(intervals.is_least_p[cell]),
            needed_users=users_needed(value, *noise, n_users) if verdict is Verdict.NOISE else None,
        )
        context = SentenceContext(
            estimator="" if is_exact else str(options.estimator),
            cutoff=options.metrics[column].cutoff,
            n_negatives=sizes.pop() if len(sizes) == 1 else None,
            margin=options.tie_margin,
            is_searched=is_searched,
            noise=noise,
            resolved=resolved,
        )
        return replace(difference, sentence=verdict_sentence(difference, context))

    @property
    def _is_subset(self) -> bool:
        """Whether some model's users are only part of the test users."""
        totals = [
            model.estimated.ranks.design.n_test_users for model in self.models if model.estimated is not None
        ]
        return any(
            total is not None and total > len(model.users)
            for model in self.models
            for total in (self.n_test_users, *totals)
        )

    def _error_factor(self, first: ComparedModel, second: ComparedModel) -> float:
        """Return which fraction of the standard error over users applies to the mean over the test users.

        It is 0 where all test users were ranked against all items. The mean over n users sampled from N test
        users has the finite-population correction sqrt(1 - n/N). Sampled ranks keep the whole error, which is
        conservative.
        """
        if first.estimated is not None or second.estimated is not None:
            return 1.0
        if self.n_test_users is None:
            return 0.0
        n_users = min(len(first.users), len(second.users))
        return float(np.sqrt(max(1 - n_users / self.n_test_users, 0.0)))

    def _method(
        self,
        first: ComparedModel,
        second: ComparedModel,
        *,
        is_paired: bool,
        is_known: bool,
        has_posterior: bool,
    ) -> str:
        if is_known:
            return "exact"
        options = self.options
        if has_posterior:
            return "posterior, no correction" if options.correction == "none" else "posterior, simultaneous"
        if first.per_user is None or second.per_user is None:
            kind = "joint bootstrap" if is_paired else "independent bootstraps"
        else:
            kind = "differences per user" if is_paired else "independent means"
        words = [kind, options.correction if options.correction != "none" else "no correction"]
        if first.estimated is not None or second.estimated is not None:
            if fitted_prior(options.estimator) is not None:
                words.append("prior taken as known")
            words.append("ignores bias")
        return ", ".join(words)

    def _notes(self, differences: Sequence[Difference]) -> list[str]:
        notes = []
        unpaired = [
            f"{difference.first} and {difference.second}"
            for difference in differences
            if difference.pairing == "independent users"
        ]
        if unpaired:
            pairs = ", ".join(dict.fromkeys(unpaired))
            notes.append(f"{pairs} have no users in common: they are compared as independent samples.")
        by_noise = any("ignores bias" in difference.method for difference in differences)
        if by_noise and self.options.target == "test-users":
            notes.append(
                "intervals for noise from sampled ranks include the variance between users, so for the mean "
                "over these test users they are conservative (wider than needed)."
            )
        return notes

    def _estimates(self) -> tuple[Estimate, ...]:
        return tuple(
            Estimate(
                model=model.name,
                metric=str(metric),
                value=float(model.value[column]),
                kind="exact" if model.estimated is None else "estimate",
                estimator="exact" if model.estimated is None else str(self.options.estimator),
                n_users=len(model.users),
                n_negatives=model.n_negatives,
            )
            for model in self.models
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
            "posterior": options.posterior,
            "bounds": options.bounds,
            "shape": options.shape,
            "ties": options.ties,
            "resamples": options.resamples,
            "seed": options.seed,
            "n_test_users": self.n_test_users,
            **({"by": [str(grouping) for grouping in options.by]} if options.by else {}),
            "data_hash": {model.name: ranks_hash(model.ranks) for model in self.models},
            "versions": versions(),
        }


def _scaled(value: float, low: float, high: float, factor: float) -> tuple[float, float]:
    """Return the limits of the interval with their distances from the value multiplied by the factor."""
    if factor == 0:
        return value, value
    return value - factor * (value - low), value + factor * (high - value)


def _probability(value: float, error: float, n_users: int, factor: float, population: float) -> float:
    """Return the probability that the first model is better.

    It is 0, 1/2 or 1 where the difference is known (factor 0) and ``population`` where the whole error
    applies; between them it is Student's distribution function with the reduced error.
    """
    if factor == 0:
        return 0.5 + 0.5 * float(np.sign(value))
    if factor == 1 or not error > 0:
        return population
    return float(stdtr(n_users - 1, value / (factor * error)))


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
