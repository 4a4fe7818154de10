"""Leaderboards of all models on the full data and on every sub-sample, read from the results of tasks.

Where several configurations of a model were fitted, the best by each metric is taken, or the best by one
metric for all of them. Values come with their bootstrap resamples of test users, the same users for all
models and sub-samples, so that differences are paired.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from truerank.core.types import FloatArray
from truerank.workflows.agreement.order import Counts, means_of_resamples, resample_users
from truerank.workflows.agreement.plan import AgreementPlan, ModelGrid
from truerank.workflows.agreement.runner import FitValues, TaskRunner
from truerank.workflows.agreement.scenarios import Scenario
from truerank.workflows.agreement.tasks import FitTask, SubsampleTask


@dataclass(frozen=True, eq=False)
class Leaderboards:
    """Values of one scenario, with their sign changed where smaller is better.

    Parameters
    ----------
    full, small : (seeds, metrics, models) and (strategies, fractions, seeds, metrics, models)
    full_resampled, small_resampled : the same with a leading axis of resamples
    full_seconds, small_seconds : (2, seeds) and (2, strategies, fractions, seeds): CPU seconds of training
        without and with the validation of early stopping; those of sub-samples include sampling
    problems : models that could not be fitted, and why
    skipped : sub-samples that are too small, by (strategy, fraction, seed), and why; their values and seconds
        are NaN
    """

    full: FloatArray
    small: FloatArray
    full_resampled: FloatArray
    small_resampled: FloatArray
    full_seconds: FloatArray
    small_seconds: FloatArray
    problems: list[str]
    skipped: dict[tuple[int, int, int], str]


def read_leaderboards(
    plan: AgreementPlan,
    runner: TaskRunner,
    scenario: Scenario,
    model_grids: tuple[ModelGrid, ...],
    advance: Callable[[], object],
) -> Leaderboards:
    """Return the values of one scenario; ``advance`` is called once per train set."""
    n_users = len(scenario.weights(runner.splits[scenario].test))
    reader = _Reader(runner, scenario, model_grids, resample_users(plan.seed, n_users, plan.resamples))
    outer = (len(plan.strategies), len(plan.fractions), len(plan.seeds))
    inner = (len(scenario.metric_names()), len(model_grids))
    full, small = np.empty((outer[2], *inner)), np.full((*outer, *inner), np.nan)
    full_resampled = np.empty((plan.resamples, *full.shape))
    small_resampled = np.full((plan.resamples, *small.shape), np.nan)
    full_seconds, small_seconds = np.zeros((2, outer[2])), np.full((2, *outer), np.nan)
    skipped: dict[tuple[int, int, int], str] = {}
    for s, seed in enumerate(plan.seeds):
        full[s], full_resampled[:, s], full_seconds[:, s] = reader.train_set(seed, None)
        advance()
        for a, strategy in enumerate(plan.strategies.values()):
            for f, fraction in enumerate(plan.fractions):
                subsample = SubsampleTask(scenario, scenario.adapt_strategy(strategy), fraction, seed)
                too_small = plan.shortfall(*runner.size_of(subsample)) if plan.has_limits else ""
                if too_small:
                    skipped[a, f, s] = too_small
                    advance()
                    continue
                values, resampled, seconds = reader.train_set(seed, subsample)
                small[a, f, s], small_resampled[:, a, f, s] = values, resampled
                small_seconds[:, a, f, s] = seconds + runner.subsample_of(subsample)[1]
                advance()
    return Leaderboards(
        full, small, full_resampled, small_resampled, full_seconds, small_seconds, reader.problems, skipped
    )


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads the values of all models on one train set.

    Parameters
    ----------
    runner, scenario, model_grids : as in ``read_leaderboards``
    counts : resampled users
    problems : models that could not be fitted; filled while reading
    """

    runner: TaskRunner
    scenario: Scenario
    model_grids: tuple[ModelGrid, ...]
    counts: Counts
    problems: list[str] = field(default_factory=list)

    def train_set(
        self, seed: int, subsample: SubsampleTask | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the values of all models on one train set, (metrics, models), resampled, and seconds."""
        scenario = self.scenario
        weights = scenario.weights(self.runner.splits[scenario].test)
        values = np.full((len(scenario.metric_names()), len(self.model_grids)), np.nan)
        resampled = np.full((len(self.counts), *values.shape), np.nan)
        seconds = np.zeros(2)
        for column, model_grid in enumerate(self.model_grids):
            fits = [
                self.runner.fit_values(FitTask(scenario, model, seed, subsample))
                for model in model_grid.configurations
            ]
            seconds += [
                sum(fit.seconds - fit.validation_seconds for fit in fits),
                sum(fit.seconds for fit in fits),
            ]
            means: dict[int, FloatArray] = {}
            for metric, best in enumerate(self._best(fits)):
                if best is None:
                    continue
                if best not in means:
                    means[best] = means_of_resamples(fits[best].per_user, weights, self.counts)
                values[metric, column] = self._sign * fits[best].test[metric]
                resampled[:, metric, column] = self._sign * means[best][:, metric]
            if subsample is not None and all(fit.error for fit in fits):
                self.problems.append(
                    f"{model_grid.name} on {subsample.strategy} at {subsample.fraction} (seed {seed}): "
                    f"{fits[0].error}"
                )
        return values, resampled, seconds

    @property
    def _sign(self) -> float:
        return 1.0 if self.scenario.higher_is_better else -1.0

    def _best(self, fits: list[FitValues]) -> list[int | None]:
        """Return the index of the best configuration by each metric; None where none could be fitted."""
        n_metrics = len(self.scenario.metric_names())
        if len(fits) == 1:
            return [None if fits[0].error else 0] * n_metrics
        part = [fit.valid if self.scenario.selection == "validation" else fit.test for fit in fits]
        values = self._sign * np.stack(part)
        best = [
            None if np.isnan(values[:, metric]).all() else int(np.nanargmax(values[:, metric]))
            for metric in range(n_metrics)
        ]
        if self.scenario.select_by:
            best = [best[self.scenario.metric_names().index(self.scenario.select_by)]] * n_metrics
        return best
