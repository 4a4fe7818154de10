"""Plans for users with several targets."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.ranks import Ranks, SampledRanks, Stopping
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.simulate import simulate_sample, simulate_shared
from truerank.workflows.plan.assumed_users import UsersFromPilot, _limit_users
from truerank.workflows.plan.plan import plan as make_plan

plan = partial(make_plan, estimator="bv(gamma=0.1)")  # whose errors are closed forms

METRICS = make_metrics("recall@10,ndcg@10,ap")


def world(n_users: int = 300, size: int = 400, seed: int = 0) -> Ranks:
    """Return two to six targets per user, some users having better ones than others."""
    draw = np.random.default_rng(seed)
    counts = draw.integers(2, 7, n_users)
    user = np.repeat(np.arange(n_users), counts)
    taste = np.repeat(draw.uniform(0.5, 2.0, n_users), counts)
    above = (size * draw.beta(0.5, 2.0 * taste)).astype(np.int64)
    above = above[np.lexsort((above, user))]
    place = np.arange(len(user)) - np.repeat(np.cumsum(counts) - counts, counts)
    zeros, relevant = np.zeros_like(user), np.repeat(counts, counts)
    return Ranks(
        user=user,
        item=place,
        n_above=above + place,
        n_tied=zeros,
        n_pool=size + relevant,
        n_relevant=relevant,
        n_relevant_above=place,
        n_relevant_tied=zeros,
    )


def assumed_users(ranks: Ranks, estimator: str) -> UsersFromPilot:
    """Return users whose ranks are just these."""
    return UsersFromPilot(ranks, ESTIMATORS.make(estimator), METRICS, ranks.n_users)


def test_shared_samples_have_the_joint_law_of_one_draw() -> None:
    """All subsets of 3 out of 7 items, counted above three targets; 35,000 users, within 5 errors."""
    size, m, above, n = 7, 3, (1, 4, 4), 35_000
    expected: dict[tuple[int, ...], float] = {}
    for drawn in itertools.combinations(range(size), m):
        outcome = tuple(sum(item < J for item in drawn) for J in above)
        expected[outcome] = expected.get(outcome, 0) + 1 / 35
    zeros = np.zeros(3 * n, np.int64)
    ranks = Ranks(
        user=np.repeat(np.arange(n), 3),
        item=np.tile([5, 1, 9], n),
        n_above=np.tile([4 + 1, 1, 4 + 2], n),  # not in the order of ranks
        n_tied=zeros,
        n_pool=zeros + size + 3,
        n_relevant=zeros + 3,
        n_relevant_above=np.tile([1, 0, 2], n),
        n_relevant_tied=zeros,
    )
    sample = simulate_shared(ranks, m)
    found = (sample.n_above - sample.n_relevant_above).reshape(n, 3)[:, [1, 0, 2]]
    outcomes, times = np.unique(found, axis=0, return_counts=True)
    assert {tuple(row) for row in outcomes.tolist()} == set(expected)
    for row, count in zip(outcomes.tolist(), times.tolist(), strict=True):
        p = expected[tuple(row)]
        assert count / n == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / n))
    again = simulate_shared(ranks, m)
    assert np.array_equal(again.n_above, sample.n_above)
    assert not np.array_equal(simulate_shared(ranks, m, repeat=1).n_above, sample.n_above)


def test_shared_samples_of_a_single_target_have_its_law() -> None:
    ranks = Ranks.single(np.full(20_000, 30), n_pool=101)
    shared, own = simulate_shared(ranks, 40).n_above, simulate_sample(ranks, 40).n_above
    assert shared.mean() == pytest.approx(12, abs=0.1)
    assert shared.var() == pytest.approx(own.var(), rel=0.05)


def test_shared_samples_may_differ_in_size() -> None:
    ranks = Ranks.single([3, 9], n_pool=np.array([5, 10]))
    assert simulate_shared(ranks, np.array([4, 9])).n_above.tolist() == [3, 9]


@pytest.mark.parametrize(
    ("ranks", "m", "sentence"),
    [
        (Ranks.single([1], n_pool=9, n_tied=1), 3, "without ties"),
        (Ranks.single([1], n_pool=9), 9, "at most all irrelevant items"),
        (Ranks.single([0], n_pool=1), 1, "must hold at least one irrelevant item"),
    ],
)
def test_shared_samples_that_cannot_be(ranks: Ranks, m: int, sentence: str) -> None:
    with pytest.raises(InvalidData, match=sentence):
        simulate_shared(ranks, m)


@pytest.mark.parametrize("estimator", ["bv(gamma=0.1)", "naive"])
@pytest.mark.parametrize("size", [30, 150])
def test_the_spread_of_linear_estimates(estimator: str, size: int) -> None:
    """Against 200 samples: the bias within 5 errors, the noise not less and at most twice as large."""
    ranks, n_runs = world(), 200
    made, who = ESTIMATORS.make(estimator), assumed_users(ranks, estimator)
    runs = np.stack(
        [made.estimate(tally(simulate_shared(ranks, size, repeat=r)), METRICS).value for r in range(n_runs)]
    )
    exact = values(METRICS, ranks)
    for column, metric in enumerate(METRICS):
        spread, sd = who.sampled(metric, size), runs[:, column].std(ddof=1)
        assert who.value(metric) == pytest.approx(exact[:, column].mean())
        assert who.exact(metric).users == pytest.approx(exact[:, column].var())
        off = runs[:, column].mean() - exact[:, column].mean()
        assert spread.bias == pytest.approx(off, abs=5 * sd / np.sqrt(n_runs))
        assert 0.8 * sd < np.sqrt(spread.items / ranks.n_users) < 2 * sd


def test_fits_are_applied_to_samples() -> None:
    who = assumed_users(world(100), "mle(iterations=20)")
    spread = who.sampled(METRICS[0], 50)
    assert 0 < spread.items < 1
    assert spread.users == who.exact(METRICS[0]).users
    assert who.sampled(METRICS[0], 50) is spread


def test_all_items_leave_nothing_to_estimate() -> None:
    spread = assumed_users(world(50), "ls").sampled(METRICS[0], 10_000)
    assert spread.items == pytest.approx(0, abs=1e-9)
    assert spread.bias == pytest.approx(0, abs=1e-9)


def test_adaptive_samples_of_several_targets() -> None:
    who = assumed_users(world(100), "bv(gamma=0.1)")
    stopping = Stopping((99, 199))
    spread = who.sampled(METRICS[0], stopping)
    assert 0 < spread.items < who.sampled(METRICS[0], 20).items * 50
    assert 99 < who.mean_size(stopping) < 199


def test_a_row_waits_for_the_first_target() -> None:
    ranks = world(200)
    who = assumed_users(ranks, "naive")
    above = np.minimum.reduceat(ranks.n_above - ranks.n_relevant_above, ranks.starts)
    draw, places = np.random.default_rng(1), []
    for J in np.repeat(above, 20):
        stands = np.sort(draw.permutation(400)[:J])
        places.append(stands[9] + 1 if J >= 10 else 400)
    assert who.row_scores(METRICS[0]) == pytest.approx(who.n_targets + np.mean(places), rel=0.05)
    assert who.n_targets == len(ranks) / 200


@pytest.mark.slow
def test_a_pilot_gives_plausible_users() -> None:
    """Values and users' variances from 60 of 400 items are near the true ones, which one target is not."""
    ranks = world(800, seed=3)
    pilot = simulate_shared(ranks, 60)
    exact = values(METRICS, ranks)
    found = plan(pilot, METRICS, 0.02)
    for column, need in enumerate(found.needs):
        assert need.value == pytest.approx(exact[:, column].mean(), abs=0.04)
        alone = exact[:, column].var() * (1.96 / 0.02) ** 2
        assert need.users == pytest.approx(alone / (1 + alone / 800), rel=0.2)


def test_ranks_of_a_pilot_are_whole_tables() -> None:
    pilot = simulate_shared(world(60), 30)
    who = UsersFromPilot.of(pilot, ESTIMATORS.make("bv"), METRICS, 60)
    ranks = who.ranks
    assert np.array_equal(ranks.user, pilot.user)
    assert np.array_equal(ranks.n_relevant_above, pilot.n_relevant_above)
    irrelevant = ranks.n_above - ranks.n_relevant_above
    assert (irrelevant >= 0).all() and (irrelevant <= ranks.n_pool - ranks.n_relevant).all()
    assert (np.diff(irrelevant)[np.diff(ranks.user) == 0] >= 0).all()  # targets stay in their order


def test_tied_targets_of_a_pilot_are_put_in_order() -> None:
    pilot = SampledRanks(
        user=np.array([0, 0, 0]),
        item=np.array([0, 1, 2]),
        n_above=np.array([1, 4, 1]),
        n_tied=np.array([1, 0, 1]),
        n_pool=np.array([40, 40, 40]),
        n_relevant=np.array([3, 3, 3]),
        n_relevant_above=np.array([0, 2, 0]),
        n_relevant_tied=np.array([1, 0, 1]),
        n_negatives=np.array([9, 9, 9]),
        n_candidates=np.array([37, 37, 37]),
    )
    ranks = UsersFromPilot.of(pilot, ESTIMATORS.make("bv"), METRICS, 1).ranks
    assert ranks.n_relevant_above.tolist() == [0, 2, 1]


def test_very_many_targets_are_thinned_by_users(monkeypatch: pytest.MonkeyPatch) -> None:
    pilot = simulate_shared(world(60), 30)
    assert _limit_users(pilot) is pilot
    monkeypatch.setattr("truerank.workflows.plan.assumed_users._MOST_TARGETS", 50)
    some = _limit_users(pilot)
    assert 40 < len(some) <= 50
    counts = dict(zip(*np.unique(pilot.user, return_counts=True), strict=True))
    for user, count in zip(*np.unique(some.user, return_counts=True), strict=True):
        assert counts[user] == count


def test_the_largest_pool_is_the_largest_cutoff() -> None:
    pilot = simulate_shared(world(30, size=60), 20)
    largest = int(pilot.n_pool.max())
    found = plan(pilot, f"recall@{largest}", 0.05)
    assert (found.n_items, found.needs[0].value) == (largest, 1.0)
    with pytest.raises(InvalidParameter, match=f"at most the pool of {largest} items"):
        plan(pilot, f"recall@{largest + 1}", 0.05)
