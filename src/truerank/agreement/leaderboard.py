"""Values of all models on the full data and on every sub-sample, read from finished pieces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from truerank.agreement.piece import Draw, Fit
from truerank.agreement.plan import Entrant, Plan
from truerank.agreement.resample import Counts, draw_users, resampled_means
from truerank.agreement.scenario import Scenario
from truerank.agreement.workshop import Judged, Workshop
from truerank.core.types import FloatArray


@dataclass(frozen=True, eq=False)
class Leaderboards:
    """Values of one scenario, turned so that larger is better.

    Parameters
    ----------
    full, small : (seeds, metrics, models) and (strategies, fractions, seeds, metrics, models)
    full_resampled, small_resampled : the same with a leading axis of resamples
    full_seconds, small_seconds : (2, seeds) and (2, strategies, fractions, seeds): CPU seconds of training
        without and with the validation of early stopping, drawing included
    problems : why models could not be fitted
    """

    full: FloatArray
    small: FloatArray
    full_resampled: FloatArray
    small_resampled: FloatArray
    full_seconds: FloatArray
    small_seconds: FloatArray
    problems: list[str]


class Gathering:
    """Reads the pieces of one scenario."""

    def __init__(
        self, plan: Plan, workshop: Workshop, scenario: Scenario, entrants: tuple[Entrant, ...]
    ) -> None:
        self.plan, self.workshop, self.scenario, self.entrants = plan, workshop, scenario, entrants
        targets = workshop.splits[scenario].test
        self.weights = scenario.weights(targets)
        self.counts: Counts = draw_users(plan.seed, len(self.weights), plan.resamples)
        self.sign = 1.0 if scenario.higher_is_better else -1.0
        self.problems: list[str] = []

    def leaderboards(self, advance: Callable[[], object]) -> Leaderboards:
        """Return all values; ``advance`` is called once per data set."""
        plan, n_metrics = self.plan, len(self.scenario.metric_names())
        outer = (len(plan.strategies), len(plan.fractions), len(plan.seeds))
        inner = (n_metrics, len(self.entrants))
        full, small = np.empty((outer[2], *inner)), np.empty((*outer, *inner))
        full_resampled = np.empty((plan.resamples, *full.shape))
        small_resampled = np.empty((plan.resamples, *small.shape))
        full_seconds, small_seconds = np.zeros((2, outer[2])), np.zeros((2, *outer))
        for s, seed in enumerate(plan.seeds):
            full[s], full_resampled[:, s], full_seconds[:, s] = self._row(seed, None)
            advance()
            for a, strategy in enumerate(plan.strategies.values()):
                for f, fraction in enumerate(plan.fractions):
                    draw = Draw(self.scenario, self.scenario.adapt_strategy(strategy), fraction, seed)
                    place = (a, f, s)
                    row = self._row(seed, draw)
                    small[place], small_resampled[(slice(None), *place)] = row[:2]
                    small_seconds[(slice(None), *place)] = row[2] + self.workshop.drawn(draw)[1]
                    advance()
        return Leaderboards(
            full, small, full_resampled, small_resampled, full_seconds, small_seconds, self.problems
        )

    def _row(self, seed: int, draw: Draw | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the values of all models on one data set, (metrics, models), resampled, and seconds."""
        n_metrics = len(self.scenario.metric_names())
        values = np.full((n_metrics, len(self.entrants)), np.nan)
        resampled = np.full((self.plan.resamples, *values.shape), np.nan)
        seconds = np.zeros(2)
        for column, entrant in enumerate(self.entrants):
            tried = [
                self.workshop.judged(Fit(self.scenario, model, seed, draw))
                for model in entrant.configurations
            ]
            seconds += [sum(one.seconds - one.watching for one in tried), sum(one.seconds for one in tried)]
            means: dict[int, FloatArray] = {}
            for metric, best in enumerate(self._chosen(tried)):
                if best is None:
                    continue
                if best not in means:
                    means[best] = resampled_means(tried[best].per_user, self.weights, self.counts)
                values[metric, column] = self.sign * tried[best].test[metric]
                resampled[:, metric, column] = self.sign * means[best][:, metric]
            if draw is not None and all(one.error for one in tried):
                self.problems.append(
                    f"{entrant.name} on {draw.strategy} at {draw.fraction} (seed {seed}): {tried[0].error}"
                )
        return values, resampled, seconds

    def _chosen(self, tried: list[Judged]) -> list[int | None]:
        """Return the best configuration by each metric; None where no configuration could be fitted."""
        n_metrics = len(self.scenario.metric_names())
        if len(tried) == 1:
            return [None if tried[0].error else 0] * n_metrics
        part = [one.valid if self.scenario.selection == "validation" else one.test for one in tried]
        values = self.sign * np.stack(part)
        return [
            None if np.isnan(values[:, metric]).all() else int(np.nanargmax(values[:, metric]))
            for metric in range(n_metrics)
        ]
