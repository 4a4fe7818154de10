"""MES: golden values, a convex solver as oracle, laws that must hold, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerank.core.errors import InvalidParameter, NotConverged
from truerank.core.ranks import Design, SampledRanks, Stopping
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.distribution.mes import (
    ETA,
    Distance,
    Divergence,
    MaximalEntropy,
    Squared,
    joint_outcomes,
    minimise,
)
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally, tally
from truerank.metrics.registry import make_metrics

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "spec" / "mes.json").read_text())["small_dist"]


def counted(
    above: list[int] | IntArray, m: int | IntArray, n_pool: int | IntArray, *, replacement: bool = True
) -> Tally:
    design = Design(replacement=replacement)
    return tally(SampledRanks.single(np.asarray(above), n_negatives=m, n_pool=n_pool, design=design), width=0)


def small() -> Tally:
    """A hundred users with the fractions of the golden case."""
    return counted(np.repeat(np.arange(5), (np.array(GOLDEN["ptilde"]) * 100).round().astype(int)), 4, 12)


def random_case(seed: int, n_outcomes: int, n_bins: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    draw = np.random.default_rng(seed)
    matrix = draw.dirichlet(np.full(n_outcomes, 0.5), n_bins).T
    return matrix, draw.integers(1, 9, n_bins).astype(np.float64), draw.dirichlet(np.ones(n_outcomes))


@pytest.mark.parametrize("eta", ["0.01", "0.001"])
def test_golden(eta: str) -> None:
    found = MaximalEntropy(grid=0, eta=float(eta)).distribution(small()).weights
    np.testing.assert_allclose(found, GOLDEN[f"MES_eta_{eta}_weights_n_times_ptilde"], rtol=0, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("distance", ["squared", "likelihood"])
@pytest.mark.parametrize("eta", [0.3, 0.01])
@pytest.mark.parametrize(("n_outcomes", "n_bins"), [(4, 9), (9, 4)])
def test_optimum_of_a_convex_solver(distance: str, eta: float, n_outcomes: int, n_bins: int) -> None:
    """Both ways of solving Newton's system, wide and tall; widths enter the entropy."""
    cp = pytest.importorskip("cvxpy")
    matrix, widths, p = random_case(n_bins, n_outcomes, n_bins)
    w = 5 * p
    made: Distance = Squared(p, w) if distance == "squared" else Divergence(p)
    ours = minimise(matrix, widths, made, eta)
    x = cp.Variable(n_bins)
    misfit = (
        cp.sum(cp.multiply(w, cp.square(matrix @ x - p)))
        if distance == "squared"
        else -p @ cp.log(matrix @ x)
    )
    problem = cp.Problem(cp.Minimize(misfit + eta * cp.sum(cp.rel_entr(x, widths))), [cp.sum(x) == 1])
    problem.solve(solver="CLARABEL")
    theirs = np.maximum(x.value, 0) / np.maximum(x.value, 0).sum()
    excess = _objective(matrix, widths, p, w, eta, distance, theirs) - _objective(
        matrix, widths, p, w, eta, distance, ours.masses
    )
    assert -1e-13 < excess < 1e-7
    # the objective is eta-strongly convex in the divergence, so masses are as near as objectives allow
    assert np.abs(ours.masses - theirs).max() <= np.sqrt(2 * max(excess, 0) / eta) + 1e-12


def _objective(
    matrix: FloatArray,
    widths: FloatArray,
    p: FloatArray,
    w: FloatArray,
    eta: float,
    distance: str,
    masses: FloatArray,
) -> float:
    """The objective, term by term."""
    q = [sum(row[b] * masses[b] for b in range(len(masses))) for row in matrix]
    total = sum(
        eta * mass * np.log(mass / width) for mass, width in zip(masses, widths, strict=True) if mass > 0
    )
    for one, fraction, weight in zip(q, p, w, strict=True):
        total += weight * (one - fraction) ** 2 if distance == "squared" else -fraction * np.log(one)
    return float(total)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["squared", "likelihood"]), st.floats(1e-3, 1.0))
def test_nothing_near_by_is_better(seed: int, distance: str, eta: float) -> None:
    """The gap is a bound: no other distribution has a smaller objective by more than it."""
    matrix, widths, p = random_case(seed, 5, 8)
    w = np.ones(5)
    made: Distance = Squared(p, w) if distance == "squared" else Divergence(p)
    best = minimise(matrix, widths, made, eta)
    height = _objective(matrix, widths, p, w, eta, distance, best.masses)
    assert best.gap < 1e-12
    draw = np.random.default_rng(seed + 1)
    for fraction in (1e-4, 1e-2, 1.0):
        other = (1 - fraction) * best.masses + fraction * draw.dirichlet(np.ones(8))
        assert _objective(matrix, widths, p, w, eta, distance, other) >= height - best.gap - 1e-12


@pytest.mark.parametrize("distance", ["squared", "likelihood"])
def test_bins_do_not_change_the_entropy(distance: str) -> None:
    """Bins of 0.1 agree with single ranks, because mass within a bin counts with the entropy of its ranks."""
    draw = np.random.default_rng(3)
    ranks = np.ceil(2000 * draw.random(3000) ** 3).astype(np.int64)
    runs = counted(draw.binomial(49, (ranks - 1) / 1999), 49, 2000)
    metrics = make_metrics("recall@5,recall@50,ndcg@20,ap@50")
    values = [
        ESTIMATORS.make(f"mes(eta=0.01, distance={distance}, grid={grid})").estimate(runs, metrics).value
        for grid in (0, 0.1)
    ]
    np.testing.assert_allclose(values[1], values[0], atol=1e-5)
    # without the widths of the bins it would be far off
    wrong = ESTIMATORS.make(f"mes(eta=0.01, distance={distance}, grid=2)")
    assert np.abs(wrong.estimate(runs, metrics).value - values[0]).max() < 0.01


def test_much_entropy_is_uniform_and_little_is_the_maximum_likelihood() -> None:
    even = MaximalEntropy(grid=0, eta=1e6).distribution(small()).weights
    np.testing.assert_allclose(even, 1 / 12, atol=1e-6)
    metrics = make_metrics("recall@3,ndcg,auc")
    likely = ESTIMATORS.make("mle(solver=exact, grid=0)").estimate(small(), metrics).value
    steps = [
        np.abs(
            MaximalEntropy(grid=0, eta=eta, distance="likelihood").estimate(small(), metrics).value - likely
        )
        for eta in (1e-3, 1e-5, 1e-7)
    ]
    assert steps[0].max() > steps[1].max() > steps[2].max()
    assert steps[2].max() < 0.01


def test_more_eta_more_entropy() -> None:
    fits = [MaximalEntropy(eta=eta).fit_tallies([small()])[1].diagnostics[0] for eta in (1e-4, 1e-3, 0.1)]
    assert fits[0]["entropy"] < fits[1]["entropy"] < fits[2]["entropy"]
    assert fits[0]["log_likelihood"] > fits[2]["log_likelihood"]


def test_weights_scale_eta() -> None:
    """Weights n p and eta are weights p and eta / n: only their ratio matters."""
    first = MaximalEntropy(eta=0.01).distribution(small()).weights
    second = MaximalEntropy(eta=0.002, weight="shares").distribution(small()).weights
    np.testing.assert_allclose(first, second, atol=1e-9)
    one = MaximalEntropy(eta=0.01, weight="one").distribution(small()).weights
    assert np.abs(first - one).max() > 1e-3


@pytest.mark.parametrize("size", [9, 99, 249, 499, np.array([399, 99, 99, 9])])
def test_eta_is_the_same_for_samples_of_any_size(size: int | IntArray) -> None:
    """The golden case has n = 5 and eta = 0.01: the default is no other number there or for larger n."""
    runs = counted([0, 3, 3, 7], size, 1000)
    (weights, fit), (asked, _) = (
        (estimator.distribution(runs).weights, estimator.fit_tallies([runs])[1])
        for estimator in (MaximalEntropy(), MaximalEntropy(eta=0.01))
    )
    np.testing.assert_array_equal(weights, asked)
    assert fit.diagnostics[0]["eta"] == ETA == 0.01


def test_default_is_the_golden_case() -> None:
    found = MaximalEntropy(grid=0).distribution(small()).weights
    np.testing.assert_allclose(found, GOLDEN["MES_eta_0.01_weights_n_times_ptilde"], rtol=0, atol=1e-7)


def test_several_sizes_and_pools_are_one_problem() -> None:
    """Two sizes, two pools, by the definition: the stationary point of the objective over pairs (m, j)."""
    above, m, pool = (
        np.array([0, 1, 1, 1, 5, 0]),
        np.array([4, 4, 4, 4, 9, 9]),
        np.array([30, 30, 20, 30, 30, 30]),
    )
    likelihood, fit = MaximalEntropy(grid=0, eta=0.05).fit_tallies([counted(above, m, pool)])
    row = {
        key: likelihood.matrix[place]
        for place, key in enumerate(
            zip(likelihood.n_negatives, likelihood.n_candidates + 1, likelihood.n_above, strict=True)
        )
    }
    outcomes = [  # share, probability given the rank
        (1 / 6, 4 / 6 * row[4, 30, 0]),
        (3 / 6, 4 / 6 * (2 / 3 * row[4, 30, 1] + 1 / 3 * row[4, 20, 1])),
        (1 / 6, 2 / 6 * row[9, 30, 0]),
        (1 / 6, 2 / 6 * row[9, 30, 5]),
    ]
    n, found = float((m + 1).mean()), fit.masses[0]
    exponent = sum((2 * n * p * (p - law @ found) * law for p, law in outcomes), np.zeros(30)) / 0.05
    wanted = np.exp(exponent - exponent.max())
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=1e-9)


def test_many_pools_change_little() -> None:
    """Pools within 5 % of each other: as one pool of the mean size, though outcomes are 50 times as many."""
    draw = np.random.default_rng(4)
    fraction = draw.random(5000) ** 3
    pools = np.array([980 + 2 * (i % 50) for i in range(5000)])
    above = draw.binomial(99, fraction)
    one, many = (
        MaximalEntropy().estimate(counted(above, 99, pool), make_metrics("recall@10,recall@50")).value
        for pool in (1029, pools)
    )
    np.testing.assert_allclose(many, one, rtol=0.02)


def adaptive_runs(n_users: int, sizes: tuple[int, ...], n_pool: int) -> tuple[Tally, IntArray]:
    draw = np.random.default_rng(8)
    ranks = np.ceil(n_pool * draw.random(n_users) ** 2).astype(np.int64)
    above, m = np.zeros(n_users, dtype=np.int64), np.zeros(n_users, dtype=np.int64)
    for size in sizes:
        on = above == 0
        above[on] = draw.binomial(size - m[on], (ranks[on] - 1) / (n_pool - 1))
        m[on] = size
    design = Design(replacement=True, stopping=Stopping(sizes))
    return tally(SampledRanks.single(above, n_negatives=m, n_pool=n_pool, design=design)), ranks


def test_outcomes_of_adaptive_samples_sum_to_one() -> None:
    """All outcomes are seen here, so whatever the rank one of them happens."""
    runs, _ = adaptive_runs(500, (1, 2, 4), 10)
    likelihood, _ = MaximalEntropy(grid=0).fit_tallies([runs])
    assert list(zip(likelihood.n_negatives, likelihood.n_above, strict=True)) == [
        (1, 1), (2, 1), (4, 0), (4, 1), (4, 2)
    ]  # fmt: skip
    matrix, fractions = joint_outcomes(likelihood, 0, runs)
    np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(fractions, likelihood.fractions[0], rtol=1e-12)


@pytest.mark.parametrize(("distance", "eta"), [("squared", 1e-4), ("likelihood", 1e-2)])
def test_adaptive_samples(distance: str, eta: float) -> None:
    """The truth is found: Recall at 100 of 1,000 within 5 %."""
    runs, ranks = adaptive_runs(4000, (49, 99, 199), 1000)
    found = ESTIMATORS.make(f"mes(eta={eta}, distance={distance})").estimate(runs, make_metrics("recall@100"))
    assert found.value[0] == pytest.approx(float((ranks <= 100).mean()), rel=0.05)


def test_runs_do_not_depend_on_their_batch() -> None:
    """An outcome that only another run has weighs nothing."""
    runs = [counted([0, 0, 3], 9, 50), counted([1, 7, 9], 9, 50)]
    metrics = make_metrics("recall@5,auc")
    together = MaximalEntropy(weight="one").estimate_runs(runs, metrics)
    apart = np.stack([MaximalEntropy(weight="one").estimate_runs([run], metrics)[0] for run in runs])
    np.testing.assert_allclose(together, apart, rtol=1e-11)


@pytest.mark.parametrize("above", [[0], [9], [0] * 500, [9] * 500, [0, 9]])
@pytest.mark.parametrize("written", ["mes", "mes(distance=likelihood)", "mes(eta=1e-6)", "mes(weight=one)"])
@pytest.mark.parametrize("replacement", [True, False])
def test_extreme_samples(above: list[int], written: str, replacement: bool) -> None:
    estimator = ESTIMATORS.make(written)
    assert isinstance(estimator, MaximalEntropy)
    _, fit = estimator.fit_tallies([counted(above, 9, 40, replacement=replacement)])
    assert fit.masses.min() >= 0 and fit.masses.sum() == pytest.approx(1)
    assert fit.diagnostics[0]["gap"] < 1e-12
    rank = float(fit.masses[0] @ np.arange(1, 41))
    assert (rank < 20.5) == (above[0] == 0 and above[-1] == 0) or abs(rank - 20.5) < 1e-3 or above[-1] == 9


def test_gap_that_stays_open_is_an_error() -> None:
    matrix, widths, p = random_case(0, 6, 20)
    with pytest.raises(NotConverged, match=r"Use a larger eta than 1e-300"):
        minimise(matrix, widths, Squared(p, p), 1e-300)


def test_bad_parameters() -> None:
    with pytest.raises(InvalidParameter, match="eta must be greater than 0, got 0"):
        ESTIMATORS.make("mes(eta=0)")
    with pytest.raises(InvalidParameter, match="weight must be one of n-shares, shares, one, got 'two'"):
        MaximalEntropy(weight="two")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="distance=likelihood has no weights"):
        ESTIMATORS.make("mes(distance=likelihood, weight=one)")
    with pytest.raises(InvalidParameter, match="grid must be"):
        ESTIMATORS.make("mes(grid=-1)")


def test_spec_round_trip() -> None:
    for written in ("mes", "mes(eta=0.01, weight=shares)", "mes(grid=0, distance=likelihood)"):
        assert ESTIMATORS.make(str(ESTIMATORS.make(written))) == ESTIMATORS.make(written)
    assert ESTIMATORS.make("mes(eta=none)") == MaximalEntropy()
