"""Numbers of negatives and users, budgets, and costs."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import norm

from tests.workflows.plan.world import N_ITEMS, N_USERS, Counting, make_world
from truerank.core.errors import CannotEstimate, TruerankError
from truerank.core.ranks import Design, RankDistribution, Ranks, SampledRanks
from truerank.core.scorer import as_scorer
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.metrics.registry import make_metrics
from truerank.ranking.sampled import sampled_ranks
from truerank.ranking.simulate import simulate_sample
from truerank.workflows.plan.assumed_users import UsersFromDistribution
from truerank.workflows.plan.cost import RankingSeconds, measure_costs
from truerank.workflows.plan.plan import allocate_budget
from truerank.workflows.plan.plan import plan as make_plan

plan = partial(make_plan, estimator="bv(gamma=0.1)")  # whose errors are closed forms

N = 400
WEIGHTS = 1 / np.arange(1, N + 1) / (1 / np.arange(1, N + 1)).sum()
ASSUMED = RankDistribution(WEIGHTS, method="assumed")
(RECALL,) = make_metrics("recall@10")


def users(estimator: str = "bv(gamma=0.1)", n_users: int = 1000) -> UsersFromDistribution:
    return UsersFromDistribution(ASSUMED, ESTIMATORS.make(estimator), n_users)


@pytest.mark.parametrize("estimator", ["naive", "bv(gamma=0.1)", "ls"])
def test_spread_is_that_of_repeated_samples(estimator: str) -> None:
    """Closed forms against 300 samples: the standard deviation within 5 errors, the mean too."""
    n, m, n_runs = 400, 40, 300
    above = np.searchsorted(np.cumsum(WEIGHTS), (np.arange(n) + 0.5) / n)
    made = ESTIMATORS.make(estimator)
    ranks = Ranks.single(above, n_pool=N)
    weights = np.bincount(above, minlength=N) / n
    spread = UsersFromDistribution(RankDistribution(weights, method="these"), made, n).sampled(RECALL, m)
    runs = [
        made.estimate(tally(simulate_sample(ranks, m, repeat=r)), [RECALL]).value[0] for r in range(n_runs)
    ]
    exact = float(RECALL.per_user(ranks).mean())
    sd = np.sqrt(spread.items / n)
    assert np.std(runs, ddof=1) == pytest.approx(sd, rel=5 / np.sqrt(2 * n_runs))
    assert np.mean(runs) - exact == pytest.approx(spread.bias, abs=5 * sd / np.sqrt(n_runs))


def test_fitted_estimators_are_simulated() -> None:
    spread = users("mle(iterations=20)", 300).sampled(RECALL, 30)
    assert 0 < spread.items < 1
    assert spread.users == users().exact(RECALL).users


def test_all_items_leave_no_noise_of_items() -> None:
    spread = users("ls").sampled(RECALL, N - 1)
    assert spread.items == pytest.approx(0, abs=1e-9)
    assert spread.bias == pytest.approx(0, abs=1e-9)
    assert spread.noise(1000, n_test_users=1000, target="test-users", level=0.95) == pytest.approx(
        0, abs=1e-4
    )


def test_users_and_negatives_of_a_plan_do_what_they_should() -> None:
    found = plan(ASSUMED, "recall@10", 0.02, n_users=2000)
    (need,) = found.needs
    value = WEIGHTS[:10].sum()
    alone = value * (1 - value) * (norm.ppf(0.975) / 0.02) ** 2
    assert need.value == pytest.approx(value)
    assert need.users == int(np.ceil(alone / (1 + alone / 2000)))
    who = users(n_users=2000)
    assert need.noise_negatives is not None
    assert need.total_negatives is not None
    spread = who.sampled(RECALL, need.total_negatives)
    noise = spread.noise(2000, n_test_users=2000, target="test-users", level=0.95)
    assert noise + abs(spread.bias) <= 0.02
    assert need.noise_negatives <= need.total_negatives
    assert need.total_negatives <= (need.bound_negatives or N)
    assert need.ceiling is not None
    assert (need.ceiling_mean or 0) < need.ceiling
    assert found.sentences()[0].startswith(f"Sample {need.total_negatives} negatives for every user (about ")
    json.dumps(found.to_dict())


def test_a_population_needs_more_users_and_noise_of_users_stays() -> None:
    test = plan(ASSUMED, "recall@10", 0.01, n_users=2000).needs[0]
    population = plan(ASSUMED, "recall@10", 0.01, n_users=2000, target="population", estimator="ls").needs[0]
    assert population.users > 2000 > test.users
    assert population.noise_negatives is None  # no number of negatives takes the users' own variance away


def test_a_plan_from_a_pilot() -> None:
    ranks = Ranks.single(np.searchsorted(np.cumsum(WEIGHTS), np.random.default_rng(1).random(800)), n_pool=N)
    pilot = simulate_sample(ranks, 60)
    found = plan(pilot, "recall@20,auc", 0.06)
    assert found.n_users == 800
    assert found.needs[0].value == pytest.approx(WEIGHTS[:20].sum(), abs=0.1)
    assert found.needs[0].bound_negatives is None or found.needs[0].bound_negatives > 60
    part = replace(pilot, design=Design(n_test_users=4000))
    assert plan(part, "recall@20", 0.06).n_users == 4000


def test_a_budget_is_divided_as_well_as_on_any_size() -> None:
    who = users()
    for target in ("test-users", "population"):
        found = allocate_budget(who, RECALL, 30_000, target=target)
        assert found.n_users * (found.n_negatives + 1) <= 30_000
        for m in (5, 20, 60, 150, 399):
            n = min(30_000 // (m + 1), 1000)
            spread = who.sampled(RECALL, m)
            noise = spread.noise(n, n_test_users=1000, target=target, level=0.95)
            assert found.half_width <= (noise + abs(spread.bias)) * 1.1  # between two sizes of the grid
    assert "With 30,000 scores for recall@10, " in str(found)


def test_noise_alone_wants_few_items_and_many_users() -> None:
    """The law: noise is least with the smallest samples until nearly all can be had; bias asks for larger."""
    sizes = [allocate_budget(users(), RECALL, budget) for budget in (3_000, 30_000, 300_000)]
    assert [one.quiet_negatives for one in sizes[:2]] == [2, 5]  # 2: what 3,000 scores allow everybody
    negatives = [one.n_negatives for one in sizes]
    assert negatives == sorted(negatives)
    assert negatives[0] < negatives[-1]


def test_rows_in_random_order_end_as_computed() -> None:
    """Place of the K-th item above in 2,000 random orders."""
    rng = np.random.default_rng(2)
    weights = np.zeros(N)
    weights[50] = 1.0
    who = UsersFromDistribution(RankDistribution(weights, method="one"), ESTIMATORS.make("naive"), 10)
    places = [np.sort(rng.permutation(N - 1)[:50])[9] + 1 for _ in range(2000)]
    assert who.row_scores(RECALL) == pytest.approx(1 + np.mean(places), rel=0.05)
    assert who.row_scores(make_metrics("auc")[0]) == N


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"half_width": 0}, "half_width must be greater than 0"),
        ({"level": 0}, "level must lie between 0 and 1"),
        ({"target": "all"}, "target must be one of"),
        ({"n_users": None}, "needs n_users, the number of test users"),
        ({"n_users": 0}, "n_users must be at least 1"),
        ({"budgets": [1]}, "budget must be at least 2"),
        ({"metrics": "recall@500"}, "cutoff of recall@500 must be at most the pool of 400"),
        ({"pilot": RankDistribution(np.array([1.5, -0.5]), "bv", signed=True)}, "are signed"),
        ({"pilot": SampledRanks.single([], n_negatives=1, n_pool=5)}, "at least one user in the pilot"),
    ],
)
def test_bad_input_gets_a_sentence(changed: dict[str, object], sentence: str) -> None:
    given: dict[str, object] = {"pilot": ASSUMED, "metrics": "recall@1", "n_users": 100, **changed}
    with pytest.raises(TruerankError, match=sentence):
        plan(given.pop("pilot"), given.pop("metrics"), **given)  # type: ignore[arg-type]


def test_unknown_keyword() -> None:
    with pytest.raises(TypeError, match="halfwidth"):
        plan(ASSUMED, "recall@1", n_users=100, halfwidth=0.1)  # type: ignore[call-arg]


def test_a_pilot_by_popularity_is_refused() -> None:
    pilot = SampledRanks.single([0, 1], n_negatives=5, n_pool=50, design=Design(law="popularity"))
    with pytest.raises(CannotEstimate, match="pilot whose negatives were sampled uniformly"):
        plan(pilot, "recall@1", 0.1)


def test_costs_say_what_is_cheaper() -> None:
    costs = RankingSeconds(exact_user=1.0, sampled_user=0.1, sampled_score=0.01, n_users=10, n_items=500)
    assert (costs.exact, costs.crossover) == (10.0, 90)
    assert costs.sampled(40) == pytest.approx(5.0)
    assert costs.sentence(40) == (
        "sampling is cheaper: 5.00 s against 10.00 s for all items; sampling is quicker below about 90 "
        "negatives."
    )
    assert "exact is cheaper: 10.00 s against 11.00 s for 100 negatives" in costs.sentence(100)
    assert "exact is quicker than any sample" in replace(costs, sampled_user=2.0).sentence(5)
    assert "any sample is quicker than exact" in replace(costs, sampled_score=0.0).sentence(5)
    assert replace(costs, sampled_score=0.0, sampled_user=2.0).crossover == 0


def test_costs_are_measured_per_user_of_the_data() -> None:
    split, scores = make_world()
    found = measure_costs(as_scorer(scores), split, seconds=0.02)
    assert (found.n_users, found.n_items) == (N_USERS, N_ITEMS)
    assert found.exact_user > 0
    assert found.sampled_user >= 0
    assert found.sampled_score >= 0
    with pytest.raises(TruerankError, match="seconds must be greater than 0"):
        measure_costs(as_scorer(scores), split, seconds=0)
    with pytest.raises(TruerankError, match="at least one user with a target"):
        measure_costs(
            as_scorer(scores), replace(split, test=split.test.where(np.zeros(len(split.test), np.bool_)))
        )


def test_a_scorer_that_sleeps_is_seen_to_be_slow() -> None:
    """Costs are those of the scorer: one that takes 10 us per score is charged about so much."""
    import time

    split, scores = make_world()

    class Slow(Counting):
        def score(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
            found = super().score(users, items)
            time.sleep(1e-5 * found.size)
            return found

    found = measure_costs(Slow(scores), split, seconds=0.1)
    assert found.exact_user >= 1e-5 * N_ITEMS
    assert found.sampled_score > 0
    assert found.crossover > 0


def test_a_pilot_with_several_targets_per_user() -> None:
    split, scores = make_world(n_targets=3)
    found = plan(sampled_ranks(as_scorer(scores), split, "uniform(m=50)"), "ndcg@10", 0.1)
    assert found.n_users == N_USERS
    assert found.needs[0].users >= 1
