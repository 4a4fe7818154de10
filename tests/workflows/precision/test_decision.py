"""Slow models are asked until it is known which of them is better."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from tests.workflows.plan.world import N_USERS, Counting, few_users, make_world
from truerank.core.errors import InvalidParameter, TruerankError
from truerank.core.progress import SILENT
from truerank.core.scorer import as_scorer
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.metrics.registry import make_metrics, values
from truerank.models.slow.slow_scorer import SlowScorer, slow_scorer
from truerank.ranking.exact import exact_ranks
from truerank.workflows.compare.compare import compare
from truerank.workflows.compare.result import Comparison, Strength, Verdict
from truerank.workflows.precision.decision import DecisionResult, DecisionSearch
from truerank.workflows.precision.goal import DecisionGoal

SPLIT, SCORES = make_world()
RNG = np.random.default_rng(12)


def worse(by: float) -> FloatArray:
    """Return scores of a model that knows less about the targets."""
    scores = SCORES + 0.01 * RNG.normal(size=SCORES.shape)
    scores[SPLIT.test.user, SPLIT.test.item] -= by
    return scores


def means(scores: FloatArray, metrics: str) -> FloatArray:
    found: FloatArray = values(make_metrics(metrics), exact_ranks(as_scorer(scores), SPLIT)).mean(axis=0)
    return found


def decided(named: dict[str, Any], metrics: str = "ndcg@10", **options: Any) -> Comparison:
    return compare(named, SPLIT, metrics, decide=True, proxy="popularity", **options)


def asked(scorer: Counting, found: Comparison, name: str) -> float:
    assert found.provenance["scores_computed"][name] == scorer.count
    return scorer.count / SCORES.size


def test_a_clear_difference_takes_few_scores() -> None:
    other = worse(1.5)
    a, b = Counting(SCORES), Counting(other)
    found = decided({"a": a, "b": b})
    (one,) = found.differences
    assert one.verdict is Verdict.FIRST
    assert one.strength is Strength.SAMPLED_USERS
    assert (one.method, one.target, one.n_users) == ("betting", "test-users", N_USERS)
    truth = float((means(SCORES, "ndcg@10") - means(other, "ndcg@10"))[0])
    assert one.low is not None
    assert one.high is not None
    assert 0 < one.low <= truth <= one.high
    assert one.low <= one.value <= one.high
    assert max(asked(a, found, "a"), asked(b, found, "b")) < 0.3
    assert one.sentence.startswith("a beats b in ndcg@10 on these 500 users: +")
    assert f"at 95 % confidence; asked were {a.count:,} scores of a, " in one.sentence
    assert one.sentence.endswith(" % of exact evaluation.")
    assert found.estimates[0].kind != "exact"
    assert Comparison.from_json(found.to_json()).differences == found.differences


@pytest.mark.slow
def test_orders_of_models_and_threads_change_nothing() -> None:
    other = worse(0.8)
    runs = [decided({"a": Counting(SCORES), "b": Counting(other)}, n_threads=n, seed=3) for n in (1, 2)]
    assert runs[0].differences == runs[1].differences
    (one,) = runs[0].differences
    (turned,) = decided({"b": Counting(other), "a": Counting(SCORES)}, seed=3).differences
    assert turned.verdict is Verdict.SECOND
    assert (one.low, one.high) == pytest.approx((-(turned.high or 0), -(turned.low or 0)), abs=1e-6)
    (elsewhere,) = decided({"a": Counting(SCORES), "b": Counting(other)}, seed=4).differences
    assert elsewhere.low != one.low


@pytest.mark.slow
def test_equal_models_are_asked_about_everybody_and_known() -> None:
    found = decided({"a": Counting(SCORES), "b": Counting(SCORES)}, "recall@10,ndcg@10")
    truth = means(SCORES, "recall@10,ndcg@10")
    for one, value in zip(found.differences, truth, strict=True):
        assert (one.verdict, one.strength, one.method) == (Verdict.EQUAL, Strength.EXACT, "exact")
        assert one.low == one.value == one.high == 0
        assert f"over all users the values are {value:.4f} and {value:.4f}; asked" in one.sentence
    np.testing.assert_allclose([e.value for e in found.estimates], [*truth, *truth], atol=1e-12)
    assert {e.kind for e in found.estimates} == {"exact"}


def test_small_differences_are_within_the_margin() -> None:
    other = worse(0.02)
    a, b = Counting(SCORES), Counting(other)
    (one,) = decided({"a": a, "b": b}, tie_margin=0.1).differences
    assert one.verdict is Verdict.EQUIVALENT
    assert -0.1 <= (one.low or 0) <= (one.high or 0) <= 0.1
    assert one.sentence.startswith("a and b are equivalent in ndcg@10 within 0.1 on these 500 users: ")
    assert max(a.count, b.count) < 0.5 * SCORES.size


def test_a_model_that_has_lost_is_asked_no_more() -> None:
    rival = worse(0.25)
    scorers = {"a": Counting(SCORES), "b": Counting(rival), "last": Counting(worse(4.0))}
    found = decided(dict(scorers))
    assert scorers["last"].count < 0.6 * min(scorers["a"].count, scorers["b"].count)
    assert "a is the best of 3 models in ndcg@10." in found.notes
    by_pair = {(one.first, one.second): one for one in found.differences}
    assert by_pair["a", "b"].verdict is Verdict.FIRST
    for one in found.differences:
        truth = {"a": SCORES, "b": rival, "last": scorers["last"].scores}
        exact = float((means(truth[one.first], "ndcg@10") - means(truth[one.second], "ndcg@10"))[0])
        assert (one.low or 0) - 1e-9 <= exact <= (one.high or 0) + 1e-9
        assert one.verdict.is_decided or "were not told apart in ndcg@10, because another" in one.sentence


def test_against_a_baseline_every_difference_is_decided() -> None:
    scorers = {"a": Counting(SCORES), "b": Counting(worse(0.4)), "last": Counting(worse(3.0))}
    found = decided(dict(scorers), baseline="b")
    assert [(one.first, one.second, one.verdict) for one in found.differences] == [
        ("a", "b", Verdict.FIRST),
        ("last", "b", Verdict.SECOND),
    ]
    assert not any("best of" in note for note in found.notes)


def test_scores_at_hand_are_ranked_and_only_the_slow_model_is_asked() -> None:
    slow = Counting(worse(1.5))
    found = decided({"table": as_scorer(SCORES), "slow": slow, "zero": as_scorer(np.zeros(SCORES.shape))})
    by_pair = {(one.first, one.second): one for one in found.differences}
    assert by_pair["table", "slow"].verdict is Verdict.FIRST
    assert by_pair["table", "zero"].strength is Strength.EXACT
    assert found.estimates[0].value == pytest.approx(means(SCORES, "ndcg@10")[0], abs=1e-12)
    assert found.estimates[0].kind == "exact"
    assert slow.count < 0.3 * SCORES.size
    assert "scores of table" not in by_pair["table", "slow"].sentence
    assert any("ranked for all users with table and zero" in note for note in found.notes)


@pytest.mark.slow
@pytest.mark.parametrize("metrics", ["auc", "ndcg@5,ap@10,mrr@3,hit@1"])
@pytest.mark.parametrize("ties", ["random", "worst"])
def test_other_metrics_and_several_targets(metrics: str, ties: Any) -> None:
    split, scores = make_world(n_targets=3)
    other = scores + np.random.default_rng(1).normal(size=scores.shape)
    found = compare(
        {"a": Counting(scores), "b": Counting(other)},
        split,
        metrics,
        decide=True,
        proxy="popularity",
        ties=ties,
        level=0.999,
    )
    pair = [
        values(make_metrics(metrics), exact_ranks(as_scorer(s), split), ties=ties) for s in (scores, other)
    ]
    truth = (pair[0] - pair[1]).mean(axis=0)
    for one, exact in zip(found.differences, truth, strict=True):
        assert one.verdict is (Verdict.FIRST if exact > 0 else Verdict.SECOND)
        assert (one.low or 0) - 1e-9 <= exact <= (one.high or 0) + 1e-9


class Veiled:
    """Values that show themselves when they are asked for, ceilings before: a model without scores."""

    def __init__(self, value: FloatArray, depth: IntArray, whole: int = 50) -> None:
        self.metrics = make_metrics("recall@10")
        self.users, self.value, self.needs, self.whole = np.arange(len(value)), value, depth, whole
        self.is_open: BoolArray = np.ones(len(value), np.bool_)
        self.n_scores = 0

    def advance(self, row: IntArray, depth: int | None = None) -> None:
        at = row[self.is_open[row]]
        self.n_scores += int(len(at) * (depth or self.whole))
        self.is_open[at if depth is None else at[self.needs[at] <= depth]] = False

    def values(self, row: IntArray) -> FloatArray:
        found: FloatArray = self.value[row, None]
        return found

    def ceilings(self, row: IntArray) -> FloatArray:
        return np.where(self.is_open[row, None], 1.0, self.values(row))

    def row_scores(self) -> float:
        return float(self.whole)


def veiled_decision(seed: int, level: float, n_users: int = 120) -> tuple[DecisionResult, bool]:
    """Decide between two models of exactly the same mean; return whether an interval missed 0."""
    rng = np.random.default_rng(5)
    a = (rng.random(n_users) < 0.3) * 1.0
    models = {
        name: Veiled(value, np.where(value > 0, 99, rng.choice([10, 14, 20, 99], n_users)))
        for name, value in (("a", a), ("b", rng.permutation(a)))
    }
    goal = DecisionGoal(make_metrics("recall@10"), ((0, 1),), seed=seed, level=level)
    found = DecisionSearch(models, goal, [], 50, SILENT).run()
    low, high = found.limits[0, 0]
    return found, not low - 1e-9 <= 0 <= high + 1e-9


@pytest.mark.stat
@pytest.mark.slow
def test_equal_models_are_rarely_told_apart() -> None:
    """At level 0.8 at most a fifth of the decisions between equal models may be wrong.

    Power: 400 runs reject a rule that is wrong in 36 % of them with 99 %. The control, which stops when the
    usual interval excludes 0, is rejected.
    """
    n_runs = 400
    wrong = sum(veiled_decision(seed, 0.8)[1] for seed in range(n_runs))
    assert binom.sf(wrong - 1, n_runs, 0.2) > 1e-6
    rng = np.random.default_rng(7)
    a, b = (np.repeat([1.0, 0.0], [36, 84]) for _ in range(2))
    naive = 0
    for _ in range(n_runs):
        difference = rng.permutation(rng.permutation(a) - rng.permutation(b))
        n = np.arange(1, len(a) + 1)
        mean = np.cumsum(difference) / n
        error = np.sqrt(np.maximum(np.cumsum(difference**2) / n - mean**2, 0) / n * (1 - (n - 1) / len(a)))
        naive += bool((np.abs(mean) > 1.28 * error)[15:100:4].any())
    assert binom.sf(naive - 1, n_runs, 0.2) < 1e-6


def test_pairs_are_simultaneous_and_dropped_models_keep_their_intervals() -> None:
    rng = np.random.default_rng(2)
    rates = (0.9, 0.5, 0.1)
    value = [(rng.random(300) < rate) * 1.0 for rate in rates]
    models = {str(k): Veiled(one, np.where(one > 0, 99, 10)) for k, one in enumerate(value)}
    goal = DecisionGoal(make_metrics("recall@10"), tuple(combinations(range(3), 2)))
    assert goal.pair_level == pytest.approx(1 - 0.05 / 3)
    found = DecisionSearch(models, goal, [], 50, SILENT).run()
    for (a, b), limits, verdict in zip(goal.pairs, found.limits, found.verdicts, strict=True):
        truth = value[a].mean() - value[b].mean()
        assert limits[0, 0] - 1e-9 <= truth <= limits[0, 1] + 1e-9
        assert verdict[0] in (Verdict.FIRST, Verdict.NOISE)
    assert found.verdicts[0][0] is Verdict.FIRST
    assert found.verdicts[1][0] is Verdict.FIRST


def test_the_better_model_alone_is_scored_to_the_end() -> None:
    """The ceilings of the other are enough; users without a chance of a gain are known as they are."""
    rng = np.random.default_rng(4)
    n_users = 400
    ceilings = [rng.choice([0.0, 0.3, 1.0], n_users, p=p) for p in ([0.5, 0.2, 0.3], [0.8, 0.1, 0.1])]
    values_of = [np.where(rng.random(n_users) < 0.1, 0.0, ceiling) for ceiling in ceilings]

    class Ceiled(Veiled):
        def ceilings(self, row: IntArray) -> FloatArray:
            above = np.where(self.value > 0, self.value, self.needs / 1000)
            return np.where(self.is_open[row, None], above[row, None], self.values(row))

    models = {
        name: Ceiled(value, np.where(ceiling > 0, (1000 * ceiling).astype(np.int64), 10), whole=2000)
        for name, value, ceiling in zip("ab", values_of, ceilings, strict=True)
    }
    goal = DecisionGoal(make_metrics("recall@10"), ((0, 1),))
    found = DecisionSearch(models, goal, [], 2000, SILENT).run()
    assert found.verdicts[0][0] is Verdict.FIRST
    assert found.limits[0, 0, 0] <= values_of[0].mean() - values_of[1].mean() <= found.limits[0, 0, 1]
    assert models["b"].n_scores < models["a"].n_scores


def test_models_that_are_left_are_drawn_by_their_own_slack() -> None:
    """After one model was asked alone and another one is left out, every open user may be drawn again."""
    rng = np.random.default_rng(3)
    value = [(rng.random(60) < rate) * 1.0 for rate in (0.6, 0.5, 0.1)]
    models = {str(k): Veiled(one, np.where(one > 0, 99, 10)) for k, one in enumerate(value)}
    goal = DecisionGoal(make_metrics("recall@10"), tuple(combinations(range(3), 2)))
    search = DecisionSearch(models, goal, [], 50, SILENT)
    sample = search.sample
    sample.screen(10)
    sample.ask([0])
    sample.add_users(5)
    sample.keep([0, 1], [0])
    assert sample.is_asked.all()
    np.testing.assert_allclose(sample.weight, sample.slack.max(axis=(1, 2)))
    assert sample.n_candidates == len(sample.queue)
    sample.add_users(len(sample.queue))
    assert sample.is_complete
    np.testing.assert_allclose(sample.limits(), value[0].mean() - value[1].mean(), atol=1e-12)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"models": ["popularity"]}, "a comparison needs at least two models, got 1"),
        ({"tie_margin": 0}, "tie_margin must lie between 0 and 1, got 0"),
        ({"tie_margin": 1.5}, "tie_margin must lie between 0 and 1, got 1.5"),
        ({"baseline": "c"}, "unknown baseline 'c'"),
        ({"level": 1}, "level must lie between 0 and 1"),
        (
            {"sampler": "uni100"},
            "decide chooses items and users itself.* Leave out sampler, or leave out decide",
        ),
        ({"by": "history"}, "Leave out by, or leave out decide"),
        ({"target": "population"}, "Leave out target, or leave out decide"),
        ({"proxy": "eas"}, "Did you mean 'ease'"),
        ({"proxy": [np.zeros((3, 4))]}, "must know the 240 items of the data, it knows 4"),
        ({"decide": False}, "proxy needs decide=True"),
        ({"scores": "none.db"}, "only scores of slow models, .* are kept, but a and b are none"),
        ({"split": None, "models": {}}, "decide asks models for scores, which needs models and a split"),
    ],
)
def test_bad_input_gets_a_sentence(changed: dict[str, Any], sentence: str) -> None:
    scorers = {"a": Counting(SCORES), "b": Counting(SCORES)}
    given: dict[str, Any] = {
        "models": scorers,
        "split": SPLIT,
        "metrics": "ndcg@10",
        "decide": True,
        "proxy": "popularity",
        **changed,
    }
    with pytest.raises(TruerankError, match=sentence):
        compare(given.pop("models"), given.pop("split"), given.pop("metrics"), **given)
    assert scorers["a"].count == scorers["b"].count == 0


def test_a_goal_for_a_population_gets_a_sentence() -> None:
    with pytest.raises(InvalidParameter, match="a decision is about the test users"):
        DecisionGoal(make_metrics("ndcg@10"), ((0, 1),), target="population")


def test_kept_scores_are_not_asked_for_again(tmp_path: Path) -> None:
    """Two slow models share a file; a second decision costs nothing, and scores of an evaluation are used."""
    other, path = worse(1.5), tmp_path / "scores.db"

    def models() -> dict[str, SlowScorer]:
        return {
            name: slow_scorer(partial(looked_up, scores), SPLIT.train, batch=100, version="1")
            for name, scores in (("a", SCORES), ("b", other))
        }

    first = decided(models(), scores=path)
    again = decided(models(), scores=path)
    plain = decided(models())
    assert first.differences == plain.differences
    assert [one.low for one in again.differences] == [one.low for one in first.differences]
    assert {way["n_asked"] for way in again.provenance["ways"].values()} == {0}
    assert all(way["n_asked"] == way["n_scores"] for way in first.provenance["ways"].values())
    assert "(0 of them now)" in again.differences[0].sentence


def looked_up(scores: FloatArray, users: list[int], items: list[int]) -> FloatArray:
    return scores[users, items]


@pytest.mark.slow
@pytest.mark.parametrize("budget", [12_000, 25_000, 40_000])
def test_a_budget_is_never_exceeded_and_the_interval_so_far_is_printed(budget: int) -> None:
    other = worse(0.05)
    a, b = Counting(SCORES), Counting(other)
    found = decided({"a": a, "b": b}, budget=budget)
    assert a.count + b.count <= budget
    (one,) = found.differences
    truth = float((means(SCORES, "ndcg@10") - means(other, "ndcg@10"))[0])
    assert (one.low or 0) - 1e-9 <= truth <= (one.high or 0) + 1e-9
    assert one.verdict is Verdict.NOISE
    assert one.sentence.startswith("a and b were not told apart in ndcg@10, before the budget ended: their ")
    (note,) = [note for note in found.notes if "budget" in note]
    assert note.startswith(f"the budget of {budget:,} scores has ended before everything was decided. The ")
    assert "further scores (" in note
    assert found.provenance["budget"] == budget
    assert not found.provenance["ways"]["a"]["is_reached"]
    assert Comparison.from_json(found.to_json()).differences == found.differences


@pytest.mark.slow
def test_more_budget_gives_narrower_intervals_and_enough_changes_nothing() -> None:
    other = worse(0.05)
    widths = []
    for budget in (12_000, 25_000, 60_000):
        (one,) = decided({"a": Counting(SCORES), "b": Counting(other)}, budget=budget).differences
        widths.append((one.high or 0) - (one.low or 0))
    assert widths[0] > widths[1] > widths[2]
    clear = worse(1.5)
    free = decided({"a": Counting(SCORES), "b": Counting(clear)})
    rich = decided({"a": Counting(SCORES), "b": Counting(clear)}, budget=10**7)
    assert free.differences == rich.differences
    assert not [note for note in rich.notes if "budget" in note]


def test_money_is_a_number_of_scores_of_all_models() -> None:
    other = worse(0.05)
    paid = decided({"a": Counting(SCORES), "b": Counting(other)}, budget="10usd", price=0.5)
    counted = decided({"a": Counting(SCORES), "b": Counting(other)}, budget=20_000)
    (one,), (same,) = paid.differences, counted.differences
    assert (one.low, one.high) == (same.low, same.high)
    assert "budget of 10usd (20,000 scores) has ended" in " ".join(paid.notes)
    assert " usd, " in one.sentence
    ways = paid.provenance["ways"]
    assert ways["a"]["cost"] == pytest.approx(ways["a"]["n_scores"] * 0.5 / 1000)


def test_a_budget_that_allows_no_complete_rows_is_used_for_screening() -> None:
    few, other = few_users(SPLIT, 100), worse(1.5)
    for budget in (3_500, 6_000):
        a, b = Counting(SCORES), Counting(other)
        found = compare({"a": a, "b": b}, few, "ndcg@10", decide=True, proxy="popularity", budget=budget)
        (one,) = found.differences
        exact = [values(make_metrics("ndcg@10"), exact_ranks(as_scorer(s), few)) for s in (SCORES, other)]
        truth = float((exact[0] - exact[1]).mean())
        assert 0.5 * budget < a.count + b.count <= budget
        assert a.count > b.count  # of the worse model the ceilings are low enough
        assert (one.low or -1) <= truth <= (one.high or 1)
        assert (one.high or 1) < 0.6


class Ticking:
    """A clock that each score moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


def test_the_clock_ends_a_decision_with_a_valid_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, other = Ticking(monkeypatch), worse(0.05)

    class Slow(Counting):
        def score(self, users: IntArray, items: IntArray) -> FloatArray:
            found = super().score(users, items)
            clock.now += 0.001 * np.size(found)
            return found

    a, b = Slow(SCORES), Slow(other)
    found = decided({"a": a, "b": b}, budget="20s")
    assert clock.now < 1000 + 20 + 3
    (one,) = found.differences
    truth = float((means(SCORES, "ndcg@10") - means(other, "ndcg@10"))[0])
    assert (one.low or 0) - 1e-9 <= truth <= (one.high or 0) + 1e-9
    assert "before the budget ended" in one.sentence
    assert any(note.startswith("the budget of 20 s has ended") for note in found.notes)


@pytest.mark.slow
def test_decisions_that_a_budget_ends_are_rarely_wrong() -> None:
    """Level 0.8: intervals of 100 seeds that miss the difference, at most 0.2 and three standard errors."""
    other = worse(0.3)
    truth = float((means(SCORES, "ndcg@10") - means(other, "ndcg@10"))[0])
    missed = 0
    for seed in range(100):
        named = {"a": Counting(SCORES), "b": Counting(other)}
        (one,) = decided(named, budget=15_000, seed=seed, level=0.8).differences
        missed += not (one.low or 0) - 1e-9 <= truth <= (one.high or 0) + 1e-9
    assert missed <= 100 * 0.2 + 3 * np.sqrt(100 * 0.2 * 0.8)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"budget": 100},
            "budget must allow a first round of all models together: complete rows of 20 users",
        ),
        ({"budget": 0}, "budget must be a number of scores >= 1, got 0"),
        ({"budget": "20usd"}, "budget=20usd is an amount of money and needs price"),
        ({"budget": "soon"}, "budget must be a number of scores such as 50000, a time such as 600s"),
        ({"price": -1}, "price must be what 1,000 scores cost"),
    ],
)
def test_bad_budgets_get_a_sentence(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TruerankError, match=sentence):
        decided({"a": Counting(SCORES), "b": Counting(worse(0.1))}, **changed)


def test_a_budget_needs_decide() -> None:
    with pytest.raises(InvalidParameter, match="budget needs decide=True"):
        compare({"a": Counting(SCORES), "b": Counting(SCORES)}, SPLIT, "ndcg@10", budget=1000)
