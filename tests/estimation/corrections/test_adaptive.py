"""Linear corrections on adaptive samples: literal twins, expectations over all samples, what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.reference.adaptive import all_samples, literal_correction, literal_table
from tests.reference.world import World
from truerank.core.errors import CannotEstimate, InvalidData
from truerank.core.ranks import Design, Ranks, SampledRanks, Stopping
from truerank.estimation.adaptive_law import AdaptiveLaw
from truerank.estimation.corrections.bias_variance import BiasVariance
from truerank.estimation.corrections.multinomial import Multinomial
from truerank.estimation.corrections.priors import TablePrior
from truerank.estimation.expectation import corrected_values, expected_values, sampling_moments
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally, tally
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics, values

LINEAR = ["bv", "bv(gamma=0.01)", "bv(gamma=1)", "bv(prior=beta)", "ls", "mn(users=50)"]
RULES = [Stopping((1, 2, 4)), Stopping((2, 4)), Stopping((1, 3, 4), 2)]


def metric(written: str) -> Metric:
    return make_metrics(written)[0]


def simulated(rule: Stopping, *, n_pool: int, n_users: int, replacement: bool, seed: int) -> Tally:
    """Algorithm 1 on global ranks, round by round."""
    draw = np.random.default_rng(seed)
    above = np.minimum(np.exp(draw.normal(3, 1.5, n_users)).astype(np.int64), n_pool - 1)
    j, size = np.zeros(n_users, dtype=np.int64), np.zeros(n_users, dtype=np.int64)
    active, earlier = np.arange(n_users), 0
    for reached in rule.sizes:
        left = (above - j)[active]
        if replacement:
            j[active] += draw.binomial(reached - earlier, above[active] / (n_pool - 1))
        else:
            j[active] += draw.hypergeometric(left, n_pool - 1 - earlier - left, reached - earlier)
        size[active], earlier = reached, reached
        active = active[j[active] < rule.rank]
    design = Design(replacement=replacement, stopping=rule)
    return tally(SampledRanks.single(j, n_negatives=size, n_pool=n_pool, design=design))


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("gamma", [Fraction(1), Fraction(1, 10), None])
def test_corrections_equal_fractions(rule: Stopping, gamma: Fraction | None, replacement: bool) -> None:
    """BV and, without a gamma, MN over pairs (m, j), in exact arithmetic from enumerated sequences."""
    L = 5
    prior = [Fraction(i + 2, 27) for i in range(L + 1)]
    gains = [Fraction(1, i + 1) for i in range(L + 1)]
    outcomes, rows = literal_table(L, rule, replacement)
    twin = literal_correction(rows, prior, gains, gamma=gamma, users=30)
    weights = TablePrior(np.array(prior, float))
    estimator = (
        Multinomial(prior=weights, users=30)
        if gamma is None
        else BiasVariance(prior=weights, gamma=float(gamma))
    )
    law = AdaptiveLaw(L, rule, replacement)
    assert list(zip(law.outcome_sizes.tolist(), law.outcome_above.tolist(), strict=True)) == outcomes
    found = corrected_values(estimator, metric("ap"), law)
    np.testing.assert_allclose(found, np.array(twin, float), rtol=1e-9)


@pytest.mark.slow
@given(
    st.integers(30, 200),
    st.lists(st.integers(2, 25), min_size=2, max_size=4),
    st.integers(1, 4),
    st.booleans(),
    st.floats(0.01, 1),
    st.integers(0, 10**6),
)
@example(
    30, [7, 23], 3, False, 1.0, 641
)  # every candidate is drawn: outcomes without noise and without prior
@settings(deadline=None, max_examples=40)
def test_corrections_equal_dense_matrices(
    n_candidates: int, steps: list[int], rank: int, replacement: bool, gamma: float, seed: int
) -> None:
    """Any rule, any prior, zeros included: BV and MN are the solutions over the whole matrix of the law."""
    draw = np.random.default_rng(seed)
    law = AdaptiveLaw(n_candidates, Stopping(tuple(np.cumsum(steps).tolist()), rank), replacement)
    rows = law.pmf(np.arange(n_candidates + 1))
    prior = draw.dirichlet(np.full(n_candidates + 1, 0.3)) * (draw.random(n_candidates + 1) < 0.8)
    prior /= prior.sum()
    gains = (np.arange(n_candidates + 1) < 5).astype(float)
    gram, right = (rows * prior[:, None]).T @ rows, rows.T @ (prior * gains)
    noise = np.diag(rows.sum(axis=0)) - rows.T @ rows
    matrices = {
        BiasVariance(prior=TablePrior(prior), gamma=gamma): (1 - gamma) * gram
        + gamma * np.diag(prior @ rows),
        Multinomial(prior=TablePrior(prior), users=50): gram + noise / 50,
    }
    for estimator, matrix in matrices.items():
        diagonal = np.diag(matrix)  # what is 0 but for rounding must not be scaled up
        scale = 1 / np.sqrt(np.where(diagonal > 1e-15 * diagonal.max(), diagonal, 1.0))
        x = scale * np.linalg.lstsq(matrix * scale * scale[:, None], right * scale, rcond=1e-14)[0]
        found = corrected_values(estimator, metric("recall@5"), law)
        np.testing.assert_allclose(prior * (rows @ found), prior * (rows @ x), atol=1e-9)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("written", LINEAR)
def test_one_size_is_a_fixed_sample(written: str, replacement: bool) -> None:
    """A rule with one size gives what a fixed sample of that size gives."""
    measured = make_metrics("recall@3,ndcg@10,ap")
    above = [0, 0, 1, 5, 20]
    fixed, one = (
        tally(
            SampledRanks.single(
                above, n_negatives=20, n_pool=90, design=Design(replacement=replacement, stopping=stopping)
            )
        )
        for stopping in (None, Stopping((20,)))
    )
    estimator = ESTIMATORS.make(written)
    np.testing.assert_array_equal(estimator.per_user(one, measured), estimator.per_user(fixed, measured))
    law = AdaptiveLaw(89, Stopping((20,)), replacement)
    found = corrected_values(estimator, measured[0], law)
    cells = estimator.corrected(fixed, measured)[:, 0]
    np.testing.assert_allclose(found, cells, rtol=1e-9, atol=1e-9 if written != "ls" else 1e-5)


WORLDS = [
    World(targets=[5], candidates=[9, 7, 3, 1]),
    World(targets=[6, 2], candidates=[7, 4, 3]),
    World(targets=[8, 5, 1], candidates=[9, 6, 3, 2]),
]


@pytest.mark.slow
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("written", LINEAR)
def test_expectation_over_all_samples(written: str, rule: Stopping, replacement: bool) -> None:
    """The mean over every sequence of draws equals the law applied to each target.

    Targets share the draws and each stops by itself; what another target drew does not enter.
    """
    estimator, measured = ESTIMATORS.make(written), make_metrics("recall@2,ndcg@3,ap@4,auc")
    for world in WORLDS:
        found = estimator.estimate(tally(all_samples(world, rule, replacement)), measured).value
        ranks, L = world.ranks(), len(world.candidates)
        law = AdaptiveLaw(L, rule, replacement)
        wanted = np.zeros(len(measured))
        for row in range(len(ranks)):
            every = every_outcome(law, ranks, row)
            J = int(ranks.n_above[row] - ranks.n_relevant_above[row])
            wanted += law.pmf(J) @ estimator.per_user(tally(every), measured)
        np.testing.assert_allclose(found, wanted, atol=1e-9)


def every_outcome(law: AdaptiveLaw, ranks: Ranks, row: int) -> SampledRanks:
    """A sample in which a target meets each outcome of the law once."""
    one = np.ones(law.n_outcomes, dtype=np.int64)
    relevant_above = int(ranks.n_relevant_above[row]) * one
    return SampledRanks(
        user=np.arange(len(one)),
        item=0 * one,
        n_above=law.outcome_above + relevant_above,
        n_tied=0 * one,
        n_pool=one * int(ranks.n_pool[row]),
        n_relevant=one * int(ranks.n_relevant[row]),
        n_relevant_above=relevant_above,
        n_relevant_tied=0 * one,
        n_negatives=law.outcome_sizes,
        n_candidates=one * law.n_candidates,
        design=Design(replacement=law.replacement, stopping=law.stopping),
    )


@pytest.mark.parametrize("replacement", [True, False])
def test_least_squares_is_unbiased_with_enough_outcomes(replacement: bool) -> None:
    """Where outcomes are at least as many as ranks, every metric has an unbiased estimate."""
    rule, measured = Stopping((2, 4, 5)), make_metrics("recall@2,ndcg@3,ap@4,mrr,auc")
    world = World(targets=[4], candidates=[9, 7, 3, 1, 0])
    estimator = ESTIMATORS.make("ls(rcond=1e-12)")
    found = estimator.estimate(tally(all_samples(world, rule, replacement)), measured).value
    np.testing.assert_allclose(found, values(measured, world.ranks())[0], atol=1e-7)


def test_a_pool_that_is_exhausted_is_ranked_exactly() -> None:
    """Without replacement a target nobody is above ends with all candidates, the end of the rule or not."""
    rule = Stopping((2, 4, 8, 16))
    law = AdaptiveLaw(6, rule, False)
    assert law.sizes == (2, 4, 6)
    found = sampling_moments(metric("recall@1"), law, [1], estimator=ESTIMATORS.make("ls(rcond=1e-12)"))
    assert found.mean == pytest.approx(1, abs=1e-6)
    assert law.pmf(0)[law.outcome_above == 0].tolist() == [1.0]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("written", LINEAR)
def test_constants_stay_and_weights_give_all_metrics(written: str, replacement: bool) -> None:
    counted = simulated(
        Stopping((10, 20, 40, 80), 2), n_pool=300, n_users=400, replacement=replacement, seed=1
    )
    estimator = ESTIMATORS.make(written)
    law = AdaptiveLaw(299, Stopping((10, 20, 40, 80), 2), replacement)
    mean, _ = expected_values(metric("recall"), law, np.arange(300), estimator=estimator)
    np.testing.assert_allclose(mean, 1, atol=1e-9)
    if written != "ls":  # it fixes the values of outcomes that hardly occur less sharply
        np.testing.assert_allclose(estimator.corrected(counted, [metric("recall")]), 1, atol=1e-9)
    measured = make_metrics("recall@10,ndcg@5,ap,auc,mrr,precision@3")
    distribution = estimator.distribution(counted)
    one = np.ones(300, dtype=np.int64)
    direct = [distribution.weights @ m.gain(np.arange(1, 301), 0 * one, one, 300 * one) for m in measured]
    wanted = estimator.estimate(counted, measured).value
    np.testing.assert_allclose(direct, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(estimator.estimate_runs([counted], measured)[0], wanted, rtol=1e-9, atol=1e-9)
    for row, weights in enumerate(estimator.weights(counted)):
        assert weights.sum() == pytest.approx(counted.counts(row).sum() / counted.n_users, abs=1e-6)


@pytest.mark.parametrize("replacement", [True, False])
def test_bias_and_variance_of_an_adaptive_estimate(replacement: bool) -> None:
    """The computed mean and spread of BV are those of the values over the outcomes."""
    law = AdaptiveLaw(300, Stopping((10, 20, 40, 80)), replacement)
    estimator, measured = ESTIMATORS.make("bv(gamma=0.01)"), metric("ndcg@10")
    x = corrected_values(estimator, measured, law)
    mean, variance = expected_values(measured, law, np.arange(301), estimator=estimator)
    rows = law.pmf(np.arange(301))
    np.testing.assert_allclose(mean, rows @ x, rtol=1e-12)
    np.testing.assert_allclose(variance, rows @ x**2 - (rows @ x) ** 2, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("replacement", [True, False])
def test_adaptive_values_are_closer_than_fixed_ones_of_the_same_budget(replacement: bool) -> None:
    """For ranks at the top the mean of Recall@3 over adaptive samples is nearer to the truth at less cost."""
    L, ranks = 1_000, np.array([1, 2, 3, 5, 9, 20, 60, 200, 500, 900])
    rule = Stopping((25, 50, 100, 200, 400))
    law = AdaptiveLaw(L, rule, replacement)
    m = int(law.mean_size(ranks - 1).mean()) + 1
    estimator, measured = BiasVariance(gamma=0.1), metric("recall@3")
    fixed = AdaptiveLaw(L, Stopping((m,)), replacement)
    gap = [abs(sampling_moments(measured, one, ranks, estimator=estimator).bias) for one in (law, fixed)]
    assert gap[0] < gap[1]


@pytest.mark.parametrize("written", ["naive", "rank-estimate", "rank-estimate(round=linear)", "cls"])
def test_methods_for_fixed_samples_say_which_can(written: str) -> None:
    counted = simulated(Stopping((10, 20)), n_pool=60, n_users=5, replacement=True, seed=2)
    with pytest.raises(
        CannotEstimate, match=r"cannot treat adaptive samples, because .*\. Use estimator 'mle' or 'bv'\."
    ):
        ESTIMATORS.make(written).estimate(counted, [metric("recall@1")])


@pytest.mark.parametrize(
    ("m", "above", "message"),
    [
        (15, 3, r"must have one of the sizes \(10, 20\), got 15\. Correct the table"),
        (
            10,
            0,
            r"with 10 negatives and rank 1 cannot come from the stopping rule, which goes on sampling while",
        ),
        (20, 12, r"with 20 negatives and rank 13 cannot come from .*, whose last round adds fewer"),
    ],
)
def test_rows_that_contradict_the_rule_are_refused(m: int, above: int, message: str) -> None:
    design = Design(replacement=True, stopping=Stopping((10, 20)))
    sample = SampledRanks.single([above], n_negatives=m, n_pool=60, design=design)
    for written in ("bv", "ls", "mn"):
        with pytest.raises(InvalidData, match=message):
            ESTIMATORS.make(written).estimate(tally(sample), [metric("recall@1")])
        with pytest.raises(InvalidData, match=message):
            ESTIMATORS.make(written).weights(tally(sample))


def test_ties_may_reach_beyond_the_last_round() -> None:
    """A target that ties with 15 of 20 is spread over ranks that no untied target could have."""
    design = Design(replacement=True, stopping=Stopping((10, 20)))
    sample = SampledRanks.single([1], n_negatives=20, n_pool=60, n_tied=15, design=design)
    for ties in ("expected", "worst", "random", "best"):
        found = ESTIMATORS.make("bv").estimate(tally(sample, ties=ties), [metric("auc")])
        assert np.isfinite(found.value).all()


def test_results_of_different_rules_are_remembered_apart() -> None:
    """The same sizes under another q, or another last size, have other values."""
    measured = metric("recall@3")
    found = [
        corrected_values(BiasVariance(), measured, AdaptiveLaw(60, rule, replacement)).tolist()
        for rule in (Stopping((4, 8)), Stopping((4, 8), 2), Stopping((4, 9)))
        for replacement in (True, False)
    ]
    assert len({tuple(x) for x in found}) == len(found)


def test_pools_of_several_sizes() -> None:
    """Users with their own pools are corrected as each would be alone, also where a pool is exhausted."""
    rule = Stopping((4, 8, 16))
    design = Design(replacement=False, stopping=rule)
    above, m, pool = [0, 2, 1, 0, 1], np.array([16, 4, 8, 9, 16]), np.array([40, 40, 77, 10, 30])
    measured = make_metrics("ndcg@5,ap,auc")
    together = SampledRanks.single(above, n_negatives=m, n_pool=pool, design=design)
    for written in LINEAR:
        estimator = ESTIMATORS.make(written)
        alone = [
            SampledRanks.single([a], n_negatives=int(k), n_pool=int(n), design=design)
            for a, k, n in zip(above, m, pool, strict=True)
        ]
        wanted = np.mean([estimator.estimate(tally(one), measured).value for one in alone], axis=0)
        np.testing.assert_allclose(estimator.estimate(tally(together), measured).value, wanted, rtol=1e-9)
