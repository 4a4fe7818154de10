"""Sequential paired comparison of slow models: scores are asked until it is known which model is better.

A decision is a goal like a precision: the same users are sampled for all models, rows end early, and bets are
placed on the differences of the models. A model that has certainly lost is asked no more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from truerank.core.progress import Progress, ProgressTask, note, tracked
from truerank.core.scorer import DenseScores, HasFactors, HasSparseRows, Scorer
from truerank.core.split import Split
from truerank.core.table import duration
from truerank.core.types import BoolArray, FloatArray
from truerank.models.slow.slow_scorer import TimeIsUp
from truerank.ranking.exact import exact_ranks
from truerank.workflows.compare.result import Verdict, verdict_of_interval
from truerank.workflows.precision.budget import Spending
from truerank.workflows.precision.goal import DecisionGoal, PrecisionTrace
from truerank.workflows.precision.model_values import AskedModel, ExactModel, ModelValues
from truerank.workflows.precision.part_sample import PartSample
from truerank.workflows.precision.partial_rows import PartialRows
from truerank.workflows.precision.proxy_order import make_order
from truerank.workflows.precision.user_sample import (
    fewest_rows,
    needed_information,
    needed_rows,
    predicted_variance,
)

#: Users of the first look, which says how to begin.
FIRST_USERS = 100
_FIRST_AIM = 0.05  # difference that the first bets are chosen for where no look is possible
_GUESSED_DROP = 0.1  # of values below their ceilings, before anything is known
_SEEN = 8  # sampled open users from which the variance below ceilings is predicted
ROUNDS = 10
_MOST_ROUNDS = 100
_SMALLEST_ROUND = 16
_SMALLEST_ROWS = 4  # of a round after screening, when rows are whole ones
_LOOK = (
    4  # items of the look at a sampled user before its row is scored further, as a multiple of the cut-off
)
_MOST_ROOM = 0.4  # of a difference that ceilings of the worse model may take, where it is not asked
_DOUBT = 0.5  # forecasts of sampling alone are believed where they are less than this share of screening
_CAUTION = 0.8  # of the distance that is believed to be there: bets that are too high cost more than low ones
_LEAST_AIM = 1e-4
_FOR_LOOK = 0.2  # of a budget that the first look may take
_FOR_SCREENING = 0.4  # of what is left of a budget, each time that users are screened further


@dataclass(frozen=True, eq=False)
class DecisionResult:
    """What was decided between models, and what it took.

    Parameters
    ----------
    value : (n_models, n_metrics) estimates, exact where every user is known
    limits : (n_pairs, n_metrics, 2) intervals of the differences
    is_exact : (n_pairs,) whether the differences are known
    verdicts : one per pair and metric
    traces : what each model was asked, by name
    n_users : test users that it is about
    is_open : (n_pairs, n_metrics) differences that matter and are not decided, because the budget has ended
    further : about how many more scores of all models would decide them; None where nothing is open
    told : what further scores would take, in words
    """

    value: FloatArray
    limits: FloatArray
    is_exact: BoolArray
    verdicts: tuple[tuple[Verdict, ...], ...]
    traces: dict[str, PrecisionTrace]
    n_users: int
    is_open: BoolArray
    further: int | None = None
    told: str = ""


def ask_until_decided(
    scorers: Mapping[str, Scorer], split: Split, goal: DecisionGoal, progress: Progress
) -> DecisionResult:
    """Ask fitted models until every difference that matters is decided; those at hand are ranked exactly."""
    slow = [name for name, scorer in scorers.items() if not _is_at_hand(scorer)]
    proxies: list[str] = []
    models: dict[str, ModelValues] = {}
    for name, scorer in scorers.items():
        if name not in slow:
            ranks = exact_ranks(scorer, split, seen=goal.seen, n_threads=goal.n_threads, progress=progress)
            n_scores = ranks.n_users * split.train.n_items
            models[name] = ExactModel(ranks, goal.metrics, ties=goal.ties, seed=goal.seed, n_scores=n_scores)
            continue
        if not proxies:
            order, proxies = make_order(goal.proxy, split, seed=goal.seed, progress=progress)
        rows = PartialRows(
            scorer,
            split,
            cutoff=goal.cutoff,
            order=order.fresh(),  # each model learns how far it trusts the proxies
            seen=goal.seen,
            n_threads=goal.n_threads,
        )
        models[name] = AskedModel(rows, goal.metrics, ties=goal.ties, seed=goal.seed)
    spending = {name: Spending(scorer, goal.limit) for name, scorer in scorers.items()}
    asking = {name: spending[name] for name in slow}
    found = DecisionSearch(models, goal, proxies, split.train.n_items, progress, asking).run()
    traces = {
        name: replace(trace, n_asked=spending[name].asked(trace.n_scores))
        for name, trace in found.traces.items()
    }
    for name, one in asking.items():
        traces[name] = replace(traces[name], cost=one.cost(traces[name].n_scores))
    if found.further is None or not asking:
        return replace(found, traces=traces)
    n_asked = sum(one.asked(traces[name].n_scores) for name, one in asking.items())
    spent = time.monotonic() - next(iter(asking.values())).started
    told = [] if not n_asked else [duration(found.further * spent / n_asked)]
    told += [goal.limit.cost(found.further)] if goal.limit.price is not None else []
    return replace(found, traces=traces, told=", ".join(told))


def _is_at_hand(scorer: Scorer) -> bool:
    return isinstance(scorer, HasFactors | HasSparseRows | DenseScores)


class DecisionSearch:
    """Samples users of several models, round by round, until every difference that matters is decided.

    Parameters
    ----------
    models : their values, by name
    goal : what is to be decided
    proxies : names of the cheap models that order the items
    n_items : size of the catalogue
    progress : where sampled users are reported
    spending : what asking each slow model costs, by name; shown while it runs
    """

    def __init__(
        self,
        models: Mapping[str, ModelValues],
        goal: DecisionGoal,
        proxies: Sequence[str],
        n_items: int,
        progress: Progress,
        spending: Mapping[str, Spending] | None = None,
    ) -> None:
        self.models, self.goal, self.progress = dict(models), goal, progress
        self.spending, self.expected_end = dict(spending or {}), 0.0
        self.proxies, self.n_items = tuple(proxies), n_items
        self.live = list(range(len(models)))  # models that are still asked
        self.pairs = list(range(len(goal.pairs)))  # pairs between them
        contrasts = np.zeros((len(goal.pairs), len(models)))
        for row, (a, b) in enumerate(goal.pairs):
            contrasts[row, a], contrasts[row, b] = 1.0, -1.0
        self.sample = PartSample(
            list(models.values()),
            precision=goal.margin or _FIRST_AIM,
            level=goal.pair_level,
            seed=goal.seed,
            contrasts=contrasts,
            is_one_sided=goal.margin is None,
        )
        shape = (len(goal.pairs), len(goal.metrics))
        self.limits: FloatArray = np.zeros((*shape, 2))
        self.value: FloatArray = np.zeros((len(models), len(goal.metrics)))
        self.verdict = np.full(shape, Verdict.NOISE, dtype=object)
        self.is_exact: BoolArray = np.zeros(len(goal.pairs), np.bool_)
        self.started = time.monotonic()
        if goal.limit.seconds is not None:
            for model in self.models.values():
                if isinstance(model, AskedModel):
                    model.rows.deadline = self.started + goal.limit.seconds
        self.n_known = np.zeros(len(models), np.int64)
        self.screened = np.zeros(len(models), np.int64)
        self.rounds: list[int] = []
        self.per_user = np.zeros((len(models), 2))  # at a first look: scores, and the share of open rows
        self.is_left = 0.0  # share of users who are open in some model after that
        # ceilings at that look, and how far values of sampled open users lay below theirs
        self.looked: FloatArray
        self.below: FloatArray
        self.looked, self.below = np.zeros((2, 0, len(models), len(goal.metrics)))

    def run(self) -> DecisionResult:
        """Sample users until everything that matters is decided; at the latest when every user is known."""
        sample = self.sample
        sample.release()
        with ExitStack() as stack:
            task = stack.enter_context(tracked(self.progress, "deciding users", sample.n_all))
            for one in self.spending.values():
                stack.enter_context(one.watched(partial(self._tell, task)))
            try:
                self._search(task)
            except TimeIsUp:
                sample.settle()
                self.update()
        return self._result()

    def _search(self, task: ProgressTask) -> None:
        """Sample users until nothing is open or the budget allows no further user."""
        sample, cutoff, reported = self.sample, self.goal.cutoff, 0
        is_open = self.update()
        if is_open:
            if self.goal.limit.allows_rows(
                None if self.goal.limit.scores is None else self._left(),
                sample.most_scores(sample.queue),
                screening=None if cutoff is None else sample.most_scores(sample.queue, cutoff),
                depth=cutoff,
                n_models=len(sample.asked),
            ):
                self._begin()
            else:
                self._screen()
        while is_open:
            if (
                not sample.depth
                and cutoff is not None
                and self._is_screening_cheaper()
                and self._may_screen(cutoff)
            ):
                self._screen()
            if sample.depth:
                self._choose()
                sample.deepen_where_it_pays(self._for_screening())
                self._choose()
                self._aim_again()
                sample.choose_way()
            if not sample.is_complete and not self._add_users():
                self.update()
                return
            task.advance(sample.n_all - len(sample.queue) - reported)
            reported = sample.n_all - len(sample.queue)
            is_open = self.update()
            self._tell(task)

    def _tell(self, task: ProgressTask) -> None:
        """Show the scores asked for, the widest interval that is not decided, and about what is left."""
        asked = {name: one.asked(self.models[name].n_scores) for name, one in self.spending.items()}
        n_asked = sum(asked.values())
        if not n_asked:
            return
        width = (self.limits[:, :, 1] - self.limits[:, :, 0])[self._open_pairs()].max(initial=0.0) / 2
        told = f"{n_asked:,} scores, +-{width:.2g}"
        further = self.expected_end - self._n_asked()
        if further >= 1:
            paces = [one.seconds_per_score(self.models[name].n_scores) for name, one in self.spending.items()]
            spent = sum(n * (pace or 0.0) for n, pace in zip(asked.values(), paces, strict=True))
            cost = [self.goal.limit.cost(further)] if self.goal.limit.price is not None else []
            told = f"{told}, {', '.join([duration(further * spent / n_asked), *cost])} left"
        note(task, told)

    def _n_asked(self) -> int:
        """Return the scores that were used of all models that are asked."""
        return sum(model.n_scores for model in self.models.values() if isinstance(model, AskedModel))

    def _left(self) -> float:
        """Return how many scores may still be used; of the time that is left, half is for one round."""
        limit = self.goal.limit
        used = self._n_asked()
        left = np.inf if limit.scores is None else float(limit.scores - used)
        if limit.seconds is not None and used:
            now = time.monotonic()
            pace = (now - self.started) / used
            left = min(left, max(self.started + limit.seconds - now, 0.0) / pace / 2)
        return left

    def _for_screening(self) -> float | None:
        """Return the scores that screening may take: of a budget a share, so that some are left for draws."""
        left = self._left()
        if np.isinf(left):
            return None
        may_draw = self.goal.limit.seconds is not None or self.sample.affordable(1, left) > 0
        return _FOR_SCREENING * left if may_draw else left

    def _screen(self) -> None:
        """Score the most promising items of all users, as many as the cut-off."""
        self.sample.screen(self.goal.cutoff or 1)
        self._aim_again()

    def _may_screen(self, depth: int) -> bool:
        return bool(self.sample.most_scores(self.sample.queue, depth).sum() <= self._left())

    def update(self) -> bool:
        """Compute intervals and verdicts, ask models no more that need not be, return whether any is left."""
        sample, goal = self.sample, self.goal
        n_metrics = len(goal.metrics)
        self.rounds.append(sample.n_all - len(sample.queue))
        self.limits[self.pairs] = sample.limits().reshape(-1, n_metrics, 2)
        self.value[self.live] = np.clip(sample.estimates(), 0.0, 1.0)
        at_hand = np.array([isinstance(model, ExactModel) for model in self.models.values()])
        for pair in self.pairs:
            self.is_exact[pair] = sample.is_complete or at_hand[list(goal.pairs[pair])].all()
        self.n_known[self.live] = self.rounds[-1]
        self.screened[self.live] = sample.depth
        for pair in self.pairs:
            for metric in range(n_metrics):
                low, high = self.limits[pair, metric]
                self.verdict[pair, metric] = verdict_of_interval(low, high, goal.margin)
        needed = self._open_pairs()
        if not needed.any():
            return False
        pairs = [pair for pair in self.pairs if needed[pair].any()]
        live = sorted({model for pair in pairs for model in goal.pairs[pair]})
        if live != self.live:
            sample.keep(
                [self.live.index(model) for model in live],
                [at for at, pair in enumerate(self.pairs) if set(goal.pairs[pair]) <= set(live)],
            )
            kept = [self.live.index(model) for model in live]
            self.per_user, self.looked = self.per_user[kept], self.looked[:, kept]
            self.below = self.below[:, kept]
            self.pairs = [pair for pair in self.pairs if set(goal.pairs[pair]) <= set(live)]
            self.live = live
        if self.spending:
            self.expected_end = self._n_asked() + self._further_scores()
        return True

    def _further_scores(self) -> float:
        """Return about how many more scores a decision takes, if the differences are as they look."""
        return self.sample.missing_rows() * max(self.sample.cost_per_row(), 1.0)

    def has_lost(self) -> BoolArray:
        """Return which models are worse than another one, per metric, (n_models, n_metrics)."""
        lost = np.zeros((len(self.models), len(self.goal.metrics)), np.bool_)
        for pair, (a, b) in enumerate(self.goal.pairs):
            lost[b] |= self.verdict[pair] == Verdict.FIRST
            lost[a] |= self.verdict[pair] == Verdict.SECOND
        return lost

    def _open_pairs(self) -> BoolArray:
        """Return which differences still matter and are not decided, (n_pairs, n_metrics)."""
        is_open: BoolArray = np.vectorize(lambda verdict: not verdict.is_decided)(self.verdict)
        if self.goal.is_contest:
            lost = self.has_lost()
            for pair, (a, b) in enumerate(self.goal.pairs):
                is_open[pair] &= ~(lost[a] | lost[b])
        return is_open

    def _begin(self) -> None:
        """Look at some users, to see what they cost and how different the models are."""
        sample, cutoff = self.sample, self.goal.cutoff
        n = min(FIRST_USERS, len(sample.queue))
        if cutoff is None or n == 0:
            return
        if self.goal.limit.scores is not None:
            most = np.cumsum(self.sample.most_scores(sample.queue[:n], _LOOK * cutoff))
            n = max(int(np.searchsorted(most, _FOR_LOOK * self._left(), side="right")), 1)
        row = sample.queue[:n]
        before = [model.n_scores for model in sample.models]
        sample.look(n, _LOOK * cutoff)
        ceiling = np.stack([model.ceilings(row) for model in sample.models], axis=1)
        is_open = np.stack([model.is_open[row] for model in sample.models], axis=1)
        for k, model in enumerate(sample.models):
            self.per_user[k] = (model.n_scores - before[k]) / n, is_open[:, k].mean()
        self.is_left = max(float(is_open.any(axis=1).mean()), 1 / n)
        self.looked = ceiling
        difference = sample.contrast(ceiling)
        self._aim(difference.mean(axis=0), difference.std(axis=0) / np.sqrt(n))

    def _aim(self, mean: FloatArray, error: FloatArray) -> None:
        """Choose bets for the distance between the differences as they look now and what is to be excluded.

        A difference is decided when 0 is excluded, or all that lies beyond the margin: whichever is farther
        away. Distances below the standard error are not believed.
        """
        sample, margin = self.sample, self.goal.margin
        size = np.abs(np.clip(mean, *self.limits[self.pairs].reshape(-1, 2).T))
        distance = size if margin is None else np.maximum(size, margin - size)
        distance = np.maximum(np.maximum(distance, error), _LEAST_AIM)
        is_pair_open = self._open_pairs()[self.pairs]
        sample.aim[:] = _CAUTION * distance
        sample.wanted[:] = sample.excluded[:] = np.where(is_pair_open.ravel(), distance, 1.0)
        sample.need(np.asarray(is_pair_open.any(axis=0)))

    def _add_users(self) -> bool:
        """Sample the users of the next round, and see how far their values lie below first ceilings.

        Return whether the budget allows any, even if every row must be scored to its end.
        """
        sample, cutoff = self.sample, self.goal.cutoff
        missing = sample.missing_rows()
        least = min(len(sample.queue) // _MOST_ROUNDS, missing)  # whole rows are dear: no more than it takes
        n = max(_SMALLEST_ROWS if sample.depth else _SMALLEST_ROUND, least, -(-missing // ROUNDS))
        n = n if sample.is_by_parts else min(n, sample.n_candidates)
        if self.goal.limit.written is not None:
            n = sample.affordable(n, self._left())
            if n == 0 and self.goal.limit.seconds is not None:
                n = 1
            if n == 0:
                return False
        row, ceiling = sample.queue[:n], sample.ceiling[:n]
        is_look = cutoff is not None and not sample.depth
        if is_look:
            for model in sample.models:
                model.advance(row, _LOOK * (cutoff or 1))
            ceiling = np.stack([model.ceilings(row) for model in sample.models], axis=1)
        is_open = np.any([model.is_open[row] for model in sample.models], axis=0)
        sample.add_users(n)
        if is_look:
            value = np.stack([model.values(row) for model in sample.models], axis=1)
            self.below = np.concatenate([self.below, (ceiling - value)[is_open]])
        self._aim_again()
        return True

    def _choose(self) -> None:
        """Ask the models alone that are ahead, where the ceilings of the others are low enough for that.

        A model is better if its values lie above the ceilings of the other, which need no further scores.
        """
        sample, margin = self.sample, self.goal.margin
        is_open = self._open_pairs()[self.pairs]
        mean = sample.contrast(sample.expected_values()).reshape(is_open.shape)
        room = sample.expected_drops() / sample.n_all  # by which ceilings may lie above values
        ahead: set[int] = set()
        for row, column in zip(*np.nonzero(is_open), strict=True):
            first, second = np.flatnonzero(sample.contrasts[row] != 0)
            weight = sample.contrasts[row, first] * mean[row, column]
            leader, other = (first, second) if weight > 0 else (second, first)
            distance = abs(mean[row, column])
            if room[other, column] > _MOST_ROOM * distance or (margin is not None and margin > 2 * distance):
                ahead = set(range(len(sample.models)))
                break
            ahead.add(int(leader))
        if not sample.slack[:, sorted(ahead)].any():  # all is known of them
            ahead = set(range(len(sample.models)))
        sample.ask(sorted(ahead))

    def _aim_again(self) -> None:
        """Choose bets by what is known now; after a screening that is all but how far ceilings still fall."""
        sample = self.sample
        error: FloatArray = 1 / np.sqrt(np.maximum(sample.gained(), 1.0))
        if sample.depth:
            fall = (np.abs(sample.contrasts) @ sample.expected_drops()).ravel() / sample.n_all
            error = np.minimum(error, fall / 2)
        value = sample.expected_values()
        unasked = np.flatnonzero(~sample.is_asked)  # these stand at their ceilings
        value[unasked] = ((sample.known + sample.ceiling.sum(axis=0)) / sample.n_all)[unasked]
        self._aim(sample.contrast(value), error)

    def _is_screening_cheaper(self) -> bool:
        """Whether screening all users and sampling among the open ones is expected to take fewer scores."""
        sample = self.sample
        asked, is_open = self.per_user.T
        n_left, n_open = len(sample.queue), round(self.is_left * len(sample.queue))
        if n_open == 0:
            return False
        whole = float(is_open @ [model.row_scores() for model in sample.models])
        below, looked = sample.contrast(-self.below), sample.contrast(self.looked)
        guess = np.repeat(np.abs(sample.contrasts).sum(axis=1), len(self.goal.metrics))
        missing = [needed_information(wanted, sample.level) for wanted in sample.wanted] - sample.gained()
        n_rows, n_sampled = (
            fewest_rows(n, float(sample.excluded.min()) / 2, sample.level, sample.n_all)
            for n in (n_open, n_left)
        )
        for column, need in enumerate(missing):
            variance = guess[column] * _GUESSED_DROP * (1 - _GUESSED_DROP)
            if len(below) >= _SEEN:
                variance = predicted_variance(below[:, column])
            n_rows = max(n_rows, needed_rows(n_open, variance, float(need), sample.n_all))
            variance = predicted_variance(sample.value[:, column])
            if len(sample.sampled) < FIRST_USERS:
                variance = predicted_variance(looked[:, column])
            n_sampled = max(n_sampled, needed_rows(n_left, variance, float(need), sample.n_all))
        screening = n_left * asked.sum() + n_rows * whole / self.is_left / 2  # of the better model alone
        sampling = (len(sample.sampled) + n_sampled) * (asked.sum() + whole)
        return bool(_DOUBT * screening < sampling)

    def _result(self) -> DecisionResult:
        exact_scores = self.sample.n_all * self.n_items
        traces = {
            name: PrecisionTrace(
                "exact" if isinstance(model, ExactModel) else "rows",
                tuple(n for n in self.rounds if n <= self.n_known[k]),
                model.n_scores,
                exact_scores,
                not self._open_pairs().any(),
                n_users=int(self.n_known[k]),
                screened=0 if isinstance(model, ExactModel) else int(self.screened[k]),
                proxies=() if isinstance(model, ExactModel) else self.proxies,
            )
            for k, (name, model) in enumerate(self.models.items())
        }
        verdicts = tuple(tuple(row) for row in self.verdict)
        is_open = self._open_pairs()
        further = None
        if is_open.any():
            further = max(round(self._further_scores()), 1)
        return DecisionResult(
            self.value, self.limits, self.is_exact, verdicts, traces, self.sample.n_all, is_open, further
        )
