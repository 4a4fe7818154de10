"""From sampled ranks to estimates, in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import truerank
import truerank.estimation.tally as tally_module
from truerank.core.errors import CannotEstimate, InvalidParameter
from truerank.core.ranks import Design, SampledRanks, TiePolicy
from truerank.data.demo import demo
from truerank.split.base import make_split
from truerank.workflows.estimate import estimate
from truerank.workflows.evaluate import evaluate


@pytest.fixture(scope="module")
def small() -> truerank.Split:
    return make_split(demo(n_users=300, n_items=400), "leave-last-out")


def test_naive_is_the_sampled_metric() -> None:
    """Ranks 1, 4, 1, 8 of 10: recall@3 is 1/2, mrr (1 + 1/4 + 1 + 1/8)/4, auc mean of (10 - r)/9."""
    ranks = SampledRanks.single([0, 3, 0, 7], n_negatives=9, n_pool=1000)
    result = estimate(ranks, "recall@3,mrr,auc", "naive")
    assert result.value("recall@3") == pytest.approx(1 / 2)
    assert result.value("mrr") == pytest.approx((1 + 1 / 4 + 1 + 1 / 8) / 4)
    assert result.value("auc") == pytest.approx((9 + 6 + 9 + 2) / 9 / 4)


def test_fields_of_an_estimate() -> None:
    ranks = SampledRanks.single([0, 3, 0, 7], n_negatives=9, n_pool=1000)
    found = estimate({"a": ranks, "b": ranks}, "recall@3", ["naive", "rank-estimate"], uncertainty="sampling")
    assert [(e.model, e.estimator) for e in found.estimates] == [
        ("a", "naive"),
        ("a", "rank-estimate"),
        ("b", "naive"),
        ("b", "rank-estimate"),
    ]
    one = found.estimate("recall@3", "a", "naive")
    assert (one.kind, one.method, one.n_users, one.n_negatives) == ("estimate", "delta, ignores bias", 4, 9)
    assert one.target == "test-users"
    assert found.data["most_negatives"] == 9


def test_the_interval_for_the_population_is_over_users() -> None:
    """Half of the users hit: their standard deviation is that of a coin."""
    ranks = SampledRanks.single([0, 3, 0, 7] * 40, n_negatives=9, n_pool=1000)
    one = estimate(ranks, "recall@3", "naive", target="population", uncertainty="delta").estimates[0]
    assert one.low is not None and one.high is not None
    half = 1.974996 * np.sqrt(0.25 * 160 / 159) / np.sqrt(160)  # Student's t with 159 degrees of freedom
    assert one.high - one.value == pytest.approx(half, rel=1e-6)
    assert one.value - one.low == pytest.approx(half, rel=1e-6)
    assert one.target == "population"


def test_one_user_has_bounds_for_an_interval() -> None:
    """One value tells no spread; what its sampled rank allows is known all the same."""
    one = estimate(SampledRanks.single([0], n_negatives=9, n_pool=100), "mrr", "naive").estimates[0]
    assert one.low is not None and one.high is not None
    assert 0 < one.low < 0.1 and one.high == 1
    assert one.method == "identification bounds: there is no posterior with fewer than 50 users"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "uncertainty"),
    [("smooth", "auto"), ("mle", "bootstrap(resamples=50)"), ("bv", "bias-aware"), ("bv,smooth", "bounds")],
)
def test_ranks_are_counted_once(estimator: str, uncertainty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates, intervals, bounds and the advice on more negatives share one tally per model."""
    calls, places = [], tally_module._positions

    def counting(ranks: SampledRanks, ties: TiePolicy, seed: int) -> Any:
        calls.append(ties)
        return places(ranks, ties, seed)

    monkeypatch.setattr(tally_module, "_positions", counting)
    pools = np.arange(400, 460)
    drawn = np.random.default_rng(0).beta(0.5, 2, len(pools)) * 20
    ranks = SampledRanks.single(drawn.astype(int), n_negatives=20, n_pool=pools)
    found = estimate(ranks, "recall@5", estimator, uncertainty=uncertainty, bounds=True)
    assert len(found.bounds) == 1 and "would resolve it to" in found.notes[0]
    assert len(calls) == 1


def test_full_sample_is_exact(small: truerank.Split) -> None:
    """All candidates sampled without replacement: the sampled metric is the exact one."""
    result = evaluate(
        "ials(sweeps=2)",
        small,
        "ndcg@10,recall@10,ap,auc",
        sampler="full",
        estimators=["naive", "rank-estimate"],
        check=True,
    )
    for metric in result.metrics():
        exact = result.value(metric, estimator="exact")
        assert result.value(metric, estimator="naive") == pytest.approx(exact, abs=1e-12)
        assert result.value(metric, estimator="rank-estimate") == pytest.approx(exact, abs=1e-12)


def test_auc_is_unbiased_and_recall_is_not(small: truerank.Split) -> None:
    result = evaluate(
        "popularity", small, "auc,recall@10", sampler="uniform(m=50)", estimators="naive,bv", check=True
    )
    exact, naive = result.estimate("auc", estimator="exact"), result.estimate("auc", estimator="naive")
    assert naive.value == pytest.approx(exact.value, abs=0.02)
    assert result.value("recall@10", estimator="naive") > 2 * result.value("recall@10", estimator="exact")
    scores = result.provenance["scores_computed"]["popularity"]
    assert scores == 300 * 51 + 300 * 400
    assert result.provenance["sampler"] == "uniform(m=50)"


def test_threads_and_seed(small: truerank.Split) -> None:
    options: dict[str, Any] = {"sampler": "uniform(m=20)", "estimators": "bv"}
    one = evaluate("ease", small, n_threads=1, seed=3, **options)
    assert evaluate("ease", small, n_threads=3, seed=3, **options).estimates == one.estimates
    assert evaluate("ease", small, n_threads=3, seed=4, **options).estimates != one.estimates


def test_estimators_refuse_other_designs() -> None:
    ranks = SampledRanks.single([0, 3], n_negatives=9, n_pool=100, design=Design(law="popularity"))
    assert estimate(ranks, "mrr", "naive").value("mrr") == pytest.approx((1 + 1 / 4) / 2)
    with pytest.raises(CannotEstimate, match="drawn uniformly, got design 'popularity'"):
        estimate(ranks, "mrr", "bv")
    with pytest.raises(CannotEstimate, match="not a sum over targets"):
        estimate(SampledRanks.single([0], n_negatives=9, n_pool=100), "ap(norm=hits)@5", "bv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimators": []}, "at least one estimator is needed"),
        ({"ties": "coin"}, "ties must be one of"),
        ({"level": 2.0}, "level must lie between 0 and 1"),
        ({"estimators": "bv(gamma=2)"}, "gamma"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    ranks = SampledRanks.single([0, 3], n_negatives=9, n_pool=100)
    with pytest.raises(InvalidParameter, match=message):
        estimate(ranks, "mrr", **options)  # type: ignore[arg-type]


def test_estimators_need_a_sampler(small: truerank.Split) -> None:
    with pytest.raises(InvalidParameter, match="need sampled ranks"):
        evaluate("popularity", small, estimators="bv")
    with pytest.raises(InvalidParameter, match="need sampled ranks"):
        evaluate("popularity", small, check=True)


@pytest.mark.slow
def test_bounds_stand_beside_estimates(small: truerank.Split) -> None:
    result = evaluate(
        "ials(sweeps=2)", small, "recall@1,auc", sampler="uniform(m=20)", bounds=True, check=True
    )
    exact = {e.metric: e.value for e in result.estimates if e.kind == "exact"}
    assert [(b.metric, b.kind, b.estimator, b.target) for b in result.bounds] == [
        ("recall@1", "bound", "bounds", "test-users"),
        ("auc", "bound", "bounds", "test-users"),
    ]
    for bound in result.bounds:
        assert bound.low is not None and bound.high is not None
        assert bound.low <= exact[bound.metric] <= bound.high
    (note,) = [note for note in result.notes if "recall@1" in note]
    assert note.startswith("ials(sweeps=2): K = 1 is below what this sample can resolve: any recall@1 from")
    assert truerank.Result.from_json(result.to_json()) == result


def test_bounds_that_cannot_be_had_are_a_note(small: truerank.Split) -> None:
    options: dict[str, Any] = {"sampler": "popularity(m=9)", "estimators": "naive", "bounds": True}
    result = evaluate("ials(sweeps=2)", small, "recall@1", **options)
    assert result.bounds == ()
    assert result.notes == (
        "ials(sweeps=2): bounds need negatives that were drawn uniformly, got design 'popularity'. "
        "Sample uniformly.",
    )


def test_bounds_need_a_sample(small: truerank.Split) -> None:
    with pytest.raises(InvalidParameter, match="estimators, bounds and check need sampled ranks"):
        evaluate("popularity", small, bounds=True)


def test_bounds_that_would_take_long_are_left_out_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = SampledRanks.single(np.arange(80) ** 2 // 700, n_negatives=9, n_pool=100)
    quick = estimate(ranks, "recall@3", "naive", bounds=None)
    assert quick.bounds == estimate(ranks, "recall@3", "naive", bounds=True).bounds != ()
    monkeypatch.setattr("truerank.workflows.estimate._SECONDS", 1e-9)
    slow = estimate(ranks, "recall@3", "naive", bounds=None)
    assert slow.bounds == ()
    assert "no bounds, because sizes of pools and numbers of targets differ so much" in slow.notes[0]
    assert estimate(ranks, "recall@3", "naive", bounds=True).bounds == quick.bounds


def test_what_would_resolve_a_metric_is_not_sought_where_that_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks = SampledRanks.single(np.arange(80) ** 2 // 700, n_negatives=9, n_pool=100)
    quick = estimate(ranks, "recall@3", "naive", bounds=None)
    assert "resolve it to +-0.05" in quick.notes[0]
    monkeypatch.setattr("truerank.workflows.estimate._ADVICE", 1e9)
    slow = estimate(ranks, "recall@3", "naive", bounds=None)
    assert slow.bounds == quick.bounds
    assert slow.notes[0].endswith(
        " fits. Use --bounds (bounds=True) to find out how many negatives would resolve it."
    )
    assert estimate(ranks, "recall@3", "naive", bounds=True).notes == quick.notes


def test_where_all_items_are_drawn_the_default_is_exact_and_bounds_take_no_time(
    small: truerank.Split,
) -> None:
    ranked = evaluate("popularity", small, "ndcg@10,auc")
    drawn = evaluate("popularity", small, "ndcg@10,auc", sampler="full", bounds=None)
    assert {(e.estimator, e.method) for e in drawn.estimates} == {("smooth", "exact")}
    for metric in ("ndcg@10", "auc"):
        assert drawn.value(metric) == pytest.approx(ranked.value(metric), abs=1e-12)
    assert drawn.notes == ()
    assert [b.low for b in drawn.bounds] == [b.high for b in drawn.bounds] != []
