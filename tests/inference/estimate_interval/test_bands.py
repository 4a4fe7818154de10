"""Intervals of all kinds: what they are called, where they lie, what they agree with."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit

from tests.inference.estimate_interval.samples import METRICS, estimated, population, several, values_of
from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter
from truerank.core.ranks import Ranks, SampledRanks, Stopping
from truerank.estimation.corrections.naive import Naive
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.inference.bounds.identify import identification_bounds
from truerank.inference.estimate_interval.base import (
    explain_exclusions,
    target_range,
    user_sampling_limits,
)
from truerank.inference.estimate_interval.registry import UNCERTAINTIES, PointEstimates, Target
from truerank.inference.estimate_interval.resampling import bootstrap_seconds, resample_estimates
from truerank.inference.user_interval import Band
from truerank.ranking.simulate import simulate_adaptive, simulate_sample

ALL = [
    "auto(resamples=50)",
    "sampling(resamples=50)",
    "delta",
    "bootstrap(resamples=50)",
    "bounds",
    "bias-aware",
]
RULE = Stopping((5, 12, 30))


def drawn_from(sample: SampledRanks, n_test_users: int) -> SampledRanks:
    return replace(sample, design=replace(sample.design, n_test_users=n_test_users))


@pytest.mark.parametrize(
    "written", ["auto", "delta", "bootstrap", "bounds", "bias-aware", "posterior", "sampling"]
)
def test_every_name_is_written_as_it_is_read(written: str) -> None:
    made = UNCERTAINTIES.make(written)
    assert str(made) == written and UNCERTAINTIES.make(str(made)) == made
    assert UNCERTAINTIES.make("bounds(shape=decreasing, pools=shared)").key == "bounds"


def test_delta_of_the_population_is_the_students_interval_over_users() -> None:
    found = estimated(simulate_sample(population(80, 300), 30), "bv", "recall@50,auc")
    spread = found.estimator.estimate(found.tally, found.metrics).standard_error
    half = stdtrit(79, 0.95) * spread
    band = UNCERTAINTIES.make("delta").band(found, target="population", level=0.9)
    np.testing.assert_allclose(band.low, found.value - half, rtol=1e-9)
    np.testing.assert_allclose(band.high, found.value + half, rtol=1e-9)
    narrow = UNCERTAINTIES.make("delta").band(found, level=0.9)
    assert (narrow.low > band.low).all() and (narrow.high < band.high).all()
    some = estimated(drawn_from(found.ranks, 200), "bv", "recall@50,auc")
    between = UNCERTAINTIES.make("delta").band(some, level=0.9)
    expected = np.sqrt(0.4 * (narrow.high - found.value) ** 2 + 0.6 * half**2)
    np.testing.assert_allclose(between.high - found.value, expected, rtol=1e-9)


def test_bootstrap_is_the_spread_of_resamples() -> None:
    found = estimated(simulate_sample(population(80, 300), 30), "mle", "recall@50,auc")
    for target in ("test-users", "population"):
        values = resample_estimates(found, target=target, resamples=60, seed=2)
        band = UNCERTAINTIES.make("bootstrap(resamples=60)").band(found, target=target, level=0.9, seed=2)
        np.testing.assert_allclose(
            band.high - found.value, stdtrit(79, 0.95) * values.std(axis=0, ddof=1), rtol=1e-9
        )
        assert band.method == ("bootstrap, ignores bias",) * 2
    auto = UNCERTAINTIES.make("sampling(resamples=60)").band(found, target="population", level=0.9, seed=2)
    np.testing.assert_array_equal(auto.low, band.low)


def test_methods_say_what_they_leave_out() -> None:
    sample = simulate_sample(population(80, 300), 30)

    def methods(kind: str, estimator: str, metrics: str = "recall@5,auc") -> tuple[str, ...]:
        return UNCERTAINTIES.make(kind).band(estimated(sample, estimator, metrics)).method

    assert methods("auto", "smooth") == methods("posterior", "smooth")
    decides = "posterior; below rank 10 the prior decides"
    assert methods("auto", "smooth") == (decides, decides)
    assert methods("auto", "naive") == (
        f"{decides}, without the estimate: the sample speaks against it",
        decides,
    )
    assert methods("sampling", "naive") == ("delta, ignores bias", "delta")
    assert methods("delta", "naive") == ("delta, ignores bias", "delta")
    assert methods("bootstrap(resamples=50)", "naive") == ("bootstrap, ignores bias", "bootstrap")
    assert methods("sampling(resamples=50)", "smooth", "auc") == ("bootstrap, ignores bias",)
    assert methods("delta", "smooth", "recall@5,auc") == ("delta, ignores bias",) * 2
    assert methods("delta", "bv(prior=mle)", "recall@5") == ("delta, prior held, ignores bias",)
    assert methods("delta", "mapping(f=beta-p)", "recall@5") == ("delta, mapping held, ignores bias",)
    assert methods("delta", "mapping", "recall@5") == ("delta, ignores bias",)
    assert methods("bounds(shape=decreasing)", "bv", "recall@5") == ("identification bounds, decreasing",)
    assert methods("bias-aware", "smooth", "recall@5") == ("identification bounds around a fit",)
    given = replace(sample, design=replace(sample.design, law="popularity"))
    band = UNCERTAINTIES.make("auto").band(estimated(given, "naive", "recall@5"))
    assert band.method == ("delta, of the sampled metric, ignores bias",)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("estimator", ["naive", "bv", "mle", "mes", "smooth", "mapping(f=beta-p)"])
def test_all_items_sampled_is_exact(kind: str, estimator: str) -> None:
    """No width, at the exact value. Other users may have other values, but nothing is biased."""
    ranks = Ranks.single([0, 3, 7, 11, 11], n_pool=30, n_tied=2)
    found = estimated(simulate_sample(ranks, 29), estimator)
    np.testing.assert_allclose(found.value, values_of(ranks), atol=1e-12)
    band = UNCERTAINTIES.make(kind).band(found)
    np.testing.assert_array_equal(band.low, found.value)
    np.testing.assert_array_equal(band.low, band.high)
    assert band.method == ("exact",) * 3
    whole = UNCERTAINTIES.make(kind).band(found, target="population")
    assert (whole.low < band.low).all() and "exact" not in whole.method
    assert not any(method.endswith("ignores bias") or "held" in method for method in whole.method)
    naive = UNCERTAINTIES.make(kind).band(replace(found, estimator=Naive()), target="population")
    np.testing.assert_array_equal(whole.low, naive.low)
    np.testing.assert_array_equal(whole.high, naive.high)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_one_user_and_no_spread_are_bounded(kind: str) -> None:
    for above in ([4], [0] * 30):
        found = estimated(SampledRanks.single(above, n_negatives=20, n_pool=200), "bv")
        for target in ("test-users", "population"):
            band = UNCERTAINTIES.make(kind).band(found, target=target)
            bounds = UNCERTAINTIES.make("bounds").band(found, target=target)
            assert (band.low <= bounds.low + 1e-6).all() and (band.high >= bounds.high - 1e-6).all()
    pools = SampledRanks.single([0] * 30, n_negatives=20, n_pool=np.arange(200, 260, 2))
    band = UNCERTAINTIES.make(kind).band(estimated(pools, "bv", width=0.0))
    assert (band.high - band.low > 0.05).all()


def test_without_spread_and_bounds_the_range_is_all() -> None:
    sample = SampledRanks.single([0] * 30, n_negatives=20, n_pool=200)
    found = estimated(replace(sample, design=replace(sample.design, law="given")), "naive")
    band = UNCERTAINTIES.make("delta").band(found)
    assert band.method == ("possible range, no spread",) * 3
    np.testing.assert_allclose(band.low, 0.0, atol=1e-12)
    np.testing.assert_allclose(band.high, 1.0)


def test_bounds_are_those_of_the_sample() -> None:
    found = estimated(simulate_sample(population(100, 300), 30), "bv")
    expected = identification_bounds(found.ranks, METRICS)
    for target in ("test-users", "population"):  # one group: users drawn at random change nothing
        band = UNCERTAINTIES.make("bounds").band(found, target=target)
        np.testing.assert_allclose(band.low, [bound.low for bound in expected])
        np.testing.assert_allclose(band.high, [bound.high for bound in expected])
    pools = estimated(simulate_sample(population(100, np.where(np.arange(100) % 2, 300, 150)), 30), "bv")
    here = UNCERTAINTIES.make("bounds").band(pools)
    there = UNCERTAINTIES.make("bounds").band(pools, target="population")
    assert (there.low <= here.low).all() and (there.high > here.high).all()


def test_limits_of_other_users() -> None:
    """All of them: nothing is added. Nearly all: Serfling's is the narrower. Zeros: the binomial limit."""
    limits = np.array([[0.2, 0.4], [0.0, 0.0]])
    assert user_sampling_limits(limits, 100, 100, 0.05) is limits
    free, near = user_sampling_limits(limits, 100, None, 0.05), user_sampling_limits(limits, 100, 101, 0.05)
    assert (free[0] - near[0])[0] < 0 < (free[0] - near[0])[1]
    assert near[0, 1] - 0.4 == pytest.approx(np.sqrt(2 / 101 * np.log(40) / 200))
    assert free[1, 0] == 0 and free[1, 1] == pytest.approx(1 - 0.025**0.01, rel=1e-6)


@st.composite
def samples(draw: st.DrawFn) -> SampledRanks:
    """Users with one to three targets, some tied, in pools of one to three sizes."""
    n_users, m = draw(st.integers(1, 5)), draw(st.integers(2, 6))
    rows = []
    for user in range(n_users):
        size = draw(st.sampled_from([6, 9, 12]))
        count = draw(st.integers(1, 3))
        above = sorted(draw(st.lists(st.integers(0, m), min_size=count, max_size=count)))
        tied = draw(st.integers(0, 1)) if above[-1] < m else 0
        for place, j in enumerate(above):
            is_last = place == count - 1
            rows.append((user, place, j + place, tied * is_last, size + count, count, place, 0, m, size))
    return SampledRanks(*np.array(rows, dtype=np.int64).T)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(samples(), st.sampled_from(["delta", "bounds", "bias-aware"]), st.sampled_from(["naive", "bv"]))
def test_ends_are_ordered_and_possible(sample: SampledRanks, kind: str, estimator: str) -> None:
    """Whatever the targets, pools and ties; bias-aware intervals lie within bounds of their region."""
    found = estimated(sample, estimator, "recall@2,ndcg@3,ap")
    for target in ("test-users", "population"):
        least, most = target_range(found, target)
        band = UNCERTAINTIES.make(kind).band(found, target=target, level=0.9)
        assert (least - 1e-9 <= band.low).all() and (band.low <= band.high).all()
        assert (band.high <= most + 1e-9).all() and len(band.method) == 3


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("design", ["adaptive", "several", "some users", "replacement"])
def test_designs_repeat_to_the_digit(kind: str, design: str) -> None:
    ranks = population(60, 100)
    sample = {
        "adaptive": lambda: simulate_adaptive(ranks, RULE),
        "several": lambda: several(40, 20),
        "some users": lambda: drawn_from(simulate_sample(ranks, 20), 90),
        "replacement": lambda: simulate_sample(ranks, 20, replacement=True),
    }[design]()
    found = estimated(sample, "mle" if "boot" in kind else "bv")
    one, two = (UNCERTAINTIES.make(kind).band(found, seed=5) for _ in range(2))
    assert np.array_equal(one.low, two.low) and np.array_equal(one.high, two.high)
    assert (one.low < one.high).all()


def test_what_has_no_interval_is_said() -> None:
    found = estimated(simulate_sample(population(30, 100), 20), "mle")
    jumping = estimated(found.ranks, "mle(solver=exact)")
    with pytest.raises(CannotEstimate, match=r"'mle\(solver=exact\)' moves in jumps.*Use bootstrap"):
        UNCERTAINTIES.make("delta").band(jumping)
    with pytest.raises(InvalidParameter, match="resamples of bootstrap must be at least 50, got 9"):
        UNCERTAINTIES.make("auto(resamples=9)")
    with pytest.raises(InvalidParameter, match=r"shape=.* must be decreasing or none, got 'convex'"):
        UNCERTAINTIES.make("bounds(shape=convex)")
    for kind in ALL:
        with pytest.raises(InvalidParameter, match="target must be one of test-users, population, got 'all'"):
            UNCERTAINTIES.make(kind).band(found, target="all")  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter, match="level must lie between 0 and 1, got 95"):
            UNCERTAINTIES.make(kind).band(found, level=95)
    none = SampledRanks.single([], n_negatives=5, n_pool=50)
    empty = PointEstimates(none, tally(none), found.estimator, found.metrics, np.full(3, np.nan))
    for kind in ALL:
        with pytest.raises(InvalidData, match="at least one user, got none"):
            UNCERTAINTIES.make(kind).band(empty)


def test_sampling_error_resamples_fits_where_that_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it takes derivatives, or fewer resamples where there are none."""
    found = estimated(simulate_adaptive(population(60, 100), RULE), "mle")
    for target in ("test-users", "population"):
        often = UNCERTAINTIES.make("sampling(resamples=1000000)").band(found, target=target)
        delta = UNCERTAINTIES.make("delta").band(found, target=target)
        assert often.method == delta.method == ("delta, ignores bias",) * 3
        np.testing.assert_array_equal(often.low, delta.low)
        assert (
            UNCERTAINTIES.make("sampling(resamples=50)").band(found, target=target).method[0][:9]
            == "bootstrap"
        )
    monkeypatch.setattr("truerank.inference.estimate_interval.auto._SECONDS", 1e-9)
    exact = estimated(found.ranks, "mle(solver=exact)")
    least = UNCERTAINTIES.make("bootstrap(resamples=50)").band(exact, seed=3)
    np.testing.assert_array_equal(UNCERTAINTIES.make("sampling").band(exact, seed=3).low, least.low)


def test_sampling_error_takes_derivatives_of_fits_to_many_users() -> None:
    few, many = (estimated(simulate_sample(population(n, 300), 30), "smooth") for n in (999, 1000))
    sampling, delta = UNCERTAINTIES.make("sampling(resamples=50)"), UNCERTAINTIES.make("delta")
    assert sampling.band(few).method[0] == "bootstrap, ignores bias"
    np.testing.assert_array_equal(sampling.band(many).low, delta.band(many).low)


def test_costs_follow_what_is_fitted() -> None:
    found = estimated(simulate_sample(population(60, 300), 30), "mle")

    def cost(estimator: str, target: str = "test-users", resamples: int = 1000) -> float:
        made = ESTIMATORS.make(estimator)
        assert isinstance(made, MixtureEstimator)
        return bootstrap_seconds(made, found.tally, cast(Target, target), resamples)

    assert cost("mle") < cost("mle(iterations=200)") < 2 * cost("mle") < cost("mle(solver=exact)")
    assert cost("mle", resamples=2000) == pytest.approx(2 * cost("mle"))
    assert cost("mle", "population") < cost("mle")
    assert cost("beta-binomial") < cost("mes") and cost("beta-binomial") < cost("smooth")


def test_a_bootstrap_beyond_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truerank.inference.estimate_interval.resampling._ENTRIES", 1000)
    found = estimated(simulate_sample(population(60, 300), 30), "mle")
    with pytest.raises(
        CannotEstimate,
        match=r"the probabilities of 31 sampled ranks in .* bins, 0\.0 GB, in memory\. Use delta",
    ):
        UNCERTAINTIES.make("bootstrap").band(found)


def test_an_interval_holds_its_estimate_or_says_why_it_does_not() -> None:
    """Bounds rule out the naive number of a short list; other intervals are made around the estimate."""
    sample = simulate_sample(population(80, 3000), 30)
    for kind in ALL:
        for estimator in ("naive", "bv", "smooth"):
            found = estimated(sample, estimator, "recall@5,auc")
            band = UNCERTAINTIES.make(kind).band(found)
            holds = (band.low <= found.value) & (found.value <= band.high)
            assert [", without the estimate: " not in name for name in band.method] == holds.tolist()
    found = estimated(sample, "naive", "recall@5,auc")
    band = UNCERTAINTIES.make("bounds").band(found)
    assert band.method == (
        "identification bounds, without the estimate: the sample speaks against it",
        "identification bounds",
    )


def test_values_that_a_metric_cannot_have_are_named() -> None:
    """Least squares may leave [0, 1]; the limits do not."""
    found = estimated(SampledRanks.single([1] * 5 + [2] * 5, n_negatives=20, n_pool=300), "ls", "recall@3")
    band = UNCERTAINTIES.make("delta").band(found)
    assert found.value[0] > 1 == band.high[0]
    assert band.method == ("delta, without the estimate: the metric cannot have that value",)


def test_limits_that_miss_the_estimate_by_rounding_are_moved_to_it() -> None:
    found = estimated(simulate_sample(population(80, 300), 30), "naive", "recall@5,auc")
    near = Band(found.value + 1e-12, found.value + 0.1, ("one", "two"))
    moved = explain_exclusions(found, near, "test-users")
    np.testing.assert_array_equal(moved.low, found.value)
    assert moved.method == ("one", "two")
    missing = Band(np.full(2, np.nan), np.full(2, np.nan), ("none", "none"))
    assert explain_exclusions(found, missing, "test-users").method == ("none", "none")
    assert np.isnan(explain_exclusions(found, missing, "test-users").low).all()
