"""Random parts of rows: their reports have the mean of what the whole row shows, and known limits."""

from __future__ import annotations

import copy
from itertools import combinations

import numpy as np
import pytest

from tests.workflows.plan.world import Counting, make_world
from truerank.core.ranks import TiePolicy
from truerank.core.scorer import as_scorer
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.exact import exact_ranks
from truerank.workflows.precision.bets import at_risk, growth
from truerank.workflows.precision.item_order import Asked, Guesses, PopularFirst
from truerank.workflows.precision.model_values import AskedModel
from truerank.workflows.precision.part_sample import PartSample
from truerank.workflows.precision.partial_rows import PartialRows
from truerank.workflows.precision.row_parts import SHARES, RowParts, chance_of_finding, steps_to

METRICS = "recall@10,ndcg@10"


@pytest.mark.parametrize(("n_left", "n_part", "n_counting"), [(7, 3, 2), (7, 1, 5), (6, 4, 3), (5, 2, 0)])
def test_the_chance_is_that_of_all_parts(n_left: int, n_part: int, n_counting: int) -> None:
    parts = list(combinations(range(n_left), n_part))
    share = np.mean([min(part) < n_counting for part in parts])
    found = chance_of_finding(np.array([n_left]), np.array([n_part]), np.array([n_counting]))
    assert found[0] == pytest.approx(share, abs=1e-12)


def test_no_report_reaches_further_than_stated() -> None:
    """Every number of further items, for random drops and every share."""
    rng = np.random.default_rng(0)
    steps = steps_to(40)
    drops = np.sort(rng.random((50, 2, len(steps))), axis=2)
    parts = RowParts.of(drops, steps)
    every = np.arange(1, 41)
    at = np.searchsorted(steps, every)  # the drop for a number between two steps is at most the next one's
    for share, reach, drop in zip(parts.share, parts.reach, drops, strict=True):
        n_part = int(np.ceil(share * 500))
        chance = chance_of_finding(np.full(40, 500), np.full(40, n_part), every)
        assert (drop[:, at] / chance <= reach[:, None] + 1e-9).all()
    assert set(parts.share.tolist()) <= set(SHARES)


def test_rows_that_one_more_item_decides_are_whole_and_others_are_not() -> None:
    drops = np.zeros((2, 1, 10))
    drops[0], drops[1, 0, 9] = 1.0, 1.0
    parts = RowParts.of(drops, steps_to(10))
    assert parts.share[0] == 1.0
    assert parts.share[1] < 0.2
    forced = RowParts.of(drops, steps_to(10), np.array([False, True]))
    assert forced.share.tolist() == [1.0, 1.0]
    assert forced.reach.tolist() == [[1.0], [1.0]]


@pytest.mark.slow
@pytest.mark.parametrize("ties", ["expected", "best", "worst", "random"])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_reports_have_the_mean_of_the_drops(ties: TiePolicy, n_targets: int) -> None:
    """400 parts of each row; the mean over all users is within five standard errors, and limits hold."""
    split, scores = make_world(n_targets=n_targets)
    scores = np.round(scores, 1)  # ties
    metrics = make_metrics("recall@10,ndcg@10,ap@10")
    exact = values(metrics, exact_ranks(as_scorer(scores), split), ties=ties)
    rows = PartialRows(Counting(scores), split, cutoff=10)
    rows.advance(np.arange(len(exact)), 20)
    row = np.flatnonzero(rows.is_open)
    model = AskedModel(rows, metrics, ties=ties)
    ceiling, parts = model.ceilings(row), model.parts(row)
    assert ((parts.share < 1).mean() > 0.3) == (ties != "random")
    means = []
    for seed in range(400 if ties == "expected" else 60):
        again = copy.copy(rows)
        for name in ("above", "tied", "depth", "recent", "scored"):
            setattr(again, name, getattr(rows, name).copy())
        again.asked, again.listed = {k: list(v) for k, v in rows.asked.items()}, dict(rows.listed)
        asked = AskedModel(again, metrics, ties=ties, seed=seed)
        asked.seed = 0 if ties == "random" else seed
        drop = asked.ask_parts(row, parts.share, ceiling, parts.reach)
        assert (drop >= -1e-9).all()
        assert (drop <= parts.reach + 1e-9).all()
        is_known = ~again.is_open[row]
        np.testing.assert_allclose(asked.values(row[is_known]), exact[row[is_known]], atol=1e-12)
        means.append(drop.mean(axis=0))
    wanted = (ceiling - exact[row]).mean(axis=0)
    error = np.std(means, axis=0, ddof=1) / np.sqrt(len(means))
    assert (np.abs(np.mean(means, axis=0) - wanted) <= 5 * error + 1e-9).all()


def test_parts_ask_no_pair_twice_and_end_with_the_exact_value() -> None:
    split, scores = make_world()
    metrics = make_metrics(METRICS)
    exact = values(metrics, exact_ranks(as_scorer(scores), split))
    scorer = Counting(scores)
    rows = PartialRows(scorer, split, cutoff=10)
    rows.advance(np.arange(len(exact)), 14)
    row = np.flatnonzero(rows.is_open)
    for _ in range(30):
        rows.ask_parts(row, np.full(len(row), 0.06), seed=3)
        rows.deepen(row[::7], rows.depth[row[::7]] + 5)
    assert not rows.is_open.any()
    np.testing.assert_array_equal(values(metrics, rows.ranks(np.arange(len(exact)))), exact)
    assert rows.n_scores == scorer.count
    assert scorer.count - scorer.is_asked.sum() <= 0.05 * scorer.count  # padding of rows that share a call


@pytest.mark.slow
@pytest.mark.parametrize("in_turn", ["parts", "whole rows", "metrics", "importance"])
def test_samples_by_parts_cover_at_every_moment(in_turn: str) -> None:
    """Level 0.8, so that misses are seen; a run misses if any of six looks does.

    Lower limits have 0.98 of 0.2, upper ones the rest. Parts alone, in turn with whole rows, for one metric
    after the other, and with metrics that count more or less from draw to draw.
    """
    split, scores = make_world()
    metrics = make_metrics(METRICS)
    exact = values(metrics, exact_ranks(as_scorer(scores), split)).mean(axis=0)
    n_runs, missed, means = 200, np.zeros((2, 2)), []
    for seed in range(n_runs):
        rows = PartialRows(Counting(scores), split, cutoff=10)
        sample = PartSample([AskedModel(rows, metrics, seed=seed)], precision=0.05, level=0.8, seed=seed)
        sample.screen(14)
        left = np.zeros((2, 2), np.bool_)
        for look in range(6):
            if in_turn == "whole rows":
                sample.draw_parts(look % 2 == 0)
            elif in_turn == "metrics":
                sample.need(np.arange(2) == look % 2)
            elif in_turn == "importance":
                sample.importance = np.array([[1.0, 0.2], [0.4, 1.0], [1.0, 1.0]][look % 3])
                sample._plan()
            sample.add_users(12)
            assert np.isfinite(sample.stake).all()
            low, high = sample.limits().T
            left |= np.stack([low > exact + 1e-9, high < exact - 1e-9])
        missed += left
        means.append(sample.means())
    for share, allowed in zip(missed / n_runs, (0.196, 0.004), strict=True):
        assert (share <= allowed + 3 * np.sqrt(allowed * (1 - allowed) / n_runs)).all()
    error = np.std(means, axis=0, ddof=1) / np.sqrt(n_runs)
    assert (np.abs(np.mean(means, axis=0) - exact) < 5 * error).all()


@pytest.mark.slow
@pytest.mark.parametrize("asked", [[0, 1], [0]])
def test_differences_by_parts_cover_at_every_moment(asked: list[int]) -> None:
    """Level 0.8, so that misses are seen, for both models and for the better one alone."""
    split, scores = make_world()
    other = scores + 0.6 * np.random.default_rng(1).normal(size=scores.shape)
    metrics = make_metrics("ndcg@10")
    exact = [values(metrics, exact_ranks(as_scorer(one), split)).mean() for one in (scores, other)]
    n_runs, missed = 60, 0
    for seed in range(n_runs):
        models = [
            AskedModel(PartialRows(Counting(one), split, cutoff=10), metrics, seed=seed)
            for one in (scores, other)
        ]
        sample = PartSample(models, precision=0.03, level=0.8, seed=seed, contrasts=np.array([[1.0, -1.0]]))
        sample.screen(14)
        sample.ask(asked)
        is_missed = False
        for _ in range(4):
            sample.add_users(20)
            low, high = sample.limits()[0]
            is_missed |= not low - 1e-9 <= exact[0] - exact[1] <= high + 1e-9
        missed += is_missed
    assert missed / n_runs <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / n_runs)


def test_who_is_screened_deeper_does_not_depend_on_who_is_drawn_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places in the queue tell who is drawn next: rows that save equally much must not come in that order."""
    split, scores = make_world()
    rows = PartialRows(Counting(scores), split, cutoff=10)
    sample = PartSample([AskedModel(rows, make_metrics(METRICS))], precision=0.01, level=0.95)
    sample.screen(14)
    monkeypatch.setattr(AskedModel, "expected_fall", lambda self, row, n_items, slope: np.ones(len(row)))

    def chosen(allowed: float) -> set[int]:
        places, _ = sample._worthwhile(allowed, 0.1)[0]
        return set(sample.queue[places].tolist())

    some = chosen(300)
    assert 10 < len(some) < len(chosen(np.inf)) / 2
    sample._take(np.random.default_rng(0).permutation(len(sample.queue)))
    assert chosen(300) == some


class Shuffled(PopularFirst):
    """An order that is another one after each lesson, depending on whose scores it was taught."""

    lesson = 0

    def guesses(self, users: IntArray) -> Guesses:
        found = super().guesses(users)
        found.guess = found.guess[:, np.random.default_rng(self.lesson).permutation(len(self.place))]
        return found

    def guess_listed(self, users: IntArray, items: IntArray, features: FloatArray) -> FloatArray:
        return np.random.default_rng(self.lesson).permutation(self.place)[items]

    def learn(self, new: Asked, again: IntArray) -> None:
        self.lesson += int(new.user.sum()) + 1


def test_what_a_user_reports_does_not_depend_on_who_is_drawn_beside_it() -> None:
    """Or reports would tell who is drawn after them, and bets that are chosen by them would not be fair."""
    split, scores = make_world(n_targets=2)
    order = Shuffled(split.train)
    rows = PartialRows(as_scorer(scores), split, cutoff=10, order=order)
    sample = PartSample([AskedModel(rows, make_metrics(METRICS))], precision=0.01, level=0.95)
    sample.screen(14)
    by_parts = np.flatnonzero(sample.share[:, 0] < 1)
    mine, others = by_parts[:50], by_parts[50:]

    def reports(beside: IntArray) -> FloatArray:
        drawn, lesson = copy.deepcopy(sample), order.lesson
        found = drawn._reports(np.concatenate([mine, beside, mine, beside, mine]))
        (model,) = drawn.slow.values()
        assert isinstance(model.rows.order, Shuffled)
        assert model.rows.order.lesson > lesson  # what was asked is learnt from in the end
        starts = np.arange(3) * len(np.concatenate([mine, beside]))
        return np.stack([found[start : start + len(mine)] for start in starts])

    alone = reports(others[:0])
    assert (alone > 0).any(axis=(1, 2, 3)).all()
    np.testing.assert_array_equal(reports(others), alone)


def test_whole_rows_are_forecast_as_parts_are_and_either_way_may_follow() -> None:
    """A sample that goes on with whole rows forgets neither what screening found nor what draws cost."""
    split, scores = make_world()
    metrics = make_metrics(METRICS)
    exact = values(metrics, exact_ranks(as_scorer(scores), split)).mean(axis=0)
    sample = PartSample(
        [AskedModel(PartialRows(Counting(scores), split, cutoff=10), metrics)], precision=0.01, level=0.95
    )
    sample.screen(14)
    before, cost = sample.expected_drops(), sample.cost_per_row()
    assert before.max() < 0.5 * len(sample.queue)
    sample.draw_parts(False)
    np.testing.assert_allclose(sample.expected_drops(), before)
    np.testing.assert_allclose(sample.weight, sample.slack.max(axis=(1, 2)))
    sample.add_users(10)
    sample.draw_parts(True)
    assert sample.cost_per_row() == pytest.approx(cost, rel=0.2)
    while not sample.is_complete:
        sample.choose_way()
        sample.add_users(sample.affordable(10, None))
    np.testing.assert_allclose(sample.means(), exact, atol=1e-12)
    np.testing.assert_allclose(sample.limits(), np.stack([exact, exact], axis=1), atol=1e-12)


def test_a_metric_that_is_narrow_enough_is_drawn_for_no_more() -> None:
    """Weights and parts are those of the other metric, no bet is placed, and estimate and limits stay."""
    split, scores = make_world()
    metrics = make_metrics(METRICS)
    model = AskedModel(PartialRows(Counting(scores), split, cutoff=10), metrics)
    sample = PartSample([model], precision=0.05, level=0.95)
    sample.screen(14)
    sample.add_users(40)
    both, (recall, ndcg), means = float(sample.weight.sum()), sample.limits(), sample.means()
    sample.need(np.array([False, True]))
    assert float(sample.weight.sum()) < both
    reach = np.where(sample.share[:, 0] == 1, 1.3, 1.0) * sample.reach[:, 0, 1]  # whole rows more often
    np.testing.assert_allclose(sample.weight, np.maximum(reach, 1e-3))
    alone = AskedModel(model.rows, make_metrics("ndcg@10")).parts(sample.queue)
    np.testing.assert_array_equal(sample.share[:, 0], alone.share)
    sample.add_users(40)
    assert (sample.stake[-40:, 0] == 0).all()
    assert (sample.stake[-40:, 1] > 0).all()
    assert sample.means()[0] == pytest.approx(means[0], abs=1e-12)
    after = sample.limits()
    assert recall[0] <= after[0, 0] <= after[0, 1] <= recall[1]  # what is decided is known of it too
    assert after[1, 1] - after[1, 0] < ndcg[1] - ndcg[0]
    sample.need(np.zeros(2, np.bool_))  # nothing is left to do
    assert sample.is_needed.tolist() == [False, True]


@pytest.mark.parametrize("n_reports", [0, 1, 5])
def test_a_forecast_counts_for_two_full_reports(n_reports: int) -> None:
    """Gamma law: with F expected and reports of sum S in n draws, W (2 + S) / (2 W / F + n) are expected."""
    split, scores = make_world()
    model = AskedModel(PartialRows(Counting(scores), split, cutoff=10), make_metrics("ndcg@10"))
    sample = PartSample([model], precision=0.01, level=0.95)
    sample.screen(14)
    sample.add_users(10)
    known = sample.known + sample.ceiling.sum(axis=0)
    sample.drop = np.zeros_like(sample.drop)
    sample.drop[:n_reports] = 0.9
    total, now = float(sample.left[0]), float(sample.weight.sum())
    fallen = float((sample.ceilings[0] - known)[0, 0])  # reports are of what ceilings were then
    drawn = max(total * 0.9 * n_reports / 10 - fallen, 0.0)
    forecast = float(sample._forecast()[0, 0])
    believed = 2 * now / forecast
    expected = (believed * forecast + 10 * drawn) / (believed + 10)
    assert sample.expected_drops()[0, 0] == pytest.approx(expected, rel=1e-9)
    assert sample.estimates()[0, 0] == pytest.approx(float(known[0, 0] - drawn) / sample.n_all, abs=0.02)


def test_a_metric_that_lost_its_evidence_counts_more_than_one_that_is_nearly_done() -> None:
    """Bets on recall are set back, those on NDCG are not: users are drawn for recall above all."""
    split, scores = make_world()
    model = AskedModel(PartialRows(Counting(scores), split, cutoff=10), make_metrics(METRICS))
    sample = PartSample([model], precision=0.05, level=0.95)
    sample.screen(40)
    sample.need(np.ones(2, np.bool_))
    assert sample.importance.tolist() == [1.0, 1.0]
    sample.add_users(30)
    before = sample.weight @ sample.cost[:, 0]
    sample.value = np.ones((30, 2))
    sample.value[20:25, 0] = 1 - 0.9 * (1 - sample.least[20:25, 0])
    sample.need(np.ones(2, np.bool_))
    assert sample.importance[0] == 1.0
    assert sample.importance[1] < 0.7
    assert sample.weight @ sample.cost[:, 0] < before
    counted = (sample.importance * sample.reach[:, 0]).max(axis=1)
    assert (sample.weight >= counted - 1e-12).all()
    sample.add_users(10)
    assert (1 - sample.least[-10:, 1] > 1.2).all()  # of NDCG more than the weight may be reported,
    assert (sample.value >= sample.least - 1e-9).all()  # and no more than that
    assert (sample.stake[-10:] > 0).all()


def test_a_sample_that_overlooks_what_parts_show_misses() -> None:
    """The control: reports of 0 whatever the parts hold."""
    split, scores = make_world()
    metrics = make_metrics("ndcg@10")
    exact = values(metrics, exact_ranks(as_scorer(scores), split)).mean()
    model = AskedModel(PartialRows(Counting(scores), split, cutoff=10), metrics)
    sample = PartSample([model], precision=0.05, level=0.8)
    sample.screen(14)
    sample.add_users(80)
    low, high = sample.limits()[0]
    assert low <= exact <= high
    sample.value = np.ones_like(sample.value)
    assert sample.limits()[0, 0] > exact


def test_parts_within_a_limit_are_the_smallest_that_keep_to_it() -> None:
    rng = np.random.default_rng(2)
    steps = steps_to(10)
    drops = np.sort(rng.random((40, 2, 10)), axis=2)
    free = RowParts.of(drops, steps)
    within = drops[:, :, -1] + rng.random((40, 2))
    parts = RowParts.of(drops, steps, within=within)
    assert (parts.reach <= within + 1e-9).all()
    assert (parts.reach >= drops[:, :, -1]).all()
    chance = 1 - (1 - np.array(SHARES)[:, None]) ** np.arange(1, 11)
    for share, drop, most in zip(parts.share, drops, within, strict=True):
        reach = (drop[:, None] / chance).max(axis=2)
        fits = [one for one, of in zip(SHARES, reach.T, strict=True) if (of <= most + 1e-9).all()]
        assert share == min(fits)
    same = RowParts.of(drops, steps, within=free.reach)
    assert (same.share <= free.share).all()  # what was planned keeps to what was stated


def test_growth_is_that_of_the_best_bet() -> None:
    drop, excluded = 0.03, 0.1
    bets = np.linspace(0, 1, 5000) / (1 - excluded)
    for size in (1.0, 0.6, 0.3):
        share = drop / size
        with np.errstate(divide="ignore"):
            pace = (1 - share) * np.log1p(bets * excluded) + share * np.log1p(bets * (excluded - size))
        assert growth(drop, excluded, size) == pytest.approx(pace.max(), rel=1e-5)
        best = bets[pace.argmax()] * (1 - excluded)
        assert at_risk(drop, excluded, size) == pytest.approx(best, abs=1e-3)
    assert growth(excluded, excluded) == 0
    assert at_risk(excluded, excluded) == 0
