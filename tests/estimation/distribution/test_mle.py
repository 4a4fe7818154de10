"""MLE: golden values, literal twins, laws that must hold, and bad input."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.reference.law import integer_pmf
from tests.reference.mixture import Row, literal_em
from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter
from truerank.core.ranks import Design, SampledRanks, Stopping
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.estimation.distribution.mle import MaximumLikelihood
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally, tally
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "spec" / "mle.json").read_text())["small_dist"]
SIZES = (99, 199, 399, 799, 1599, 3199)
TOP = "recall@1,recall@5,recall@10,recall@20,recall@50,ndcg@1,ndcg@5,ndcg@10,ndcg@20,ndcg@50"


def make(written: str) -> MixtureEstimator:
    made = ESTIMATORS.make(written)
    assert isinstance(made, MixtureEstimator)
    return made


def counted(
    above: IntArray | list[int], m: int | IntArray, n_pool: int, *, replacement: bool = True
) -> Tally:
    design = Design(replacement=replacement)
    return tally(SampledRanks.single(above, n_negatives=m, n_pool=n_pool, design=design))


def long_tail(n_pool: int, n_users: int, seed: int) -> IntArray:
    """Items above the targets of a decent model: most targets near the top, a few anywhere."""
    fraction = np.random.default_rng(seed).beta(0.3, 1.2, n_users)
    return np.minimum(fraction * n_pool, n_pool - 1).astype(np.int64)


@pytest.mark.parametrize("iterations", [1, 10, 100])
def test_golden(iterations: int) -> None:
    above = np.repeat(np.arange(5), np.rint(np.array(GOLDEN["ptilde"]) * 100).astype(np.int64))
    found = make(f"mle(iterations={iterations}, grid=0)").distribution(counted(above, 4, GOLDEN["N"]))
    np.testing.assert_allclose(found.weights, GOLDEN[f"EM_iter_{iterations}"], rtol=0, atol=1e-10)
    assert found.diagnostics["iterations"] == iterations


@pytest.mark.parametrize("replacement", [True, False])
def test_em_averages_posteriors_over_users(replacement: bool) -> None:
    """The papers' loop over users, in samples of several sizes."""
    above, m = [0, 2, 1, 0, 3, 5], np.array([3, 3, 5, 5, 5, 8])
    found = make("mle(iterations=20, grid=0)").distribution(counted(above, m, 14, replacement=replacement))
    rows = [Row(int(size), 13, j) for size, j in zip(m, above, strict=True)]
    wanted = literal_em(rows, list(range(15)), 20, replacement)
    np.testing.assert_allclose(found.weights, wanted, atol=1e-13)


@pytest.mark.parametrize("written", ["mle(iterations=1)", "mle", "mle(solver=exact)"])
def test_sampling_everything_recovers_the_ranks(written: str) -> None:
    """The fit itself, which nothing else asks for where all ranks are known."""
    above = long_tail(300, 200, 0)
    likelihood, fit = make(written).fit_tallies([counted(above, 299, 300, replacement=False)])
    weights = likelihood.grid.spread(fit.masses[0], 300)
    np.testing.assert_allclose(weights, np.bincount(above, minlength=300) / 200, atol=1e-9)
    assert fit.diagnostics[0]["gap"] <= 1e-9


@pytest.mark.parametrize("written", ["mle", "mle(solver=exact)"])
def test_an_adaptive_sample_that_may_not_grow_is_a_fixed_one(written: str) -> None:
    above = np.random.default_rng(0).binomial(99, long_tail(3706, 500, 0) / 3705)
    designs = [Design(replacement=True), Design(replacement=True, stopping=Stopping((99,)))]
    fixed, adaptive = (
        make(written)
        .distribution(tally(SampledRanks.single(above, n_negatives=99, n_pool=3706, design=design)))
        .weights
        for design in designs
    )
    np.testing.assert_array_equal(fixed, adaptive)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("rank", [1, 2])
def test_the_stopping_rule_is_ignorable(replacement: bool, rank: int) -> None:
    """P(outcome of the rule | J) is P(j of m | J) times a factor without J, by going through all draws."""
    L, sizes = 5, (2, 3, 5)
    factors: dict[tuple[int, int], set[Fraction]] = {}
    for J in range(L + 1):
        draws = list(
            itertools.product(range(L), repeat=5) if replacement else itertools.permutations(range(L), 5)
        )
        reached: dict[tuple[int, int], int] = {}
        for draw in draws:
            m, j = next(
                (size, sum(item < J for item in draw[:size]))
                for size in sizes
                if sum(item < J for item in draw[:size]) + 1 > rank or size == sizes[-1]
            )
            reached[m, j] = reached.get((m, j), 0) + 1
        for (m, j), count in reached.items():
            law = Fraction(integer_pmf(L, m, J, j, replacement)).limit_denominator(L**m)
            factors.setdefault((m, j), set()).add(Fraction(count, len(draws)) / law)
    assert len(factors) > 5
    assert all(len(found) == 1 for found in factors.values())
    assert {found.pop() for found in factors.values()} != {1}


def adaptive(J: IntArray, n_pool: int, seed: int) -> SampledRanks:
    """Algorithm 1 of the 2023 paper on global ranks."""
    draw = np.random.default_rng(seed)
    above, m = np.zeros(len(J), dtype=np.int64), np.zeros(len(J), dtype=np.int64)
    for size in SIZES:
        on = above == 0
        above[on] = draw.binomial(size - m[on], J[on] / (n_pool - 1))
        m[on] = size
    design = Design(replacement=True, stopping=Stopping(SIZES))
    return SampledRanks.single(above, n_negatives=m, n_pool=n_pool, design=design)


def metrics_of(written: str, of: Tally, measured: tuple[Metric, ...]) -> FloatArray:
    found: FloatArray = make(written).estimate_runs([of], measured)[0]
    return found


@pytest.mark.parametrize("kind", ["with", "without", "adaptive"])
@pytest.mark.parametrize("n_pool", [3706, 20_720])
def test_bins_of_ranks_hardly_matter(kind: str, n_pool: int) -> None:
    """Against every rank by itself: 1.5e-4 of recall, 4e-5 of NDCG up to rank 50."""
    J, draw = long_tail(n_pool, 6040, 1), np.random.default_rng(2)
    if kind == "adaptive":
        of = tally(adaptive(J, n_pool, 3))
    elif kind == "with":
        of = counted(draw.binomial(99, J / (n_pool - 1)), 99, n_pool)
    else:
        of = counted(draw.hypergeometric(J, n_pool - 1 - J, 99), 99, n_pool, replacement=False)
    measured = make_metrics(TOP)
    iterations = 50 if kind == "adaptive" else 100
    fine, binned = (
        metrics_of(f"mle(iterations={iterations}, grid={grid})", of, measured) for grid in ("0", "0.1")
    )
    assert fine[0] > 0.005
    error = np.abs(fine - binned)
    assert error[:5].max() < 1.5e-4
    assert error[5:].max() < 4e-5


def test_coarse_bins_matter_more() -> None:
    """The control of the test above: with a step of 2 the error is beyond what it allows."""
    J = long_tail(20_720, 6040, 1)
    of = counted(np.random.default_rng(2).binomial(99, J / 20_719), 99, 20_720)
    fine, coarse = (metrics_of(f"mle(grid={grid})", of, make_metrics(TOP)) for grid in ("0", "2"))
    assert np.abs(fine - coarse)[:5].max() > 1.5e-4


def test_early_stopping_lies_below_the_maximum() -> None:
    """More steps, more likelihood and a smaller gap; the exact maximum is above all of them."""
    of = counted(np.random.default_rng(5).binomial(99, long_tail(3706, 2000, 4) / 3705), 99, 3706)
    found = [
        make(written).distribution(of).diagnostics
        for written in ("mle(iterations=10)", "mle", "mle(iterations=1000)", "mle(solver=exact)")
    ]
    value = [one["log_likelihood"] for one in found]
    gaps = [one["gap"] for one in found]
    assert value == sorted(value)
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] <= 1e-9
    assert all(value[-1] <= one + bound + 1e-12 for one, bound in zip(value, gaps, strict=True))
    assert value[-1] - value[1] > 1e-5


@pytest.mark.parametrize("written", ["mle", "mle(solver=exact)"])
def test_runs_at_once_and_alone_agree(written: str) -> None:
    draw, J = np.random.default_rng(8), long_tail(3706, 400, 8)
    runs = [counted(draw.binomial(99, J / 3705), 99, 3706) for _ in range(5)]
    measured = make_metrics(TOP)
    together = make(written).estimate_runs(runs, measured)
    alone = np.stack([metrics_of(written, run, measured) for run in runs])
    np.testing.assert_allclose(together, alone, atol=1e-12)


@pytest.mark.parametrize(
    "written", ["mle(iterations=100)", "mle(grid=0.5, iterations=30)", "mle(solver=exact)", "mle(grid=0)"]
)
def test_round_trip(written: str) -> None:
    assert ESTIMATORS.make(str(ESTIMATORS.make(written))) == ESTIMATORS.make(written)
    assert str(MaximumLikelihood()) == "mle"
    shown = {entry.name: entry for entry in ESTIMATORS.entries()}["mle"]
    assert shown.parameters == "grid=0.1, iterations=100, solver=em"
    assert shown.source == "jin2021"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("mle(iterations=0)", "iterations must be an integer >= 1, got 0"),
        (
            "mle(iterations=10000000000000000000)",
            "iterations must be at most 100,000, got 10000000000000000000",
        ),
        ("mle(iterations=50, solver=exact)", "takes no iterations, got 50. Leave out one"),
        ("mle(solver=newton)", "must be em or exact, got 'newton'"),
        ("mle(grid=-1)", "grid must be a width >= 0"),
        ("mle(iterations=1.5)", "must be an integer"),
    ],
)
def test_bad_parameters(written: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        ESTIMATORS.make(written)


def test_bad_samples() -> None:
    popular = Design(law="popularity", replacement=True)
    sample = SampledRanks.single([1], n_negatives=5, n_pool=9, design=popular)
    with pytest.raises(CannotEstimate, match="'mle' needs negatives that were drawn uniformly"):
        make("mle").estimate(tally(sample), make_metrics("ndcg@5"))
    with pytest.raises(InvalidData, match="at least one user"):
        make("mle").estimate(counted([], 5, 9), make_metrics("ndcg@5"))
