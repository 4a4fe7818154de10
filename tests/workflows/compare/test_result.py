"""Verdicts, their strength, and their sentences."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from truerank.workflows.compare.differences import users_needed
from truerank.workflows.compare.result import (
    Difference,
    SentenceContext,
    Strength,
    Verdict,
    decide_verdict,
    headline,
    verdict_of_interval,
    verdict_sentence,
)

NAN = (math.nan, math.nan)
INSIDE, WIN, LOSS, TINY = (-0.2, 0.3), (0.01, 0.03), (-0.03, -0.01), (-0.004, 0.004)
F, S, N, U, E = Verdict.FIRST, Verdict.SECOND, Verdict.NOISE, Verdict.UNRESOLVED, Verdict.EQUIVALENT


@pytest.mark.parametrize(
    ("interval", "bounds", "margin", "verdict", "strength"),
    [
        (WIN, None, None, F, Strength.ESTIMATOR),
        (LOSS, None, None, S, Strength.ESTIMATOR),
        (INSIDE, None, None, N, Strength.NONE),
        (NAN, None, None, N, Strength.NONE),
        (WIN, WIN, None, F, Strength.RANKS),
        (LOSS, LOSS, None, S, Strength.RANKS),
        (INSIDE, WIN, None, F, Strength.RANKS),  # bounds need no estimator
        (LOSS, WIN, None, F, Strength.RANKS),  # a biased estimator is overruled
        (WIN, INSIDE, None, U, Strength.NONE),
        (INSIDE, INSIDE, None, N, Strength.NONE),
        (TINY, INSIDE, 0.005, U, Strength.NONE),
        (TINY, TINY, 0.005, E, Strength.RANKS),
        (TINY, None, 0.005, E, Strength.ESTIMATOR),
        (WIN, None, 0.05, E, Strength.ESTIMATOR),
        (WIN, None, 0.02, F, Strength.ESTIMATOR),
    ],
)
def test_from_samples(
    interval: tuple[float, float],
    bounds: tuple[float, float] | None,
    margin: float | None,
    verdict: Verdict,
    strength: Strength,
) -> None:
    found = decide_verdict(interval, bounds, margin=margin, is_exact=False, is_population=False)
    assert found == (verdict, strength, verdict_of_interval(*interval, margin))
    mirror = {F: S, S: F}
    swapped = decide_verdict(
        (-interval[1], -interval[0]),
        None if bounds is None else (-bounds[1], -bounds[0]),
        margin=margin,
        is_exact=False,
        is_population=False,
    )
    assert swapped[:2] == (mirror.get(verdict, verdict), strength)


@pytest.mark.parametrize("prior_decides", [False, True])
@pytest.mark.parametrize(
    ("interval", "bounds", "posterior", "is_population", "verdict", "is_posterior"),
    [
        (WIN, INSIDE, WIN, False, F, True),
        (INSIDE, INSIDE, WIN, False, F, True),
        (LOSS, INSIDE, WIN, False, F, True),  # a biased estimator is overruled
        (WIN, None, LOSS, True, S, True),
        (WIN, WIN, INSIDE, False, F, False),  # bounds have the last word
        (WIN, INSIDE, INSIDE, False, U, False),
        (INSIDE, INSIDE, INSIDE, False, N, False),
        (WIN, None, INSIDE, False, U, False),
        (WIN, WIN, INSIDE, True, U, False),  # bounds are about these users only
    ],
)
def test_by_the_posterior(
    prior_decides: bool,
    interval: tuple[float, float],
    bounds: tuple[float, float] | None,
    posterior: tuple[float, float],
    is_population: bool,
    verdict: Verdict,
    is_posterior: bool,
) -> None:
    found = decide_verdict(
        interval,
        bounds,
        posterior=posterior,
        prior_decides=prior_decides,
        margin=None,
        is_exact=False,
        is_population=is_population,
    )
    own = Strength.PRIOR if prior_decides else Strength.SAMPLE
    other = Strength.RANKS if verdict.is_decided else Strength.NONE
    assert found == (verdict, own if is_posterior else other, verdict_of_interval(*interval, None))


@pytest.mark.parametrize(
    ("interval", "bounds", "verdict", "strength"),
    [
        (WIN, WIN, F, Strength.ESTIMATOR),  # bounds are about these users only
        (INSIDE, WIN, N, Strength.NONE),
        (LOSS, WIN, U, Strength.NONE),
        (WIN, INSIDE, U, Strength.NONE),
    ],
)
def test_for_all_users_like_these(
    interval: tuple[float, float], bounds: tuple[float, float], verdict: Verdict, strength: Strength
) -> None:
    found = decide_verdict(interval, bounds, margin=None, is_exact=False, is_population=True)
    assert found[:2] == (verdict, strength)


def test_from_exact_ranks() -> None:
    def known(value: float, margin: float | None = None) -> tuple[Verdict, Strength]:
        return decide_verdict((value, value), None, margin=margin, is_exact=True, is_population=False)[:2]

    assert known(0.01) == (F, Strength.EXACT)
    assert known(-0.01) == (S, Strength.EXACT)
    assert known(0.0) == (Verdict.EQUAL, Strength.EXACT)
    assert known(1e-17) == (Verdict.EQUAL, Strength.EXACT)
    assert known(0.01, 0.02) == (E, Strength.EXACT)
    assert decide_verdict(WIN, None, margin=None, is_exact=True, is_population=True)[:2] == (
        F,
        Strength.USERS,
    )
    assert decide_verdict(INSIDE, None, margin=None, is_exact=True, is_population=True)[:2] == (
        N,
        Strength.NONE,
    )


def one(verdict: Verdict, strength: Strength, by_interval: Verdict, **changes: object) -> Difference:
    fields: dict[str, object] = {
        "first": "ease",
        "second": "pop",
        "metric": "recall@10",
        "value": 0.02,
        "low": 0.01,
        "high": 0.03,
        "level": 0.95,
        "target": "test-users",
        "probability": 0.99,
        "population_low": 0.01,
        "population_high": 0.03,
        "p_value": 0.001,
        "p_adjusted": 0.003,
        "p_randomised": 0.001,
        "bound_low": -0.2,
        "bound_high": 0.3,
        "method": "differences per user, max-t",
        "pairing": "paired users",
        "n_users": 1000,
    }
    return Difference(
        **{**fields, **changes},  # type: ignore[arg-type]
        verdict=verdict,
        strength=strength,
        by_interval=by_interval,
    )


def test_sentences() -> None:
    at = SentenceContext("bv", 10, 99, None, is_searched=True)
    assert verdict_sentence(one(F, Strength.RANKS, F, bound_low=0.1, bound_high=0.2), at) == (
        "ease beats pop in recall@10 whatever the ranks are: the difference lies in [+0.1000, +0.2000]."
    )
    assert verdict_sentence(one(S, Strength.ESTIMATOR, S, value=-0.03, low=-0.05, high=-0.01), at) == (
        "pop beats ease in recall@10 by the estimator bv: +0.0300 [+0.0100, +0.0500], its bias not counted."
    )
    assert verdict_sentence(one(F, Strength.EXACT, F), at) == (
        "ease beats pop in recall@10 on these 1,000 users, exactly: +0.0200. In the population of users: "
        "[+0.0100, +0.0300]."
    )
    assert verdict_sentence(one(F, Strength.USERS, F), at) == (
        "ease beats pop in recall@10 in the population of users: +0.0200 [+0.0100, +0.0300]. On these 1,000 "
        "users the difference is exact."
    )
    assert verdict_sentence(one(U, Strength.NONE, F, needed_negatives=1600), at) == (
        "this sample cannot tell ease from pop in recall@10: K = 10 is below what 99 negatives resolve. Any "
        "difference from -0.200 to +0.300 is compatible with the sampled ranks; bv estimates +0.0200 "
        "[+0.0100, +0.0300]. About 1,600 negatives would be enough to tell, if the difference stays this "
        "large."
    )
    assert verdict_sentence(one(U, Strength.NONE, F), at).endswith("Only ranking all items would tell.")
    outside = SentenceContext("naive", None, None, None, is_searched=False)
    assert verdict_sentence(one(U, Strength.NONE, F, value=0.5), outside) == (
        "this sample cannot tell ease from pop in recall@10: these samples do not resolve the difference. "
        "Any difference from -0.200 to +0.300 is compatible with the sampled ranks; naive estimates +0.5000 "
        "[+0.0100, +0.0300], which no compatible rank distribution gives."
    )
    # half-width 0.02 at a difference of 0.01: four times the users
    assert users_needed(0.01, -0.01, 0.03, 1000) == 4000
    noisy = one(N, Strength.NONE, N, value=0.01, low=-0.01, high=0.03, needed_users=4000)
    assert verdict_sentence(noisy, at) == (
        "this sample cannot tell ease from pop in recall@10: noise. The difference of +0.0100 has the "
        "interval [-0.0100, +0.0300], which contains 0. About 4,000 users (or more negatives) would be "
        "enough to tell, if the difference stays this large."
    )
    assert verdict_sentence(replace(noisy, target="population"), SentenceContext()) == (
        "these 1,000 users cannot tell ease from pop in recall@10: noise. On these users the difference is "
        "exactly +0.0100; its interval in the population of users is [-0.0100, +0.0300], which contains 0. "
        "About 4,000 users would be enough to tell, if the difference stays this large."
    )
    assert "its interval over all test users is" in verdict_sentence(noisy, SentenceContext())
    lonely = one(N, Strength.NONE, N, low=None, high=None)
    assert verdict_sentence(lonely, at).endswith("One user does not show how much users vary.")
    tied = SentenceContext("bv", 10, 99, 0.05)
    assert verdict_sentence(one(E, Strength.ESTIMATOR, E), tied).startswith(
        "ease and pop are equivalent in recall@10 within 0.05 by the estimator bv"
    )
    assert verdict_sentence(one(Verdict.EQUAL, Strength.EXACT, Verdict.EQUAL, value=0.0), at).startswith(
        "ease and pop are equal in recall@10 on these 1,000 users, exactly: +0.0000."
    )


def test_sentences_of_the_posterior() -> None:
    at = SentenceContext("bv", 10, 99, noise=(0.005, 0.035), resolved=37, is_searched=True)
    assert verdict_sentence(one(F, Strength.PRIOR, F), at) == (
        "ease beats pop in recall@10 by the posterior: [+0.0100, +0.0300]. The prior decides: it says how "
        "ranks below 37 are spread; bv estimates +0.0200."
    )
    finer = SentenceContext("bv", 10, 999, noise=(0.005, 0.035), resolved=4)
    assert verdict_sentence(one(S, Strength.SAMPLE, S, low=-0.03, high=-0.01, value=-0.04), finer) == (
        "pop beats ease in recall@10 by the posterior: [+0.0100, +0.0300]. The sample decides: it resolves "
        "ranks from 4 on; bv estimates +0.0400, which the posterior leaves out."
    )
    assert verdict_sentence(one(F, Strength.PRIOR, N), at).endswith(
        "That is about these users: noise leaves open what holds for others."
    )
    all_ranks = SentenceContext("bv", 10, 999, noise=(0.005, 0.035), resolved=1)
    assert "The sample decides: it resolves all ranks;" in verdict_sentence(
        one(F, Strength.SAMPLE, F), all_ranks
    )
    open_ = one(U, Strength.NONE, F, low=-0.01, high=0.05, needed_negatives=1600)
    assert verdict_sentence(open_, at) == (
        "this sample cannot tell ease from pop in recall@10: K = 10 is below what 99 negatives resolve. The "
        "posterior of the difference, [-0.0100, +0.0500], contains 0. Any difference from -0.200 to +0.300 "
        "is compatible with the sampled ranks; bv estimates +0.0200 [+0.0050, +0.0350]. About 1,600 "
        "negatives would be enough to tell, if the difference stays this large."
    )
    unbounded = one(U, Strength.NONE, F, low=-0.01, high=0.05, bound_low=None, bound_high=None)
    assert verdict_sentence(unbounded, finer) == (
        "this sample cannot tell ease from pop in recall@10: 999 negatives do not resolve the difference. "
        "The posterior of the difference, [-0.0100, +0.0500], contains 0. bv estimates +0.0200 [+0.0050, "
        "+0.0350], its bias not counted."
    )
    noisy = SentenceContext("bv", 10, 99, noise=(-0.02, 0.06), resolved=37)
    assert verdict_sentence(one(N, Strength.NONE, N, low=-0.05, high=0.08, needed_users=4000), noisy) == (
        "this sample cannot tell ease from pop in recall@10: noise. The difference of +0.0200 has the "
        "interval [-0.0200, +0.0600], which contains 0; so does its posterior, [-0.0500, +0.0800]. About "
        "4,000 users (or more negatives) would be enough to tell, if the difference stays this large."
    )
    assert headline(one(F, Strength.PRIOR, F)) == "ease, by the posterior, the prior decides"


def test_headlines() -> None:
    assert headline(one(F, Strength.RANKS, F)) == "ease, whatever the ranks are"
    assert headline(one(S, Strength.ESTIMATOR, S)) == "pop, by the estimator"
    assert headline(one(U, Strength.NONE, S)) == "cannot tell: not resolved (by the estimator: pop)"
    assert headline(one(N, Strength.NONE, N)) == "cannot tell: noise"
    assert headline(one(N, Strength.NONE, N, needed_users=26_900)) == (
        "cannot tell: noise (about 27,000 users needed)"
    )
    assert headline(one(E, Strength.EXACT, E)) == "equivalent within the margin, exactly"


def test_users_needed() -> None:
    assert users_needed(0.02, 0.01, 0.03, 100) is None  # decided
    assert users_needed(0.0, -0.01, 0.01, 100) is None  # no difference to tell
    assert users_needed(1e-5, -0.01, 0.01, 100) is None  # a million times as many
    assert users_needed(-0.01, -0.03, 0.01, 100) == 400
