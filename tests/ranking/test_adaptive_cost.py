"""The cost of adaptive samples: formulas against literal sums and simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.ranks import Design, RankDistribution, Ranks, SampledRanks, Stopping
from truerank.core.scorer import as_scorer
from truerank.core.split import Split
from truerank.ranking.adaptive_cost import CostCurve, choose_ceiling, cost_curve, expected_size
from truerank.ranking.sampled import sampled_ranks
from truerank.ranking.samplers.adaptive import Adaptive
from truerank.ranking.simulate import simulate_adaptive, simulate_sample


def literal_expected_size(weights: list[float], sizes: list[int], q: int, replacement: bool) -> float:
    """Follow every possible path of counts, round by round, with exact binomial coefficients."""
    n = len(weights)
    total = 0.0
    for above, weight in enumerate(weights):
        paths = {(0, 0): 1.0}  # (drawn, drawn above) of samples that go on: probability
        for size in sizes:
            after = size if replacement else min(size, n - 1)
            grown: dict[tuple[int, int], float] = {}
            for (drawn, found), chance in paths.items():
                more = after - drawn
                total += weight * chance * more
                for new in range(more + 1):
                    if replacement:
                        share = above / (n - 1)
                        p = math.comb(more, new) * share**new * (1 - share) ** (more - new)
                    else:
                        good, bad = above - found, n - 1 - above - (drawn - found)
                        p = math.comb(good, new) * math.comb(bad, more - new) / math.comb(good + bad, more)
                    if p > 0 and found + new < q:
                        grown[after, found + new] = grown.get((after, found + new), 0.0) + chance * p
            paths = grown
    return total


@pytest.mark.slow
@given(
    weights=st.lists(st.integers(0, 5), min_size=2, max_size=9).filter(sum),
    start=st.integers(1, 5),
    steps=st.lists(st.integers(1, 5), max_size=3),
    q=st.integers(1, 4),
    replacement=st.booleans(),
)
def test_expected_size_equals_all_paths(
    weights: list[int], start: int, steps: list[int], q: int, replacement: bool
) -> None:
    sizes = np.cumsum([start, *steps]).tolist()
    shares = [weight / sum(weights) for weight in weights]
    found = expected_size(np.array(shares), Stopping(tuple(sizes), q), replacement=replacement)
    assert found == pytest.approx(literal_expected_size(shares, sizes, q, replacement), rel=1e-12)


def power_law(n: int, a: float) -> np.ndarray:
    rank = np.arange(1, n + 1)
    return np.asarray((rank / n) ** a - ((rank - 1) / n) ** a)


def test_expected_size_is_the_formula_of_the_paper() -> None:
    """E n = n_0 + sum_j (n_j - n_{j-1}) sum_R P(R) (1 - theta)^(n_{j-1} - 1), the target counted."""
    p, stopping = power_law(9916, 0.4), Adaptive().stopping
    n = np.array(stopping.sizes) + 1
    theta = np.arange(9916) / 9915
    expected = 100 + sum((n[j] - n[j - 1]) * (p @ (1 - theta) ** (n[j - 1] - 1)) for j in range(1, 6))
    assert expected_size(p, stopping, replacement=True) + 1 == pytest.approx(expected, rel=1e-12)
    fit = RankDistribution(p, method="test")
    assert expected_size(fit, stopping, replacement=True) + 1 == pytest.approx(expected, rel=1e-12)


def test_expected_size_of_ranks_and_of_their_histogram() -> None:
    above = np.random.default_rng(0).integers(0, 300, 500)
    weights = np.bincount(above, minlength=290) / 500
    stopping = Stopping((20, 50, 400), 3)
    for replacement in (True, False):
        by_ranks = expected_size(Ranks.single(above, n_pool=1000), stopping, replacement=replacement)
        by_weights = expected_size(weights, stopping, n_pool=1000, replacement=replacement)
        assert by_ranks == pytest.approx(by_weights, rel=1e-12)


@pytest.mark.stat
def test_average_size_of_simulations_is_the_expected_one() -> None:
    """Four z tests at 2.5e-7; a mean size that is off by 4 % is found with 99 %."""
    draw = np.random.default_rng(1)
    n = 2000
    above = draw.choice(n, size=20_000, p=power_law(n, 0.4))
    ranks = Ranks.single(above, n_pool=n)
    for replacement in (True, False):
        for q in (1, 4):
            stopping = Stopping((49, 99, 199, 399, 799, 1599), q)
            sizes = simulate_adaptive(ranks, stopping, replacement=replacement, seed=q).n_negatives
            expected = expected_size(ranks, stopping, replacement=replacement)
            error = sizes.std() / math.sqrt(len(sizes))
            assert abs(sizes.mean() - expected) / error < stats.norm.isf(1.25e-7)
            wrong = expected_size(ranks, Stopping(stopping.sizes, q + 1), replacement=replacement)
            assert abs(sizes.mean() - wrong) / error > stats.norm.isf(1.25e-7)  # another rule is rejected


@pytest.mark.stat
@pytest.mark.parametrize("replacement", [True, False])
def test_adaptive_counts_follow_the_law_of_their_size(replacement: bool) -> None:
    """Two chi-square tests at 2.5e-7, simulated and drawn; a cell of 0.1 off by 0.015 is found with 99 %.

    Without replacement the third round goes beyond what rejection draws: 95 of 119 candidates.
    """
    n_rows, above, n_pool, stopping = 40_000, 12, 120, Stopping((5, 23, 95, 100), 2)
    cells = path_law(above, n_pool - 1, stopping, replacement)
    other = path_law(above, n_pool - 1, stopping, not replacement)
    expected = n_rows * np.array(list(cells.values()))
    wrong = n_rows * np.array([other.get(cell, 0.0) for cell in cells])
    user = np.arange(n_rows)
    train = Interactions.from_codes([0], [0], n_users=n_rows, n_items=n_pool)
    test = Interactions.from_codes(user, np.full(n_rows, above), n_users=n_rows, n_items=n_pool)
    scorer = as_scorer(np.broadcast_to(-np.arange(n_pool, dtype=np.float32), (n_rows, n_pool)).copy())
    sampler = Adaptive(6, 101, factor=4, while_rank=2, replace=replacement)
    assert sampler.stopping == stopping
    samples = [
        simulate_adaptive(
            Ranks.single([above] * n_rows, n_pool=n_pool), stopping, replacement=replacement, seed=3
        ),
        sampled_ranks(scorer, Split(train, test), sampler, seen="keep", seed=3),
    ]
    for sample in samples:
        found = np.array(
            [((sample.n_negatives == m) & (sample.n_above == k)).sum() for m, k in cells], np.float64
        )
        assert found.sum() == n_rows
        usual = expected >= 5
        assert chi_square(found, expected, usual) > 2.5e-7
        assert chi_square(found, wrong, usual) < 2.5e-7  # the wrong law is rejected


def chi_square(found: np.ndarray, expected: np.ndarray, usual: np.ndarray) -> float:
    pooled = [np.append(values[usual], values[~usual].sum()) for values in (found, expected)]
    pooled = [values[pooled[1] > 0] for values in pooled]
    return float(stats.chisquare(pooled[0], pooled[1] * pooled[0].sum() / pooled[1].sum()).pvalue)


def path_law(
    above: int, candidates: int, stopping: Stopping, replacement: bool
) -> dict[tuple[int, int], float]:
    """The chance of each (negatives, above) of a finished sample."""
    paths: dict[tuple[int, int], float] = {(0, 0): 1.0}
    done: dict[tuple[int, int], float] = {}
    for number, size in enumerate(stopping.sizes):
        grown: dict[tuple[int, int], float] = {}
        for (drawn, found), chance in paths.items():
            more = size - drawn
            for new in range(more + 1):
                if replacement:
                    p = float(stats.binom.pmf(new, more, above / candidates))
                else:
                    p = float(stats.hypergeom.pmf(new, candidates - drawn, above - found, more))
                if p > 0:
                    cell = (size, found + new)
                    grown[cell] = grown.get(cell, 0.0) + chance * p
        is_last = number == len(stopping.sizes) - 1
        done |= {cell: p for cell, p in grown.items() if cell[1] >= stopping.rank or is_last}
        paths = {cell: p for cell, p in grown.items() if cell[1] < stopping.rank}
    return done


@pytest.mark.parametrize("replacement", [True, False])
def test_first_round_of_a_simulation_is_the_fixed_sample(replacement: bool) -> None:
    draw = np.random.default_rng(2)
    ranks = Ranks.single(draw.integers(0, 80, 400), n_pool=200, n_tied=draw.integers(0, 30, 400))
    arguments: dict[str, Any] = {"replacement": replacement, "seed": 4, "repeat": 2, "label": "a"}
    fixed = simulate_sample(ranks, 19, **arguments)
    once = simulate_adaptive(ranks, Stopping((19,)), **arguments)
    grown = simulate_adaptive(ranks, Stopping((19, 39, 5000), 2), **arguments)
    assert np.array_equal(once.n_above, fixed.n_above) and np.array_equal(once.n_tied, fixed.n_tied)
    stopped = fixed.n_above >= 2
    assert np.array_equal(grown.n_negatives == 19, stopped) and 0 < stopped.sum() < 400
    assert np.array_equal(grown.n_above[stopped], fixed.n_above[stopped])
    assert np.array_equal(grown.n_tied[stopped], fixed.n_tied[stopped])
    assert grown.design == Design(replacement=replacement, stopping=Stopping((19, 39, 5000), 2))
    if not replacement:  # who went to the end has met all candidates
        ended = grown.n_negatives == 199
        assert ended.any()
        assert np.array_equal(grown.n_above[ended], ranks.n_above[ended])
        assert np.array_equal(grown.n_tied[ended], ranks.n_tied[ended])


def test_simulation_of_several_targets() -> None:
    """What stands above the second target is the first, which is not sampled, and three irrelevant items."""
    two, zero = np.array([2, 2]), np.array([0, 0])
    ranks = Ranks(two, np.array([1, 3]), np.array([0, 4]), zero, two + 5, two, np.array([0, 1]), zero)
    sample = simulate_adaptive(ranks, "adaptive(start=2, max=6)")
    assert sample.n_candidates.tolist() == [5, 5] and sample.n_negatives[0] == 5
    assert sample.n_above[0] == 0 and sample.n_above[1] >= 2


def test_simulations_by_spec() -> None:
    ranks = Ranks.single([0, 3, 50], n_pool=4000)
    made = Adaptive(max=800, replace=True)
    first, second = simulate_adaptive(ranks, str(made)), simulate_adaptive(ranks, made, replacement=True)
    assert first.design == second.design == Design(replacement=True, stopping=made.stopping)
    assert np.array_equal(first.n_above, second.n_above)
    assert not np.array_equal(simulate_adaptive(ranks, "adaptive", seed=1).n_negatives, [99, 99, 99])


@pytest.mark.parametrize(
    ("sampler", "options", "message"),
    [
        ("uniform", {}, r"sampler must be adaptive or a stopping rule, got uniform\. Use simulate_sample"),
        ("adaptive", {"replacement": True}, "replacement must be False as adaptive says, got True"),
    ],
)
def test_bad_simulations(sampler: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        simulate_adaptive(Ranks.single([0], n_pool=9), sampler, **options)


def test_a_pool_without_candidates() -> None:
    ranks = Ranks.single([0], n_pool=1)
    with pytest.raises(InvalidData, match="every pool must hold at least one irrelevant item"):
        simulate_adaptive(ranks)
    with pytest.raises(InvalidData, match="every pool must hold at least one irrelevant item"):
        expected_size(ranks, Stopping((1,)))


def literal_cost(sizes: list[int], counts: list[int]) -> list[float]:
    """Eq. 13 as printed."""
    costs = [sum(counts) * sizes[0] / counts[0]]
    for j in range(1, len(sizes) - 1):
        costs.append((sum(counts) - sum(counts[:j])) * (sizes[j] - sizes[j - 1]) / counts[j])
    return costs


def test_cost_is_equation_13() -> None:
    sizes, counts = [100, 200, 400, 800], [50, 20, 10, 5]
    curve = CostCurve.of_counts(sizes, counts)
    assert curve.cost[:-1].tolist() == literal_cost(sizes, counts) and math.isnan(curve.cost[-1])
    assert curve.mean_size == np.average(sizes, weights=counts)


def test_cost_of_a_sample() -> None:
    """Counted from rows, the curve is that of the counts; its mean size is that of the rows."""
    above = np.random.default_rng(3).choice(5000, 3000, p=power_law(5000, 0.4))
    sample = simulate_adaptive(Ranks.single(above, n_pool=5000), Adaptive())
    curve = cost_curve(sample)
    sizes, counts = np.unique(sample.n_negatives + 1, return_counts=True)
    assert curve.sizes.tolist() == sizes.tolist() == [100, 200, 400, 800, 1600, 3200]
    assert curve.cost[:-1].tolist() == literal_cost(sizes.tolist(), counts.tolist())
    assert curve.n_stopped[-1] == ((sample.n_negatives == 3199) & (sample.n_above > 0)).sum()
    assert curve.mean_size == pytest.approx((sample.n_negatives + 1).mean(), rel=1e-12)


def test_samples_that_ran_out_of_candidates() -> None:
    """Of 10 candidates a sample of all is cut in the second round: it costs its 5 further scores, not 15."""
    rule = Design(stopping=Stopping((5, 20, 40)))
    ranks = SampledRanks.single(
        [0, 1, 1], n_negatives=np.array([10, 5, 20]), n_pool=np.array([11, 90, 90]), design=rule
    )
    curve = cost_curve(ranks)
    assert curve.n_entered.tolist() == [3, 2, 0] and curve.n_stopped.tolist() == [1, 1, 0]
    assert curve.n_scores.tolist() == [18, 20, 0] and curve.cost[:2].tolist() == [18, 20]


@pytest.mark.parametrize("a", [0.2, 0.4, 1.0])
def test_the_knee_of_a_power_law_at_the_size_of_yelp(a: float) -> None:
    """With n_max near N = 25,815 the expected curve has its knee at 3200, 12.4 % of the items (Fig. 2)."""
    n = np.array([100 * 2**j for j in range(9)])
    theta = np.arange(25_815) / 25_814
    left = np.array([power_law(25_815, a) @ (1 - theta) ** (size - 1) for size in n])
    counts = np.rint(1e9 * np.append(-np.diff(left, prepend=1.0), left[-1])).astype(int)
    counts = np.append(counts[:-2], counts[-2:].sum())
    assert choose_ceiling(CostCurve.of_counts(n, counts)) == 3200
    assert round(3200 / 25_815, 3) == 0.124


def test_a_knee_by_hand() -> None:
    """The cost is flat up to 800 and then rises: scaled size minus cost is largest at 800."""
    curve = CostCurve(
        np.array([100, 200, 400, 800, 1600, 3200]), *np.array([[1] * 6, [1] * 6, [10, 10, 10, 10, 99, 1]])
    )
    assert choose_ceiling(curve) == 800
    flat = CostCurve(np.array([100, 200, 400, 800]), *np.ones((3, 4), int))
    assert choose_ceiling(flat) == 400  # never dearer: the last size with a cost


def columns(curve: CostCurve) -> list[np.ndarray]:
    return [curve.sizes, curve.n_entered, curve.n_stopped, curve.n_scores]


def test_rounds_that_settle_nobody_are_left_out_of_the_knee() -> None:
    curve = CostCurve.of_counts([100, 200, 400, 800, 1600], [50, 0, 5, 2, 9])
    assert math.isinf(curve.cost[1])
    assert choose_ceiling(curve) == choose_ceiling(
        CostCurve(*(column[[0, 2, 3, 4]] for column in columns(curve)))
    )
    with pytest.raises(InvalidParameter, match=r"at least three rounds .* got 2\. Sample again"):
        choose_ceiling(CostCurve.of_counts([100, 200, 400], [5, 5, 5]))


def test_bad_input() -> None:
    with pytest.raises(
        CannotEstimate, match=r"needs adaptive samples, got samples of fixed size\. Sample with adaptive"
    ):
        cost_curve(SampledRanks.single([0], n_negatives=9, n_pool=20))
    with pytest.raises(InvalidData, match="at least one target"):
        cost_curve(SampledRanks.single([], n_negatives=9, n_pool=20, design=Design(stopping=Stopping((9,)))))
    with pytest.raises(InvalidData, match=r"sizes must grow.*got sizes \[2, 2\] and counts \[1, 1\]"):
        CostCurve.of_counts([2, 2], [1, 1])
    with pytest.raises(InvalidParameter, match=r"one weight per rank 1\.\.2 at most, got .*\(3,\)"):
        expected_size(np.ones(3) / 3, Stopping((1,)), n_pool=2)
    with pytest.raises(InvalidParameter, match="pools of their own"):
        expected_size(Ranks.single([0], n_pool=9), Stopping((1,)), n_pool=9)
