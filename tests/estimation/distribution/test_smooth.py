"""Smooth: a literal twin, optimality, limits, extreme samples, and real ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from truerank.core.errors import CannotEstimate, InvalidParameter
from truerank.core.parallel import single_threaded_blas
from truerank.core.random import stream
from truerank.core.ranks import Design, Ranks, SampledRanks
from truerank.core.types import FloatArray, IntArray
from truerank.data.catalogue import find_local, load
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.estimation.distribution.likelihood import Likelihood, RankGrid, grouped
from truerank.estimation.distribution.smooth import (
    PenalisedLikelihood,
    Smooth,
    coordinate,
    make_basis,
    smooth_curve,
)
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally, tally
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.ranking.simulate import simulate_sample
from truerank.split.base import make_split


def counted(
    above: list[int] | IntArray, m: int | IntArray, n_pool: int | IntArray, *, replacement: bool = True
) -> Tally:
    design = Design(replacement=replacement)
    return tally(SampledRanks.single(np.asarray(above), n_negatives=m, n_pool=n_pool, design=design), width=0)


def some_ranks(n_users: int, n_pool: int) -> Ranks:
    """Ranks with a smooth density, most of them at the top."""
    fraction = stream(3, "smooth").beta(0.4, 1.8, n_users)
    return Ranks.single(np.floor(fraction * n_pool).astype(np.int64), n_pool=n_pool)


def problem_of(likelihood: Likelihood, n_rows: float) -> PenalisedLikelihood:
    matrix, fractions = grouped(likelihood, 0)
    widths = np.diff(likelihood.grid.edges).astype(np.float64)
    return PenalisedLikelihood(matrix, fractions, n_rows, widths, make_basis(likelihood.grid))


def literal_objective(problem: PenalisedLikelihood, penalty: float, b: FloatArray) -> float:
    """The penalised log-likelihood, sum by sum, with the penalty as second differences."""
    weights = [
        width * np.exp(sum(one * c for one, c in zip(row, b, strict=True)))
        for row, width in zip(problem.basis.values, problem.widths, strict=True)
    ]
    masses = np.array(weights) / sum(weights)
    total = 0.0
    for fraction, row in zip(problem.fractions, problem.matrix, strict=True):
        total += (
            problem.n_rows * fraction * np.log(sum(p * mass for p, mass in zip(row, masses, strict=True)))
        )
    h = 1 / (len(b) - 3)
    rough = sum(((b[i] - 2 * b[i + 1] + b[i + 2]) / h**2) ** 2 * h for i in range(len(b) - 2))
    place = np.arange(len(b)) * h
    rise = np.polyfit(place, b, 1)[0]  # of the straight line that fits best
    return float(total - penalty * rough / 2 - (rise / 20) ** 2 / 2 - b.mean() ** 2 / 2)


def small_problem() -> PenalisedLikelihood:
    runs = counted([0, 0, 0, 1, 1, 2, 4, 5, 9], 9, 40)
    likelihood, _ = Smooth(grid=0).fit_tallies([runs])
    return problem_of(likelihood, 9.0)


def test_objective_is_the_literal_one() -> None:
    problem = small_problem()
    curve = smooth_curve(problem, 0.01)
    assert curve.objective == pytest.approx(literal_objective(problem, 0.01, curve.coefficients), abs=1e-9)


@pytest.mark.parametrize("penalty", [10.0, 0.01])
def test_no_climb_ends_higher(penalty: float) -> None:
    """A general optimiser from other starts finds no higher objective."""
    problem = small_problem()
    curve = smooth_curve(problem, penalty)
    precision = penalty * problem.basis.roughness + problem.basis.fixed

    def fall(b: FloatArray) -> tuple[float, FloatArray]:
        logits = problem.basis.values @ b
        masses = problem.widths * np.exp(logits - logits.max())
        masses /= masses.sum()
        q = problem.matrix @ masses
        height = problem.n_rows * problem.fractions @ np.log(q) - b @ precision @ b / 2
        pull = masses * ((problem.fractions / q) @ problem.matrix - 1)
        return -float(height), precision @ b - problem.n_rows * pull @ problem.basis.values

    for seed in range(2):
        start = stream(seed, "start").normal(size=problem.basis.n_splines)
        with single_threaded_blas():
            found = minimize(fall, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
        assert -found.fun <= curve.objective + 1e-6
        assert curve.gain < 1e-8


def test_marginal_likelihood_is_the_integral() -> None:
    """Laplace's approximation against the integral over two coefficients' worth of curves.

    With few bins and a strong penalty curves are straight lines; the integral over the trend alone, with the
    approximation's own value as reference, gives the same ratio between samples.
    """
    basis = make_basis(RankGrid(np.arange(41)))
    line = np.linspace(-0.5, 0.5, basis.n_splines) * (basis.n_splines - 1) / 30

    def integral(problem: PenalisedLikelihood) -> float:
        rises = np.linspace(-60, 60, 2401)
        heights = []
        for rise in rises:
            logits = problem.basis.values @ (line * rise)
            masses = np.exp(logits - logits.max())
            q = problem.matrix @ (masses / masses.sum())
            heights.append(problem.n_rows * problem.fractions @ np.log(q) - (rise / 20) ** 2 / 2)
        top = max(heights)
        return float(top + np.log(np.exp(np.array(heights) - top).sum()))

    runs = [[0] * 30 + [1] * 20 + [3] * 10, [0] * 10 + [4] * 20 + [6] * 30]
    problems = [problem_of(Smooth(grid=0).fit_tallies([counted(above, 9, 40)])[0], 60.0) for above in runs]
    laplace = [smooth_curve(problem, 1e3).log_marginal for problem in problems]
    exact = [integral(problem) for problem in problems]
    assert laplace[0] - laplace[1] == pytest.approx(exact[0] - exact[1], abs=0.15)


def test_straight_lines_have_no_roughness() -> None:
    basis = make_basis(RankGrid(np.arange(101)))
    line = np.linspace(-1, 3, basis.n_splines)
    assert line @ basis.roughness @ line == pytest.approx(0, abs=1e-6)
    z = coordinate((np.arange(100) + 0.5) / 100)
    slope = np.diff(basis.values @ line) / np.diff(z)
    np.testing.assert_allclose(slope, slope[0], rtol=1e-9)
    np.testing.assert_allclose(basis.values.sum(axis=1), 1, rtol=1e-12)


def test_rougher_penalties_fit_better() -> None:
    runs = tally(simulate_sample(some_ranks(3000, 2000), 99, replacement=True))
    fits = [Smooth(penalty=penalty).fit_tallies([runs])[1].diagnostics[0] for penalty in (100.0, 0.01, 1e-6)]
    likelihoods = [fit["log_likelihood"] for fit in fits]
    freedoms = [fit["degrees_of_freedom"] for fit in fits]
    assert likelihoods == sorted(likelihoods) and freedoms == sorted(freedoms)
    best = ESTIMATORS.make("mle(solver=exact)")
    assert isinstance(best, MixtureEstimator)
    assert likelihoods[-1] <= best.fit_tallies([runs])[1].diagnostics[0]["log_likelihood"]


def test_chosen_penalty_has_the_largest_marginal_likelihood() -> None:
    """Up to what the prior of the penalty moves it: no penalty on a finer list is much better."""
    runs = tally(simulate_sample(some_ranks(5000, 2000), 199, replacement=True))
    chosen = Smooth().fit_tallies([runs])[1].diagnostics[0]
    others = [
        Smooth(penalty=float(penalty)).fit_tallies([runs])[1].diagnostics[0]["log_marginal"]
        for penalty in 10.0 ** np.arange(-5, 2.1, 0.5)
    ]
    assert chosen["log_marginal"] > max(others) - 0.3
    assert min(others) < chosen["log_marginal"] - 3


def test_groups_lose_nothing() -> None:
    """Fits to grouped and to single outcomes give the same metrics."""
    runs = tally(simulate_sample(some_ranks(4000, 3000), 299, replacement=True))
    likelihood, fit = Smooth(penalty=0.003).fit_tallies([runs])
    widths = np.diff(likelihood.grid.edges).astype(np.float64)
    seen = likelihood.fractions[0] > 0
    basis = make_basis(likelihood.grid)
    whole = PenalisedLikelihood(likelihood.matrix[seen], likelihood.fractions[0, seen], 4000.0, widths, basis)
    curve = smooth_curve(whole, 0.003)
    assert len(grouped(likelihood, 0)[1]) < 0.5 * seen.sum()
    near, full = (np.cumsum(masses)[[4, 9, 49]] for masses in (fit.masses[0], curve.masses))
    np.testing.assert_allclose(near, full, rtol=5e-3)


def test_bins_do_not_matter() -> None:
    runs = tally(simulate_sample(some_ranks(2000, 1500), 99, replacement=True))
    metrics = make_metrics("recall@1,recall@10,ndcg@50,ap@50,auc")
    fine, coarse = (Smooth(grid=grid).estimate(runs, metrics).value for grid in (0, 0.1))
    np.testing.assert_allclose(coarse, fine, rtol=2e-3)


@pytest.mark.parametrize("replacement", [True, False])
def test_truth_is_found(replacement: bool) -> None:
    """Smooth ranks, 20,000 users, 199 negatives out of 2,000: Recall@10 within 10 %, later within 2 %."""
    ranks = some_ranks(20000, 2000)
    metrics = make_metrics("recall@10,recall@100,recall@200")
    truth = values(metrics, ranks).mean(axis=0)
    found = Smooth().estimate(tally(simulate_sample(ranks, 199, replacement=replacement)), metrics).value
    np.testing.assert_array_less(np.abs(found / truth - 1), [0.1, 0.02, 0.02])


def test_several_sizes_and_pools() -> None:
    """Two sizes and two pools of the same fractions are one sample."""
    ranks = some_ranks(8000, 1000)
    first = simulate_sample(ranks, 99, replacement=True)
    second = simulate_sample(ranks, 399, replacement=True)
    half = np.arange(8000) % 2 == 0
    above = np.where(half, first.n_above, second.n_above)
    pools = np.where(np.arange(8000) % 4 < 2, 1000, 4000)
    mixed = counted(above, np.where(half, 99, 399), pools)
    # the share of items above has one distribution; Recall at a tenth of each pool is the same in both
    _, fit = Smooth().fit_tallies([mixed])
    likelihood, _ = Smooth().fit_tallies([mixed])
    found = likelihood.grid.cdf(fit.masses[0], np.array([0.1]))[0]
    assert found == pytest.approx((ranks.n_above < 100).mean(), abs=0.02)


def test_runs_do_not_depend_on_their_batch() -> None:
    runs = [tally(simulate_sample(some_ranks(500, 800), 49, replacement=True, repeat=i)) for i in range(3)]
    metrics = make_metrics("recall@5,ndcg@20")
    together = Smooth().estimate_runs(runs, metrics)
    apart = np.stack([Smooth().estimate_runs([run], metrics)[0] for run in runs])
    np.testing.assert_allclose(together, apart, rtol=1e-10)


def test_more_users_more_bends() -> None:
    """The same fractions of ten times as many users support a rougher curve: rows are counted."""
    above = simulate_sample(some_ranks(500, 800), 49, replacement=True).n_above
    few, many = (
        Smooth().fit_tallies([counted(np.tile(above, times), 49, 800)])[1].diagnostics[0] for times in (1, 10)
    )
    assert many["degrees_of_freedom"] > few["degrees_of_freedom"] + 1


@pytest.mark.parametrize(
    ("m", "n_pool", "replacement"), [(1, 2, True), (4, 12, True), (11, 12, False), (99, 10**6, True)]
)
@pytest.mark.parametrize("penalty", [None, 1e-8, 1e4])
def test_extreme_samples(m: int, n_pool: int, replacement: bool, penalty: float | None) -> None:
    """One user, or all users first or last: finite, and on the right side."""
    for above in ([0], [0] * 3000, [m], [m] * 3000, [0, m]):
        runs = counted(above, m, n_pool, replacement=replacement)
        likelihood, fit = Smooth(penalty=penalty).fit_tallies([runs])
        assert fit.masses.min() >= 0 and fit.masses.sum() == pytest.approx(1)
        assert all(np.isfinite(list(fit.diagnostics[0].values())))
        half = likelihood.grid.cdf(fit.masses[0], np.array([0.5]))[0]
        side = np.sign(np.mean(above) - m / 2)
        assert side == 0 or (half - 0.5) * side < 1e-9


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=30), st.booleans())
def test_turned_lists_give_turned_curves(above: list[int], replacement: bool) -> None:
    """Counting from the other end turns the distribution round, as the coordinate does."""
    turned = [7 - j for j in above]
    first, second = (
        Smooth(grid=0, penalty=0.1).distribution(counted(j, 7, 30, replacement=replacement)).weights
        for j in (above, turned)
    )
    # singles at the top are not grouped while those at the bottom are: the turn is not exact
    np.testing.assert_allclose(first, second[::-1], atol=5e-3)


def test_bad_input() -> None:
    for written in ("smooth(penalty=0)", "smooth(penalty=1e9)"):
        with pytest.raises(InvalidParameter, match="penalty must lie between 1e-8 and 1e4, got"):
            ESTIMATORS.make(written)
    popular = SampledRanks.single([0, 1], n_negatives=3, n_pool=9, design=Design(law="popularity"))
    with pytest.raises(CannotEstimate, match="'smooth' needs negatives that were drawn uniformly"):
        Smooth().fit_tallies([tally(popular)])


@pytest.mark.data
def test_real_ranks_at_small_cutoffs() -> None:
    """Popularity on MovieLens-1M, n = 500, four repeats: less error than EM of 100 steps."""
    if find_local("ml-1m") is None:
        pytest.skip("ml-1m is not on this machine; set TRUERANK_DATA to the folder that holds it")
    split = make_split(load("ml-1m", keep=["ncf_split"]), "column(name=ncf_split)")
    metrics = make_metrics("recall@1,recall@5,recall@20,recall@50")
    ranks = exact_ranks(MODELS.make("popularity").fit(split.train), split)
    truth = values(metrics, ranks).mean(axis=0)
    runs = [tally(simulate_sample(ranks, 499, replacement=True, repeat=repeat)) for repeat in range(4)]
    errors = []
    for written in ("smooth", "mle(iterations=100)"):
        estimator = ESTIMATORS.make(written)
        assert isinstance(estimator, MixtureEstimator)
        errors.append(float(np.abs(estimator.estimate_runs(runs, metrics) / truth - 1).mean()))
    assert errors[0] < 0.8 * errors[1]
