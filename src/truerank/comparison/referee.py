"""Differences of all pairs with intervals, bounds and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtr

from truerank.comparison.bounding import Adviser, Limits, find_limits
from truerank.comparison.contrast import Contrasts, contrast
from truerank.comparison.difference import Comparison, Difference
from truerank.comparison.entry import Entry
from truerank.comparison.family import Family, make_family
from truerank.comparison.options import Options
from truerank.comparison.pairing import pairing
from truerank.comparison.verdict import ROUNDING, Strength, Verdict, judge
from truerank.comparison.wording import Circumstance, sentence
from truerank.core.estimate import Estimate
from truerank.core.progress import Progress
from truerank.estimators import fitted_prior


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

    entries: Sequence[Entry]
    options: Options
    n_test_users: int | None
    progress: Progress

    def run(self, pairs: Sequence[tuple[int, int]], notes: list[str]) -> Comparison:
        """Compare the pairs."""
        options = self.options
        found = contrast(self.entries, pairs, options, progress=self.progress)
        family = make_family(found, level=options.level, correction=options.correction)
        limits: Limits | None = None
        if options.bounds and any(entry.found is not None for entry in self.entries):
            limits = find_limits(self.entries, options, progress=self.progress)
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

    def _factor(self, first: Entry, second: Entry) -> float:
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

    def _method(self, first: Entry, second: Entry, *, is_paired: bool, is_known: bool) -> str:
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
