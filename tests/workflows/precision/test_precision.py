"""Evaluation that stops when it is good enough."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.workflows.plan.world import N_ITEMS, N_USERS, Counting, few_users, make_world
from truerank.core.errors import InvalidParameter, TruerankError
from truerank.core.ranks import TiePolicy
from truerank.core.result import Result
from truerank.core.scorer import as_scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.base import GainMetric
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.exact import exact_ranks
from truerank.workflows.evaluate import evaluate
from truerank.workflows.plan.cost import RankingSeconds
from truerank.workflows.precision.model_values import AskedModel
from truerank.workflows.precision.partial_rows import PartialRows
from truerank.workflows.precision.precision import evaluate_to_precision
from truerank.workflows.precision.user_sample import UserSample, fewest_rows, needed_rows

SPLIT, SCORES = make_world()
METRICS = "ndcg@10,recall@10"


def trace(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = result.provenance["ways"]["Counting"]
    return found


def truth(metrics: str = METRICS) -> FloatArray:
    mean: FloatArray = values(make_metrics(metrics), exact_ranks(as_scorer(SCORES), SPLIT)).mean(axis=0)
    return mean


@pytest.mark.parametrize("precision", [0.03, 0.05])
def test_far_fewer_scores_than_exact(precision: float) -> None:
    scorer = Counting(SCORES)
    found = evaluate_to_precision(scorer, SPLIT, METRICS, precision=precision, level=0.999)
    assert found.provenance["scores_computed"]["Counting"] == scorer.count < 0.45 * SCORES.size
    for estimate, exact in zip(found.estimates, truth(), strict=True):
        assert estimate.low is not None
        assert estimate.high is not None
        assert (estimate.high - estimate.low) / 2 <= precision
        assert estimate.low <= exact <= estimate.high
        assert estimate.low <= estimate.value <= estimate.high
        assert (estimate.kind, estimate.target, estimate.method) == ("estimate", "test-users", "betting")
        assert estimate.estimator == "sampled users"
    assert trace(found)["is_reached"]
    assert "a random part of the rest" in str(trace(found)["why"])


def test_repeats_to_the_digit_and_through_json() -> None:
    runs = [
        evaluate_to_precision(Counting(SCORES), SPLIT, METRICS, precision=0.04, seed=5, n_threads=n)
        for n in (1, 2)
    ]
    assert runs[0].estimates == runs[1].estimates
    assert trace(runs[0]) == trace(runs[1])
    assert Result.from_json(runs[0].to_json()).estimates == runs[0].estimates
    other = evaluate_to_precision(Counting(SCORES), SPLIT, METRICS, precision=0.04, seed=6)
    assert other.estimates != runs[0].estimates


def test_a_closer_precision_begins_with_much_the_same_scores() -> None:
    """In the mean over seeds: how far screening goes, and so what is learnt from it, depends on the goal."""
    shares = []
    for seed in range(4):
        rough, close = Counting(SCORES), Counting(SCORES)
        evaluate_to_precision(rough, SPLIT, METRICS, precision=0.08, seed=seed)
        evaluate_to_precision(close, SPLIT, METRICS, precision=0.04, seed=seed)
        shares.append((close.is_asked & rough.is_asked).sum() / rough.is_asked.sum())
    assert np.mean(shares) > 0.85


def test_a_precision_that_needs_everybody_is_exact_and_still_cheaper() -> None:
    scorer = Counting(SCORES)
    found = evaluate_to_precision(scorer, SPLIT, METRICS, precision=1e-5)
    np.testing.assert_allclose([e.value for e in found.estimates], truth(), atol=1e-12)
    assert {(e.kind, e.method, e.estimator) for e in found.estimates} == {("exact", "exact", "exact")}
    assert all(e.low == e.value == e.high for e in found.estimates)
    assert scorer.count < 0.8 * SCORES.size
    assert "Every user is known" in str(trace(found)["why"])


def test_the_budget_is_never_exceeded() -> None:
    for budget in (12_000, 20_000, 30_000):
        scorer = Counting(SCORES)
        found = evaluate_to_precision(scorer, SPLIT, METRICS, precision=0.01, budget=budget)
        assert 0.8 * budget < scorer.count <= budget
        assert not trace(found)["is_reached"]
        assert "allows no further user" in str(trace(found)["why"])
        for estimate, exact in zip(found.estimates, truth(), strict=True):
            assert (estimate.low or 0) <= exact <= (estimate.high or 1)


def test_a_budget_below_the_first_round_gets_a_sentence() -> None:
    scorer = Counting(SCORES)
    sentence = (
        r"^budget must allow a first round: complete rows of 20 users, which may take [\d,]+ scores, or the "
        r"10 most promising items of all 500 users, at most [\d,]+ scores; got 100 scores\. Raise the "
        r"budget\.$"
    )
    with pytest.raises(InvalidParameter, match=sentence):
        evaluate_to_precision(scorer, SPLIT, METRICS, precision=0.01, budget=100)
    with pytest.raises(InvalidParameter, match=r"which may take 5,8\d\d scores; got 100 scores"):
        evaluate_to_precision(scorer, SPLIT, "auc", precision=0.01, budget=100)
    assert scorer.count == 0


@pytest.mark.parametrize("budget", [1_600, 2_100, 3_000, 4_500])
def test_a_budget_that_allows_no_complete_rows_of_20_users_is_used(budget: int) -> None:
    """All users are screened; a draw is begun only where its whole row would be allowed."""
    split, scorer = few_users(SPLIT, 100), Counting(SCORES)
    exact = values(make_metrics(METRICS), exact_ranks(as_scorer(SCORES), split)).mean(axis=0)
    found = evaluate_to_precision(scorer, split, METRICS, precision=0.01, budget=budget)
    told = " ".join(trace(found)["why"])
    assert 0.8 * budget < scorer.count <= budget
    assert "(the budget allows no first round of complete rows)" in told
    assert f"The budget of {budget:,} scores allows no further user." in told
    assert "further scores would reach +-0.01" in told
    assert "That was enough" not in told
    assert " of 100 users were sampled and scored until" in told
    for estimate, mean in zip(found.estimates, exact, strict=True):
        assert (estimate.low or 0) <= mean <= (estimate.high or 1) < 0.6
        assert abs(estimate.value - mean) < 0.25


def test_where_users_cannot_be_screened_a_budget_must_allow_rows() -> None:
    split, scorer = few_users(SPLIT, 100), Counting(SCORES)
    with pytest.raises(InvalidParameter, match=r"20 users, which may take 5,8\d\d scores; got 3,000 "):
        evaluate_to_precision(scorer, split, METRICS, precision=0.01, budget=3_000, target="population")
    assert scorer.count == 0


def test_scores_at_hand_are_all_ranked() -> None:
    found = evaluate_to_precision({"a": as_scorer(SCORES), "b": "popularity"}, SPLIT, METRICS, precision=0.05)
    exact = evaluate({"a": as_scorer(SCORES), "b": "popularity"}, SPLIT, METRICS)
    assert [e.value for e in found.estimates] == [e.value for e in exact.estimates]
    assert {found.provenance["ways"][name]["design"] for name in "ab"} == {"exact"}
    assert "available without calling the model" in found.provenance["ways"]["a"]["why"][0]


def test_scores_at_hand_within_a_budget_are_drawn() -> None:
    found = evaluate_to_precision({"a": as_scorer(SCORES)}, SPLIT, METRICS, precision=0.05, budget=60_000)
    assert found.provenance["ways"]["a"]["design"] == "rows"


def test_costs_decide_where_they_are_given() -> None:
    cheap = RankingSeconds(
        exact_user=1e-9, sampled_user=1.0, sampled_score=1.0, n_users=N_USERS, n_items=N_ITEMS
    )
    found = evaluate_to_precision(Counting(SCORES), SPLIT, METRICS, precision=0.02, costs=cheap)
    assert trace(found)["design"] == "exact"
    dear = replace(cheap, exact_user=1e9)
    found = evaluate_to_precision(Counting(SCORES), SPLIT, METRICS, precision=0.02, costs=dear)
    assert trace(found)["design"] == "rows"


def test_a_population_keeps_the_users_own_variance() -> None:
    found = evaluate_to_precision(Counting(SCORES), SPLIT, METRICS, precision=0.02, target="population")
    one = found.estimate("recall@10")
    assert one.target == "population"
    assert one.n_users == N_USERS
    assert one.value == pytest.approx(truth()[1])
    assert (one.high or 1) - (one.low or 0) > 0.04
    assert not trace(found)["is_reached"]


def test_whole_list_metrics_are_bounded_by_sampled_negatives() -> None:
    """AUC is linear in the rank: a few negatives of all users tell it, while whole rows are dear."""
    split, scores = _larger()
    scorer = Counting(scores)
    found = evaluate_to_precision(scorer, split, "auc", precision=0.05, estimator="naive")
    one = found.estimate("auc")
    exact = values(make_metrics("auc"), exact_ranks(as_scorer(scores), split)).mean()
    assert (one.low or 0) <= exact <= (one.high or 1)
    assert trace(found)["design"] == "negatives"
    assert one.method == "bounds and betting"
    assert (one.n_negatives or 0) >= 30
    assert one.value == pytest.approx(exact, abs=0.02)
    assert scorer.count == trace(found)["n_scores"] < 0.25 * scores.size


def test_rows_go_on_where_bounds_do_not_suffice() -> None:
    found = evaluate_to_precision(Counting(SCORES), SPLIT, "ndcg", precision=0.02, design="negatives")
    assert trace(found)["is_reached"]
    one = found.estimate("ndcg")
    assert (one.low or 0) <= truth("ndcg")[0] <= (one.high or 1)


def _larger() -> tuple[Split, FloatArray]:
    from truerank.core.interactions import Interactions

    rng = np.random.default_rng(8)
    n_users, n_items = 1500, 400
    users = np.arange(n_users)
    items = np.stack([rng.permutation(n_items)[:2] for _ in users])
    train = Interactions.from_codes(users, items[:, 0], n_users=n_users, n_items=n_items)
    test = Interactions.from_codes(users, items[:, 1], n_users=n_users, n_items=n_items)
    scores = rng.normal(size=(n_users, n_items))
    scores[test.user, test.item] += 1
    return Split(train, test, method="toy"), scores


def test_screening_after_sampling_is_about_the_same_mean() -> None:
    """Screening decides users, and their values are the exact ones; bets before and after it add up."""
    metrics = make_metrics(METRICS)
    exact = values(metrics, exact_ranks(as_scorer(SCORES), SPLIT))
    rows = PartialRows(Counting(SCORES), SPLIT, cutoff=10)
    sample = UserSample([AskedModel(rows, metrics)], precision=0.03, level=0.95)
    sample.add_users(50)
    np.testing.assert_allclose(sample.value, exact[sample.sampled], atol=1e-12)
    sample.screen(48)
    settled = np.setdiff1d(np.arange(N_USERS), np.concatenate([sample.sampled, sample.queue]))
    assert len(settled) > 50
    np.testing.assert_allclose(
        sample.known[0], exact[settled].sum(axis=0) + exact[sample.sampled].sum(axis=0), atol=1e-12
    )
    ceiling = sample.ceiling[:20, 0]
    sample.add_users(20)
    np.testing.assert_allclose(sample.value[50:], exact[sample.sampled[50:]] + 1 - ceiling, atol=1e-12)
    assert sample.left[50] == N_USERS - 50 - len(settled)
    low, high = sample.limits().T
    assert (low <= exact.mean(axis=0)).all()
    assert (exact.mean(axis=0) <= high).all()
    sample.add_users(len(sample.queue))
    np.testing.assert_allclose(sample.means(), exact.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(sample.limits(), np.stack([exact.mean(axis=0)] * 2, axis=1), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("depths", [(), (10, 14)])
def test_sampling_is_unbiased_and_covers_at_every_moment(depths: tuple[int, ...]) -> None:
    """Level 0.8, so that misses are seen; a run misses if any of six looks does."""
    metrics = make_metrics("recall@10,ndcg@10")
    exact = values(metrics, exact_ranks(as_scorer(SCORES), SPLIT)).mean(axis=0)
    rows = PartialRows(Counting(SCORES), SPLIT, cutoff=10)
    first = UserSample([AskedModel(rows, metrics)], precision=0.03, level=0.8)
    for depth in depths:
        first.screen(depth)
    assert len(first.queue) > 200
    n_runs, missed, means = 300, np.zeros(2), []
    rng = np.random.default_rng(1)
    for _ in range(n_runs):
        sample = copy.copy(first)  # rows that are decided in one run are not asked for again in the next
        order = rng.permutation(len(first.queue))
        sample.queue = first.queue[order]
        sample.ceiling, sample.slack = first.ceiling[order], first.slack[order]
        left = np.zeros(2, np.bool_)
        for _ in range(6):
            sample.add_users(15)
            low, high = sample.limits().T
            left |= (low > exact + 1e-9) | (high < exact - 1e-9)
        missed += left
        means.append(sample.means())
    assert (missed / n_runs <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / n_runs)).all()
    error = np.std(means, axis=0, ddof=1) / np.sqrt(n_runs)
    assert (np.abs(np.mean(means, axis=0) - exact) < 5 * error).all()


def test_rows_that_are_needed() -> None:
    assert needed_rows(50, 0.1, 0.0, 100) == 0
    assert fewest_rows(0, 0.01, 0.95, 100) == 0
    assert fewest_rows(100, 0.01, 0.95, 10_000) < fewest_rows(1_000, 0.01, 0.95, 10_000)
    assert fewest_rows(100, 0.4999, 0.95, 100) == 1  # two half-widths are everything


@pytest.mark.parametrize("ties", ["expected", "best", "worst", "random"])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_ceilings_are_never_below_values(ties: TiePolicy, n_targets: int) -> None:
    split, scores = make_world(n_targets=n_targets)
    metrics = make_metrics("ndcg@10,recall@10,ap@10,mrr@10,hit@10,precision@10,auc@10,ap(norm=hits)@10")
    exact = values(metrics, exact_ranks(as_scorer(scores), split), ties=ties)
    rows = PartialRows(Counting(scores), split, cutoff=10)
    sample = UserSample([AskedModel(rows, metrics, ties=ties)], precision=0.03, level=0.95)
    before = sample.ceiling.sum(axis=0)[0]
    for depth in (10, 20, 40):
        sample.screen(depth)
        assert (sample.ceiling[:, 0] >= exact[sample.queue] - 1e-12).all()
        assert (
            sample.ceiling[:, 0, -1] == 1
        ).all()  # precision over the hits may grow with further items above
    assert (sample.ceiling.sum(axis=0)[0, :-1] < before[:-1]).all()
    known = np.setdiff1d(np.arange(len(exact)), sample.queue)
    np.testing.assert_allclose(sample.known[0], exact[known].sum(axis=0), atol=1e-9)
    sample.add_users(len(sample.queue))
    np.testing.assert_allclose(sample.means(), exact.mean(axis=0), atol=1e-12)


def test_a_metric_that_grows_with_the_rank_has_no_ceiling() -> None:
    class Late(GainMetric):
        key = "late"

        def gain_at(self, rank: IntArray, n_relevant_above: IntArray) -> FloatArray:
            return np.where(rank > 3, 1.0, 0.1)

        def normaliser(self, n_relevant: IntArray) -> FloatArray:
            return np.ones(np.shape(n_relevant))

    rows = PartialRows(Counting(SCORES), SPLIT, cutoff=10)
    sample = UserSample([AskedModel(rows, [Late(10)])], precision=0.03, level=0.95)
    sample.screen(20)
    assert (sample.ceiling == 1).all()


def test_proxies_are_named_and_change_the_cost_alone() -> None:
    found = {}
    for proxy in ("popularity", "ials(factors=8),item-knn"):
        scorer = Counting(SCORES)
        result = evaluate_to_precision(scorer, SPLIT, METRICS, precision=0.02, proxy=proxy, level=0.999)
        assert ",".join(trace(result)["proxies"]) == proxy
        assert scorer.count == trace(result)["n_scores"]
        for estimate, exact in zip(result.estimates, truth(), strict=True):
            assert (estimate.low or 0) <= exact <= (estimate.high or 1)
        found[proxy] = str(trace(result)["why"])
    known = Counting(SCORES)
    best = evaluate_to_precision(known, SPLIT, METRICS, precision=0.02, proxy=[as_scorer(SCORES)])
    assert trace(best)["proxies"] == ["DenseScores"]
    assert known.count < scorer.count  # a proxy that knows the scores is the cheapest one
    assert "in the order of popularity" in found["popularity"]
    assert "in the order of ials(factors=8) and item-knn" in found["ials(factors=8),item-knn"]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"precision": 0}, r"precision is the wanted half-width .* must lie in \(0, 0.5\), got 0\."),
        ({"precision": 0.5}, r"must lie in \(0, 0.5\), got 0.5\."),
        ({"proxy": "eas"}, "Did you mean 'ease'"),
        ({"proxy": [np.zeros((3, 4))]}, "must know the 240 items of the data, it knows 4"),
        ({"proxy": ""}, "at least one model is needed"),
        ({"budget": 0}, "budget must be a number of scores >= 1, got 0"),
        ({"budget": 1.5}, "budget must be a number of scores >= 1, got 1.5"),
        ({"level": 1}, "level must lie between 0 and 1"),
        ({"target": "users"}, "target must be one of test-users, population"),
        ({"design": "best"}, "design must be one of auto, exact, rows, negatives"),
        ({"design": "negatives", "target": "population"}, "Use design='rows' for a population"),
        ({"design": "exact", "budget": 1000}, "exact evaluation takes 120,000 scores, the budget is 1,000"),
        ({"ties": "coin"}, "ties must be one of"),
        ({"estimator": "bw"}, "Did you mean 'bv'"),
        ({"metrics": "ndcg@1000"}, "cutoff of ndcg@1000 must be at most"),
    ],
)
def test_bad_input_gets_a_sentence(changed: dict[str, object], sentence: str) -> None:
    given: dict[str, object] = {"metrics": METRICS, "precision": 0.05, **changed}
    with pytest.raises(TruerankError, match=sentence):
        evaluate_to_precision(Counting(SCORES), SPLIT, given.pop("metrics"), **given)  # type: ignore[arg-type]


def test_unknown_keyword() -> None:
    with pytest.raises(TypeError, match="desing"):
        evaluate_to_precision(Counting(SCORES), SPLIT, METRICS, precision=0.05, desing="rows")  # type: ignore[call-arg]


def test_a_split_without_targets_gets_a_sentence() -> None:
    empty = replace(SPLIT, test=SPLIT.test.where(np.zeros(len(SPLIT.test), np.bool_)))
    with pytest.raises(TruerankError, match="must hold at least one target"):
        evaluate_to_precision(Counting(SCORES), empty, METRICS, precision=0.05)


@pytest.mark.data
def test_movielens_takes_a_few_percent() -> None:
    """The case of the brief: 6,040 users x 3,706 items, a scorer that must be asked, +-0.01."""
    from truerank.data.catalogue import find_local, load
    from truerank.models.registry import MODELS
    from truerank.split.base import make_split

    if find_local("ml-1m") is None:
        pytest.skip("ml-1m is not in the data folder")
    split = make_split(load("ml-1m"), "leave-last-out")
    fitted = MODELS.make("popularity").fit(split.train)
    one = np.asarray(fitted.score(np.array([0]), np.arange(split.train.n_items)))
    scorer = Counting(np.broadcast_to(one, (split.train.n_users, split.train.n_items)))
    found = evaluate_to_precision(scorer, split, METRICS, precision=0.01, proxy="popularity")
    exact = values(make_metrics(METRICS), exact_ranks(fitted, split)).mean(axis=0)
    assert scorer.count < 0.03 * len(split.test) * split.train.n_items
    for estimate, value in zip(found.estimates, exact, strict=True):
        assert (estimate.low or 0) <= value <= (estimate.high or 1)
    assert json.loads(found.to_json())["provenance"]["ways"]["Counting"]["is_reached"]


def test_what_the_result_says_about_its_values() -> None:
    drawn = evaluate_to_precision(Counting(SCORES), SPLIT, METRICS, precision=0.05)
    assert drawn.provenance["sampler"] == "users in random order"
    assert drawn.estimates[0].n_users < N_USERS
    exact = evaluate_to_precision(as_scorer(SCORES), SPLIT, METRICS, precision=0.05)
    assert exact.provenance["sampler"] is None
    assert exact.estimates[0].n_users == N_USERS
