"""A decision between models as a comparison: verdicts, what they rest on, and what each model was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from truerank.core.digest import data_hash
from truerank.core.model import Model
from truerank.core.progress import Progress
from truerank.core.provenance import versions
from truerank.core.ranks import SeenPolicy
from truerank.core.result import SAMPLED_USERS, Estimate
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.table import listed_in_words, percent, round_up
from truerank.split.notes import data_notes
from truerank.workflows.compare.options import CompareOptions
from truerank.workflows.compare.result import (
    ROUNDING,
    Comparison,
    Difference,
    SentenceContext,
    Strength,
    Verdict,
    verdict_sentence,
)
from truerank.workflows.fitting import check_targets, described, fit_scorer, make_validate
from truerank.workflows.precision.budget import Budget, kept_scores, open_scores
from truerank.workflows.precision.decision import DecisionResult, ask_until_decided
from truerank.workflows.precision.goal import DEFAULT_PROXY, DecisionGoal


def decide_models(
    models: Mapping[str, Model | Scorer],
    split: Split,
    options: CompareOptions,
    *,
    proxy: Any,
    scores: str | Path | None = None,
    budget: int | str | None = None,
    price: float | None = None,
    seen: SeenPolicy,
    n_threads: int | None,
    progress: Progress,
) -> Comparison:
    """Fit models and ask them, in all the same users, until it is known which is better.

    Parameters
    ----------
    models : by name, as ``name_models`` returns them
    split : train and test events
    options : metrics, level, margin, baseline and correction of ``compare``
    proxy, scores, price : as in ``evaluate_to_precision``
    budget : what all models together may cost, written as there
    seen, n_threads, progress : as in ``evaluate``
    """
    check_targets(split)
    names = list(models)
    goal = DecisionGoal(
        options.metrics,
        tuple(options.pairs(names)),
        margin=options.tie_margin,
        is_joint=options.correction != "none",
        is_contest=options.baseline is None,
        proxy=DEFAULT_PROXY if proxy is None else proxy,
        level=options.level,
        target="test-users",
        ties=options.ties,
        seen=seen,
        seed=options.seed,
        n_threads=n_threads,
        limit=Budget.read(budget, price=price),
    )
    validate = make_validate(split, seen=seen, n_threads=n_threads)
    told: list[str] = []
    with ExitStack() as stack:
        file = stack.enter_context(open_scores(scores, split, models))
        scorers = {
            name: fit_scorer(model, split, validate=validate, seed=goal.seed, progress=progress)
            for name, model in models.items()
        }
        for name, scorer in scorers.items():
            about = stack.enter_context(kept_scores(scorer, file, name))
            told += [f"{name}: {sentence}" for sentence in about]
        found = Decision(names, goal, ask_until_decided(scorers, split, goal, progress))
    return Comparison(
        found.estimates(),
        tuple(
            found.difference(row, column)
            for row in range(len(goal.pairs))
            for column in range(len(goal.metrics))
        ),
        (*data_notes(split.summary()), *told, *found.notes()),
        {
            "decide": True,
            "metrics": [str(metric) for metric in goal.metrics],
            "target": goal.target,
            "level": goal.level,
            "correction": options.correction,
            "baseline": options.baseline,
            "tie_margin": goal.margin,
            "ties": goal.ties,
            "seen": goal.seen,
            "seed": goal.seed,
            **({} if scores is None else {"scores": str(scores)}),
            **({} if budget is None else {"budget": budget}),
            **({} if price is None else {"price": price}),
            "split": split.method,
            "models": {name: described(model) for name, model in models.items()},
            "ways": {name: trace.to_dict() for name, trace in found.result.traces.items()},
            "scores_computed": {name: trace.n_scores for name, trace in found.result.traces.items()},
            "data_hash": data_hash(split),
            "versions": versions(),
        },
    )


@dataclass(frozen=True, eq=False)
class Decision:
    """Words and numbers of what was decided.

    Parameters
    ----------
    names : of the models
    goal : what was to be decided
    result : what was
    """

    names: Sequence[str]
    goal: DecisionGoal
    result: DecisionResult

    def estimates(self) -> tuple[Estimate, ...]:
        """Return the value of each model and metric as far as the decision needed it."""
        return tuple(
            Estimate(
                model=name,
                metric=str(metric),
                value=float(self.result.value[k, column]),
                kind="exact" if self._is_known(name) else "estimate",
                estimator="exact" if self._is_known(name) else SAMPLED_USERS,
                n_users=self.result.traces[name].n_users,
            )
            for k, name in enumerate(self.names)
            for column, metric in enumerate(self.goal.metrics)
        )

    def difference(self, row: int, column: int) -> Difference:
        """Return the difference of one pair in one metric."""
        result, goal = self.result, self.goal
        (a, b), verdict = goal.pairs[row], result.verdicts[row][column]
        low, high = (float(limit) for limit in result.limits[row, column])
        value = float(np.clip(result.value[a, column] - result.value[b, column], low, high))
        is_exact = bool(result.is_exact[row])
        value, low, high = (0.0 if abs(one) <= ROUNDING else one for one in (value, low, high))
        base = float(result.value[b, column])
        relative = [one / base if base > 0 else None for one in (value, low, high)]
        strength = Strength.EXACT if is_exact else Strength.SAMPLED_USERS
        difference = Difference(
            first=self.names[a],
            second=self.names[b],
            metric=str(goal.metrics[column]),
            value=value,
            low=low,
            high=high,
            level=goal.level,
            target=goal.target,
            probability=0.5 + 0.5 * float(np.sign(value)) if is_exact else None,
            population_low=None,
            population_high=None,
            p_value=None,
            p_adjusted=None,
            p_randomised=None,
            bound_low=None,
            bound_high=None,
            method="exact" if is_exact else "betting",
            pairing="same users",
            verdict=verdict,
            strength=strength if verdict.is_decided else Strength.NONE,
            by_interval=verdict,
            n_users=result.n_users,
            relative=relative[0],
            relative_low=relative[1],
            relative_high=relative[2],
        )
        return replace(difference, sentence=self._sentence(difference, column, (a, b)))

    def notes(self) -> list[str]:
        """Return who is best where there are several models, and in which order items were asked."""
        notes = []
        if self.goal.is_contest and len(self.names) > 2:
            for column, metric in enumerate(self.goal.metrics):
                lost = self._lost(column)
                left = [name for name, has_lost in zip(self.names, lost, strict=True) if not has_lost]
                if len(left) == 1:
                    notes.append(f"{left[0]} is the best of {len(self.names)} models in {metric}.")
                else:
                    notes.append(f"no model beats {listed_in_words(left)} in {metric}.")
        asked = [trace for trace in self.result.traces.values() if trace.design != "exact"]
        if asked:
            notes.append(f"items were asked in the order of {listed_in_words(list(asked[0].proxies))}.")
        if self.result.further is not None:
            further = round_up(self.result.further, digits=2)
            told = f" ({self.result.told})" if self.result.told else ""
            notes.append(
                f"the budget of {self.goal.limit} has ended before everything was decided. The intervals "
                f"hold as they are; about {further:,} further scores{told} would decide it, if the "
                "differences are as they look now."
            )
        at_hand = [name for name, trace in self.result.traces.items() if trace.design == "exact"]
        if at_hand:
            notes.append(
                f"all items were ranked for all users with {listed_in_words(at_hand)}: scores are available "
                "without calling the model."
            )
        return notes

    def _lost(self, column: int) -> list[bool]:
        lost = [False] * len(self.names)
        for (a, b), verdicts in zip(self.goal.pairs, self.result.verdicts, strict=True):
            lost[b] |= verdicts[column] is Verdict.FIRST
            lost[a] |= verdicts[column] is Verdict.SECOND
        return lost

    def _is_known(self, name: str) -> bool:
        trace = self.result.traces[name]
        return trace.design == "exact" or trace.n_users == self.result.n_users

    def _sentence(self, difference: Difference, column: int, pair: tuple[int, int]) -> str:
        if difference.verdict.is_decided:
            text = verdict_sentence(difference, SentenceContext(margin=self.goal.margin))
            if difference.strength is Strength.EXACT:
                first, second = (float(self.result.value[k, column]) for k in pair)
                text = f"{text[:-1]}; over all users the values are {first:.4f} and {second:.4f}."
        else:
            row = self.goal.pairs.index(pair)
            is_open = bool(self.result.is_open[row, column])
            why = "before the budget ended" if is_open else "because another model beats one of them"
            text = (
                f"{difference.first} and {difference.second} were not told apart in {difference.metric}, "
                f"{why}: their difference lies in [{difference.low:+.4f}, {difference.high:+.4f}]."
            )
        asked = [self._asked(name) for name in (difference.first, difference.second)]
        given = [words for words in asked if words]
        return f"{text[:-1]}; asked were {listed_in_words(given)} of exact evaluation." if given else text

    def _asked(self, name: str) -> str:
        """Return what a model was asked in words; nothing where its scores are at hand."""
        trace = self.result.traces[name]
        share = percent(trace.n_scores / trace.exact_scores, 2, space=" ")
        now = "" if trace.n_asked == trace.n_scores else f" ({trace.n_asked:,} of them now)"
        cost = "" if trace.cost is None else f", {self.goal.limit.cost(trace.n_asked)}"
        return "" if trace.design == "exact" else f"{trace.n_scores:,} scores of {name}{now}{cost}, {share}"
