"""What a plan recommends, and how many users tell two models apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from truerank.core.errors import InvalidParameter
from truerank.core.ranks import RankDistribution
from truerank.workflows.plan.advice import (
    difference_sentences,
    recommend,
    smallest_difference,
    tell_apart,
    users_to_tell,
)
from truerank.workflows.plan.cost import RankingSeconds
from truerank.workflows.plan.plan import MetricRequirement, SamplePlan, plan


def make_plan(**changes: object) -> SamplePlan:
    """Return a plan for 10,000 users and 5,000 items in which 1,000 users, or 800 negatives, are enough."""
    need = MetricRequirement(
        "recall@10",
        value=0.2,
        noise_negatives=50,
        bias=0.03,
        total_negatives=800,
        bound_negatives=None,
        ceiling=None,
        ceiling_mean=None,
        users=1000,
        row_scores=1e6,
        variance=0.16,
        population_half_width=0.0078,
        smallest_difference=0.016,
    )
    made = SamplePlan(0.01, 0.95, "test-users", "smooth", 10_000, 5_000, (need,))
    return replace(made, **changes)  # type: ignore[arg-type]


def with_need(**changes: object) -> SamplePlan:
    made = make_plan()
    return replace(made, needs=(replace(made.needs[0], **changes),))  # type: ignore[arg-type]


def test_some_users_are_enough() -> None:
    found = recommend(make_plan())
    assert found.flags == ("--users", "1000")
    assert found.sentence == (
        "Rank all items for 1,000 of the 10,000 users, drawn at random (about 5 million scores, 10 % of "
        "exact evaluation): every interval is then within +-0.01, without bias."
    )


@pytest.mark.parametrize(
    "made",
    [
        make_plan(costs=RankingSeconds(0.001, 1e-4, 1e-6, n_users=10_000, n_items=5_000)),  # 10 seconds
        with_need(users=9_000),
    ],
)
def test_everything_is_ranked_where_that_is_quick_or_nearly_all_users_are_needed(made: SamplePlan) -> None:
    found = recommend(made)
    assert found.flags == ()
    assert found.sentence.startswith("Rank all items for all 10,000 users (about 50 million scores")
    assert "+-0.0078 (recall@10) for the user population at 95 % confidence" in found.sentence


def test_seconds_are_said_where_they_were_measured() -> None:
    slow = RankingSeconds(0.1, 1e-4, 1e-6, n_users=10_000, n_items=5_000)
    assert "5 million scores, 100 s here, 10 % of exact" in recommend(make_plan(costs=slow)).sentence


def test_negatives_only_where_they_cost_a_third() -> None:
    """Their bias is known only if ranks are as in the pilot; the sentence says what to do without that."""
    cheap = recommend(with_need(total_negatives=100, users=4_000))
    assert cheap.flags == ("--negatives", "100", "--estimator", "smooth")
    assert "if ranks are as in the pilot. To assume nothing, rank all items for 4,000" in cheap.sentence
    assert recommend(with_need(total_negatives=1_000, users=4_000)).flags == ("--users", "4000")
    assert recommend(with_need(total_negatives=None, users=4_000)).flags == ("--users", "4000")


def test_a_population_may_need_more_users_than_there_are() -> None:
    made = replace(with_need(users=40_000), target="population")
    assert recommend(made).sentence.endswith("To reach +-0.01 there takes about 40,000 users.")


def test_options_go_from_no_bias_to_bias() -> None:
    ways = [(option.way, option.gives) for option in make_plan().options()]
    assert ways == [
        ("all items, all users", "exact, population +-0.0078"),
        ("all items, 1,000 users", "+-0.01"),
        ("same, until the cut-off", "+-0.01"),
        ("800 negatives", "+-0.01, as in the pilot"),
        ("50 negatives", "+-0.01, bias +0.0300"),
    ]


def test_users_find_the_difference_with_the_stated_probability() -> None:
    """A t test of normal differences has the power that the number of users was chosen for."""
    n = users_to_tell(0.25, 0.05, level=0.95, power=0.8)
    assert smallest_difference(0.25, n) == pytest.approx(0.05, rel=1e-3)
    shift = 0.05 / np.sqrt(0.25 / n)
    threshold = stats.t.ppf(0.975, n - 1)
    assert stats.nct.sf(threshold, n - 1, shift) == pytest.approx(0.8, abs=0.003)


@pytest.mark.parametrize(("difference", "power"), [(0.0, 0.8), (0.1, 1.0), (0.1, 0.0)])
def test_bad_questions(difference: float, power: float) -> None:
    with pytest.raises(InvalidParameter, match=r"must be greater than 0|power must lie between 0 and 1"):
        users_to_tell(0.25, difference, power=power)


def test_pairs_of_models() -> None:
    plans = {"a": make_plan(), "b": with_need(value=0.19), "c": make_plan()}
    first, same, last = tell_apart(plans)
    assert first.users == users_to_tell(0.32, 0.01) > first.n_users
    assert str(first) == (
        "a and b differ by 0.0100 in recall@10 in the pilot: about 25,000 users, ranked exactly, tell them "
        "apart, but there are only 10,000."
    )
    assert same.users is None and "no number of users" in str(same)
    assert last.to_dict()["sentence"] == str(last)


def test_a_wanted_difference_is_planned_for() -> None:
    made = plan(
        RankDistribution(np.full(100, 0.01), method="assumed"),
        "recall@10",
        0.05,
        estimator="ls",
        n_users=500,
        difference=0.02,
    )
    need = made.needs[0]
    assert need.variance == pytest.approx(0.09)
    assert need.difference_users == users_to_tell(0.18, 0.02)
    assert need.smallest_difference == pytest.approx(smallest_difference(0.18, 500))
    assert difference_sentences(made)[1] == "A difference of 0.02 takes about 3,500 users in recall@10."
    assert made.sentences()[0] == made.recommendation() == made.to_dict()["recommendation"]
    with pytest.raises(InvalidParameter, match="difference must be greater than 0"):
        plan(RankDistribution(np.full(100, 0.01), method="assumed"), "recall@10", n_users=5, difference=0)
