"""Corrections: golden values, literal twins, and what each promises."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from tests.reference.law import literal_bv, literal_cls, literal_pmf
from tests.reference.world import World
from truerank.core.errors import CannotEstimate, InvalidParameter, UnknownName
from truerank.core.ranks import Design, SampledRanks
from truerank.core.types import FloatArray
from truerank.estimation.base import Estimator
from truerank.estimation.corrections.bias_variance import BiasVariance
from truerank.estimation.corrections.constrained import nonnegative_solve
from truerank.estimation.corrections.priors import TablePrior
from truerank.estimation.expectation import corrected_values
from truerank.estimation.law import Binomial, FixedLaw, Hypergeometric
from truerank.estimation.registry import ESTIMATORS, PRIORS
from truerank.estimation.tally import Contexts, Tally, tally
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics, values

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "spec" / "corrections.json").read_text())
WITH = Design(replacement=True)
LINEAR = [
    "bv",
    "bv(gamma=0.01)",
    "bv(gamma=1)",
    "bv(prior=beta)",
    "ls",
    "mn(users=50)",
    "mn(prior=beta, users=50)",
    "rank-estimate",
    "rank-estimate(round=linear)",
]
ALL = [*LINEAR, "cls", "cls(prior=beta(a=0.3))", "cls(positive=true)", "naive"]


def metric(written: str) -> Metric:
    return make_metrics(written)[0]


def values_in(
    estimator: Estimator, measured: Metric, sizes: tuple[int, int, int, int, int], replacement: bool
) -> FloatArray:
    """The corrected values in one context (m, L, targets above, targets, pool)."""
    none = np.zeros(0, dtype=np.int64)
    context = Contexts.of_columns(np.array([sizes]))
    empty = Tally(context, none, none, np.zeros(0), 0, 0, Design(replacement=replacement))
    return estimator.corrected(empty, [measured])[:, 0]


@pytest.mark.parametrize("gamma", ["1", "0.1", "0.01"])
def test_golden_bv_with_a_prior(gamma: str) -> None:
    small = GOLDEN["small_linear"]
    estimator = BiasVariance(prior=TablePrior(np.array(small["prior"])), gamma=float(gamma))
    found = corrected_values(estimator, metric("recall@3"), Binomial(11, 4))
    np.testing.assert_allclose(found, small[f"BV_gamma_{gamma}"], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("estimator", "key"),
    [
        ("bv(gamma=0.01)", "BV_uniform_0.01"),
        ("cls", "CLS_uniform_nonincreasing"),
        ("cls(positive=true)", "CLS_uniform_positive"),
    ],
)
def test_golden_uniform(estimator: str, key: str) -> None:
    found = corrected_values(ESTIMATORS.make(estimator), metric("recall@3"), Binomial(11, 4))
    np.testing.assert_allclose(found, GOLDEN["small_linear"][key], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("estimator", "key"),
    [
        ("bv(gamma=1)", "BV_1"),
        ("bv(gamma=0.1)", "BV_0.1"),
        ("bv(gamma=0.01)", "BV_0.01"),
        ("bv(gamma=0.001)", "BV_0.001"),
        ("cls", "CLS"),
        ("rank-estimate", "RankEstimate_floor"),
    ],
)
def test_golden_figure_4(estimator: str, key: str) -> None:
    found = corrected_values(ESTIMATORS.make(estimator), metric("ap"), Binomial(9999, 100))
    np.testing.assert_allclose(found[:6], GOLDEN["kr20_fig4_AP_N10000_m100_first6"][key], rtol=0, atol=1e-10)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("gamma", [Fraction(1), Fraction(1, 10), Fraction(1, 1000)])
def test_bv_equals_fractions(gamma: Fraction, replacement: bool) -> None:
    """The closed form in exact arithmetic, from enumerated samples."""
    size, m = 7, 3
    prior = [Fraction(i + 1, 28) for i in range(size)]
    gains = [Fraction(1, i + 1) for i in range(size)]
    twin = literal_bv(gains, prior, m, gamma, replacement)
    law: FixedLaw = Binomial(size - 1, m) if replacement else Hypergeometric(size - 1, m)
    estimator = BiasVariance(prior=TablePrior(np.array(prior, float)), gamma=float(gamma))
    found = corrected_values(estimator, metric("ap"), law)
    np.testing.assert_allclose(found, np.array(twin, float), rtol=1e-10)


@pytest.mark.parametrize("replacement", [True, False])
def test_gamma_one_is_the_mean_given_the_sampled_rank(replacement: bool) -> None:
    law: FixedLaw = Binomial(40, 6) if replacement else Hypergeometric(40, 6)
    prior = np.random.default_rng(0).dirichlet(np.ones(41))
    joint = law.pmf(np.arange(41)) * prior[:, None]
    wanted = joint.T @ (1 / np.log2(np.arange(41) + 2)) / joint.sum(axis=0)
    found = corrected_values(BiasVariance(prior=TablePrior(prior), gamma=1.0), metric("ndcg"), law)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@given(
    st.sampled_from(["recall@2", "ndcg@5", "ap", "auc"]),
    st.booleans(),
    st.floats(0.001, 1),
    st.integers(0, 99),
)
@settings(deadline=None, max_examples=40)
def test_bv_is_a_minimum(written: str, replacement: bool, gamma: float, seed: int) -> None:
    """No step away from x lowers bias^2 + gamma variance."""
    draw = np.random.default_rng(seed)
    law: FixedLaw = Binomial(15, 5) if replacement else Hypergeometric(15, 5)
    prior = draw.dirichlet(np.ones(16))
    measured = metric(written)
    one = np.ones(16, dtype=np.int64)
    gains = measured.gain(np.arange(1, 17), 0 * one, one, 16 * one)
    rows = law.pmf(np.arange(16))

    def objective(x: FloatArray) -> float:
        mean = rows @ x
        return float(prior @ ((mean - gains) ** 2 + gamma * (rows @ x**2 - mean**2)))

    x = corrected_values(BiasVariance(prior=TablePrior(prior), gamma=gamma), measured, law)
    for _ in range(10):
        step = 1e-3 * draw.normal(size=6)
        assert objective(x + step) >= objective(x) - 1e-13


@pytest.mark.parametrize("written", ALL)
@pytest.mark.parametrize("replacement", [True, False])
def test_constants_stay(written: str, replacement: bool) -> None:
    """A metric that is 1 at every rank is estimated as 1: recall without a cut-off."""
    law: FixedLaw = Binomial(200, 20) if replacement else Hypergeometric(200, 20)
    found = corrected_values(ESTIMATORS.make(written), metric("recall"), law)
    np.testing.assert_allclose(found, 1, atol=1e-6)


@pytest.mark.parametrize("written", LINEAR)
@pytest.mark.parametrize("replacement", [True, False])
def test_weights_give_all_metrics(written: str, replacement: bool) -> None:
    """The signed weights over ranks, times the metric, equal the corrected values, times the counts."""
    sample = SampledRanks.single(
        [0, 0, 1, 7, 30],
        n_negatives=30,
        n_pool=200,
        n_tied=np.array([0, 2, 0, 1, 0]),
        design=Design(replacement=replacement),
    )
    estimator, counted = ESTIMATORS.make(written), tally(sample)
    distribution = estimator.distribution(counted)
    measured = make_metrics("recall@10,ndcg@5,ap,auc,mrr,precision@3")
    one = np.ones(200, dtype=np.int64)
    direct = [distribution.weights @ m.gain(np.arange(1, 201), 0 * one, one, 200 * one) for m in measured]
    np.testing.assert_allclose(direct, estimator.estimate(counted, measured).value, rtol=1e-5, atol=1e-7)
    assert distribution.signed
    assert distribution.method == written


def test_weights_per_context() -> None:
    """With several targets and pools, weights times gains add up to the estimate."""
    (sample,) = World(targets=[9, 4, 4], candidates=[8, 7, 4, 3, 2, 1]).sampled(6, False)
    counted, estimator = tally(sample), ESTIMATORS.make("bv")
    total = 0.0
    contexts = counted.contexts
    for row, weights in enumerate(estimator.weights(counted)):
        above, relevant, pool = (
            np.full(len(weights), column[row])
            for column in (contexts.n_relevant_above, contexts.n_relevant, contexts.n_pool)
        )
        gains = metric("ndcg@4").gain(np.arange(len(weights)) + 1 + above, above, relevant, pool)
        total += float(weights @ gains)
    assert total == pytest.approx(estimator.estimate(counted, [metric("ndcg@4")]).value[0], rel=1e-12)
    with pytest.raises(CannotEstimate, match="a rank distribution needs one pool size"):
        estimator.distribution(counted)


@pytest.mark.parametrize("written", ["cls", "naive"])
def test_no_weights_without_linearity(written: str) -> None:
    sample = SampledRanks.single([0], n_negatives=3, n_pool=9)
    with pytest.raises(CannotEstimate, match="has no weights over global ranks"):
        ESTIMATORS.make(written).distribution(tally(sample))


WORLDS = [
    World(targets=[5], candidates=[9, 7, 3, 1]),
    World(targets=[5], candidates=[9, 5, 5, 1]),
    World(targets=[6, 2], candidates=[7, 4, 3]),
    World(targets=[5, 5, 1], candidates=[9, 5, 1]),
    World(targets=[5, 5, 1], candidates=[9, 3, 2]),
]
#: with replacement a tied item may be drawn twice, which counts of ties cannot tell from two tied items
REPLACED = [world for world in WORLDS if not set(world.targets) & set(world.candidates)]
CASES = [(world, False) for world in WORLDS] + [(world, True) for world in REPLACED]
MEASURED = "recall@2,ndcg@3,ap@4,auc,mrr,hit@2,precision@2,auc@3"


@pytest.mark.slow
@pytest.mark.parametrize(("world", "replacement"), CASES)
@pytest.mark.parametrize("written", ALL)
def test_expectation_over_all_samples(world: World, written: str, replacement: bool) -> None:
    """The mean over every sample equals the law applied to every order of the ties.

    Several relevant items, ties among targets and negatives, both laws; no independence is assumed.
    """
    m, estimator, measured = 2, ESTIMATORS.make(written), make_metrics(MEASURED)
    found = np.mean(
        [estimator.per_user(tally(s, width=0), measured)[0] for s in world.sampled(m, replacement)], axis=0
    )
    np.testing.assert_allclose(found, over_orders(world, m, estimator, measured, replacement), atol=1e-9)


def over_orders(
    world: World, m: int, estimator: Estimator, measured: tuple[Metric, ...], replacement: bool
) -> FloatArray:
    """The expected estimate from its definition: break ties in every way, then apply the law to each."""
    items = [(score, True) for score in world.targets] + [(score, False) for score in world.candidates]
    s, L = len(world.targets), len(world.candidates)
    orders = [
        order
        for order in itertools.permutations(range(len(items)))
        if all(items[a][0] >= items[b][0] for a, b in itertools.pairwise(order))
    ]
    total = np.zeros(len(measured))
    for order, (column, one) in itertools.product(orders, enumerate(measured)):
        above = relevant_above = 0
        for place in order:
            if items[place][1]:
                x = values_in(estimator, one, (m, L, relevant_above, s, L + s), replacement)
                law = np.array(literal_pmf(L, m, above, replacement), float)
                total[column] += law @ x / len(orders)
            relevant_above += items[place][1]
            above += not items[place][1]
    return total


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("written", ["ls", "naive", "rank-estimate", "cls"])
def test_sampling_everything_is_exact(world: World, written: str) -> None:
    """With all candidates sampled the sampled metric and the bias-free corrections equal the exact metric."""
    (sample,) = world.sampled(len(world.candidates), False)
    measured = make_metrics("recall@2,ndcg@3,ap@4,mrr,hit@2,precision@2,auc")
    found = ESTIMATORS.make(written).per_user(tally(sample), measured)
    np.testing.assert_allclose(found, values(measured, world.ranks()), atol=1e-9)


def test_tied_draws_with_replacement_count_as_distinct_items() -> None:
    """The more items tie, the less it matters: the error falls with the share of repeated draws."""
    estimator, measured = ESTIMATORS.make("naive"), make_metrics("ap")
    errors = []
    for n_tied in (1, 4, 16):
        world = World(targets=[5], candidates=[5] * n_tied)
        found = np.mean([estimator.per_user(tally(s), measured) for s in world.sampled(2, True)])
        wanted = [
            np.array(literal_pmf(n_tied, 2, J, True), float) @ [1, 1 / 2, 1 / 3] for J in range(n_tied + 1)
        ]
        errors.append(abs(found - np.mean(wanted)))
    assert errors[0] > 3 * errors[1] > 9 * errors[2]
    assert errors[2] < 0.005


@pytest.mark.parametrize("world", REPLACED)
def test_least_squares_is_unbiased_with_enough_negatives(world: World) -> None:
    """With replacement and m >= L the law is invertible, so the mean over all samples is the exact metric."""
    measured = make_metrics("recall@2,ndcg@3,ap@4,mrr,hit@2,precision@2,auc")
    m, estimator = len(world.candidates), ESTIMATORS.make("ls")
    found = [estimator.per_user(tally(s), measured) for s in world.sampled(m, True)]
    np.testing.assert_allclose(np.mean(found, axis=0), values(measured, world.ranks()), atol=1e-9)


@given(
    st.sampled_from(["recall@1", "recall@10", "ndcg@10", "ap", "ndcg", "precision@5", "auc"]),
    st.integers(20, 400),
    st.integers(1, 30),
    st.booleans(),
    st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_cls_is_monotone_and_optimal(
    written: str, n_candidates: int, m: int, replacement: bool, positive: bool
) -> None:
    """CLS never rises with the sampled rank, and no non-negative least squares does better."""
    m = m if replacement else min(m, n_candidates)
    law: FixedLaw = Binomial(n_candidates, m) if replacement else Hypergeometric(n_candidates, m)
    measured = metric(written)
    x = corrected_values(ESTIMATORS.make("cls(positive=true)" if positive else "cls"), measured, law)
    assert (np.diff(x) <= 1e-12).all()
    assert not positive or x.min() >= 0
    one = np.ones(n_candidates + 1, dtype=np.int64)
    gains = measured.gain(np.arange(1, n_candidates + 2), 0 * one, one, one + n_candidates)
    goal = np.broadcast_to(gains, n_candidates + 1).astype(np.float64)
    rows = law.pmf(np.arange(n_candidates + 1))
    design = np.cumsum(rows, axis=1)  # of steps down; the last one is the value at the last sampled rank
    if not positive:
        design = np.concatenate([design, -design[:, -1:]], axis=1)
    steps, _ = nnls(design, goal, maxiter=10_000)  # the norm it reports can be too small, so it is taken anew
    assert np.linalg.norm(rows @ x - goal) <= np.linalg.norm(design @ steps - goal) * (1 + 1e-9) + 1e-7


def test_cls_meets_the_conditions_of_optimality() -> None:
    """No step can be raised or lowered with profit; scipy stops short of that in this case."""
    law, measured = Binomial(3705, 300), metric("ndcg@100")
    x = corrected_values(ESTIMATORS.make("cls"), measured, law)
    one = np.ones(3706, dtype=np.int64)
    rows = law.pmf(np.arange(3706))
    residual = measured.gain(np.arange(1, 3707), 0 * one, one, 3706 * one) - rows @ x
    slope = np.cumsum(rows.T @ residual) / 3706
    steps = -np.diff(x)
    assert (steps >= 0).all()
    assert (slope <= 1e-15).all()
    assert (np.abs(slope[:-1][steps > 1e-12]) <= 1e-15).all()


@pytest.mark.parametrize("replacement", [True, False])
def test_cls_of_a_line_is_a_line(replacement: bool) -> None:
    """AUC has an exact solution, 1 - j/m, however singular the equations are."""
    law: FixedLaw = Binomial(3705, 100) if replacement else Hypergeometric(3705, 100)
    x = corrected_values(ESTIMATORS.make("cls"), metric("auc"), law)
    np.testing.assert_allclose(x, 1 - np.arange(101) / 100, atol=1e-10)


def test_cls_equals_ls_where_ls_is_monotone() -> None:
    """With one negative AP falls by itself."""
    free, bound = (
        corrected_values(ESTIMATORS.make(name), metric("ap"), Binomial(30, 1)) for name in ("ls", "cls")
    )
    assert (np.diff(free) < 0).all()
    np.testing.assert_allclose(free, bound, rtol=1e-10)


def test_cls_recall_has_a_small_negative_plateau() -> None:
    """N = 3706, n = 101: x = (0.4710, -0.00205, -0.00205, ...)."""
    x = corrected_values(ESTIMATORS.make("cls"), metric("recall@10"), Binomial(3705, 100))
    assert x[0] == pytest.approx(0.4710, abs=5e-5)
    assert x[1] == pytest.approx(-0.00205, abs=5e-6)
    assert x[2] == pytest.approx(x[1], abs=1e-12)
    clipped = corrected_values(ESTIMATORS.make("cls(clip=true)"), metric("recall@10"), Binomial(3705, 100))
    assert clipped.tolist() == np.maximum(x, 0.0).tolist()


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("positive", [True, False])
def test_cls_equals_fractions(positive: bool, replacement: bool) -> None:
    """Six items, three negatives: the best of all sets of steps, in fractions."""
    for cutoff in (1, 2, 4):
        gains = [Fraction(int(rank <= cutoff), rank) for rank in range(1, 7)]
        wanted = literal_cls(gains, [Fraction(1, 6)] * 6, 3, positive, replacement)
        law: FixedLaw = Binomial(5, 3) if replacement else Hypergeometric(5, 3)
        written = "cls(positive=true)" if positive else "cls"
        found = corrected_values(ESTIMATORS.make(written), metric(f"mrr@{cutoff}"), law)
        np.testing.assert_allclose(found, np.array(wanted, dtype=float), atol=1e-12)


@pytest.mark.parametrize("replacement", [True, False])
def test_positive_cls_is_neither_plain_nor_clipped(replacement: bool) -> None:
    """Recall at ten of 3,541: one value at the first rank, between the plain one and its clipped plateau."""
    law: FixedLaw = Binomial(3540, 100) if replacement else Hypergeometric(3540, 100)
    plain, positive, clipped = (
        corrected_values(ESTIMATORS.make(written), metric("recall@10"), law)
        for written in ("cls", "cls(positive=true)", "cls(clip=true)")
    )
    assert plain[-1] < -1e-3
    assert positive[1:].tolist() == [0.0] * 100
    assert plain[0] + plain[1] < positive[0] < clipped[0]
    auc, ap = metric("auc"), metric("ap")
    positive_auc = corrected_values(ESTIMATORS.make("cls(positive=true)"), auc, law)
    np.testing.assert_allclose(positive_auc, 1 - np.arange(101) / 100, atol=1e-10)
    np.testing.assert_allclose(  # where plain values are positive there is nothing to constrain
        corrected_values(ESTIMATORS.make("cls(positive=true)"), ap, law),
        corrected_values(ESTIMATORS.make("cls"), ap, law),
        atol=1e-12,
    )


def test_clipped_cls_lifts_the_plateau_to_zero() -> None:
    law, measured = Binomial(3705, 100), metric("recall@10")
    free, clipped = (corrected_values(ESTIMATORS.make(w), measured, law) for w in ("cls", "cls(clip=true)"))
    np.testing.assert_array_equal(clipped, np.maximum(free, 0))


def test_the_active_set_leaves_what_it_entered() -> None:
    """Random problems against scipy, the free variable written as a difference, or bounded like the rest."""
    draw = np.random.default_rng(3)
    for _ in range(30):
        design, goal = draw.normal(size=(30, 12)) + 0.8, draw.normal(size=30)
        bounded = nonnegative_solve(design.T @ design, design.T @ goal, is_last_free=False)
        np.testing.assert_allclose(bounded, nnls(design, goal)[0], atol=1e-9)
        wanted, _ = nnls(np.concatenate([design, -design[:, -1:]], axis=1), goal)
        wanted[11] -= wanted[12]
        found = nonnegative_solve(design.T @ design, design.T @ goal)
        np.testing.assert_allclose(found, wanted[:12], atol=1e-9)


def test_rank_estimate_is_exact_in_whole_numbers() -> None:
    """L j/m is floored as a whole number: 300 * 49/100 is 147, not 146.99999."""
    found = corrected_values(ESTIMATORS.make("rank-estimate"), metric("ap"), Binomial(300, 100))
    np.testing.assert_array_equal(found, 1 / (3.0 * np.arange(101) + 1))


def test_linear_rank_estimate_interpolates() -> None:
    found = corrected_values(ESTIMATORS.make("rank-estimate(round=linear)"), metric("ap"), Binomial(3, 2))
    np.testing.assert_allclose(found, [1, (1 / 2 + 1 / 3) / 2, 1 / 4])


def test_naive_auc_divides_by_the_sample() -> None:
    sample = SampledRanks.single([1], n_negatives=4, n_pool=1000)
    assert ESTIMATORS.make("naive").estimate(tally(sample), [metric("auc")]).value.tolist() == [0.75]


@pytest.mark.parametrize("written", ALL)
def test_users_with_their_own_pools_and_sample_sizes(written: str) -> None:
    """The estimate of users with different N and m is the mean of the estimates of each alone."""
    above, m, pool = [0, 2, 5, 0], np.array([3, 5, 5, 8]), np.array([40, 40, 77, 41])
    measured, estimator = make_metrics("ndcg@5,ap,auc"), ESTIMATORS.make(written)
    together = SampledRanks.single(above, n_negatives=m, n_pool=pool)
    alone = [
        SampledRanks.single([above[i]], n_negatives=int(m[i]), n_pool=int(pool[i])) for i in range(len(above))
    ]
    found = estimator.estimate(tally(together), measured).value
    wanted = np.mean([estimator.estimate(tally(one), measured).value for one in alone], axis=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_standard_error_is_that_of_the_users() -> None:
    sample = SampledRanks.single([0, 3, 0, 0], n_negatives=4, n_pool=1000)
    found = ESTIMATORS.make("naive").estimate(tally(sample), [metric("recall@1")])
    assert found.value.tolist() == [0.75]
    assert found.standard_error[0] == pytest.approx(0.5 / 2)  # sd of 1, 0, 1, 1 is 1/2
    single = SampledRanks.single([0], n_negatives=4, n_pool=1000)
    assert np.isnan(ESTIMATORS.make("naive").estimate(tally(single), [metric("recall@1")]).standard_error[0])


def test_a_prior_with_gaps_leaves_no_sampled_rank_undefined() -> None:
    """All mass on rank 1: other sampled ranks cannot occur and take the nearest value."""
    prior = np.zeros(400)
    prior[0] = 1
    for gamma in (1.0, 0.1):
        x = corrected_values(
            BiasVariance(prior=TablePrior(prior), gamma=gamma), metric("ap"), Binomial(399, 50)
        )
        np.testing.assert_allclose(x, 1)
    counted = tally(SampledRanks.single([0, 7], n_negatives=50, n_pool=400, design=WITH))
    weights = BiasVariance(prior=TablePrior(prior)).distribution(counted).weights
    np.testing.assert_allclose(weights, prior, atol=1e-12)


def test_gamma_zero_is_least_squares_and_tiny_gamma_is_solved() -> None:
    law = Binomial(300, 40)
    zero, free = (
        corrected_values(ESTIMATORS.make(name), metric("ap"), law) for name in ("bv(gamma=0)", "ls")
    )
    np.testing.assert_array_equal(zero, free)
    assert np.isfinite(corrected_values(ESTIMATORS.make("bv(gamma=1e-18)"), metric("ap"), law)).all()


def test_results_are_remembered_apart() -> None:
    """Laws of equal sizes with and without replacement, and priors of equal names, are kept apart."""
    measured = metric("recall@3")
    found = [
        corrected_values(BiasVariance(prior=TablePrior(np.array(prior))), measured, law)
        for prior in ([0.5, 0.3, 0.1, 0.1], [0.1, 0.1, 0.3, 0.5])
        for law in (Binomial(3, 2), Hypergeometric(3, 2))
    ]
    assert len({tuple(x.tolist()) for x in found}) == 4


@pytest.mark.parametrize("law", ["popularity", "given"])
@pytest.mark.parametrize("written", ["bv", "cls", "ls", "rank-estimate"])
def test_other_designs_are_refused(written: str, law: str) -> None:
    sample = SampledRanks.single([0], n_negatives=3, n_pool=9, design=Design(law=law))  # type: ignore[arg-type]
    with pytest.raises(
        CannotEstimate, match=f"needs negatives that were drawn uniformly, got design '{law}'"
    ):
        ESTIMATORS.make(written).estimate(tally(sample), [metric("recall@1")])
    assert ESTIMATORS.make("naive").estimate(tally(sample), [metric("recall@1")]).value.tolist() == [1.0]


@pytest.mark.parametrize("written", ALL)
def test_metrics_without_a_gain_are_refused(written: str) -> None:
    sample = SampledRanks.single([0], n_negatives=3, n_pool=9)
    with pytest.raises(CannotEstimate, match="is not a sum over targets"):
        ESTIMATORS.make(written).estimate(tally(sample), [metric("ap(norm=hits)@5")])


@pytest.mark.parametrize("written", ALL)
def test_specs_read_back(written: str) -> None:
    estimator = ESTIMATORS.make(written)
    assert ESTIMATORS.make(str(estimator)) == estimator
    assert str(estimator) == written
    assert hash(estimator) == hash(ESTIMATORS.make(written))


@pytest.mark.parametrize("written", ALL)
def test_estimators_travel(written: str) -> None:
    """Frozen, and the same after pickling."""
    estimator = ESTIMATORS.make(written)
    assert pickle.loads(pickle.dumps(estimator)) == estimator
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimator.key = "x"  # type: ignore[misc]


def test_estimators_are_listed_with_their_defaults() -> None:
    shown = {entry.name: (entry.parameters, entry.source) for entry in ESTIMATORS.entries()}
    assert shown["bv"] == ("prior=uniform, gamma=0.1", "krichene2020, Eq. 26")
    assert shown["ls"][0] == "prior=uniform, rcond=1e-08"
    assert [entry.name for entry in PRIORS.entries()] == ["beta", "file", "uniform"]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("bv(gamma=1.5)", r"gamma must lie in \[0, 1\], got 1.5"),
        ("bv(gamma=-0.1)", r"gamma must lie in \[0, 1\], got -0.1"),
        ("bv(prior=beta(a=0))", "a must be greater than 0"),
        ("cls(clip=true, positive=true)", "clip and positive must not both be true"),
        ("cls(positive=2)", r"cls\(positive=...\) must be true or false, got 2"),
        ("ls(rcond=0)", "rcond must lie between 0 and 1"),
        ("rank-estimate(round=up)", "must be floor or linear, got 'up'"),
        ("bv(prior=file)", "prior 'file' needs a path"),
    ],
)
def test_bad_parameters(written: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        ESTIMATORS.make(written)


def test_unknown_names() -> None:
    with pytest.raises(UnknownName, match=r"unknown estimator 'bw'. Did you mean 'bv'"):
        ESTIMATORS.make("bw")
    with pytest.raises(UnknownName, match=r"unknown prior 'uniforn'. Did you mean 'uniform'"):
        ESTIMATORS.make("bv(prior=uniforn)")
    with pytest.raises(InvalidParameter, match="prior must be a prior or a spec"):
        BiasVariance(prior=0.3)  # type: ignore[arg-type]
