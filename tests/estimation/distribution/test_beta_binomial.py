"""Beta-binomial: the exact law, recovery of exponents, and ends of the range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from scipy.stats import norm

from truerank.core.random import stream
from truerank.core.ranks import Design, SampledRanks
from truerank.core.types import IntArray
from truerank.estimation.corrections.priors import BetaPrior
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.estimation.distribution.beta_binomial import BetaBinomial
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally, tally


def counted(
    above: list[int] | IntArray, m: int | IntArray, n_pool: int | IntArray, *, replacement: bool = True
) -> Tally:
    design = Design(replacement=replacement)
    return tally(SampledRanks.single(np.asarray(above), n_negatives=m, n_pool=n_pool, design=design), width=0)


def drawn(a: float, m: int | IntArray, n_pool: int, n_users: int, *, replacement: bool = True) -> IntArray:
    """Sampled items above targets whose ranks have R/N ~ Beta(a, 1), rounded up."""
    draw = stream(5, f"beta-binomial/{a}/{m if isinstance(m, int) else 'mixed'}/{replacement}")
    above = np.ceil(n_pool * draw.random(n_users) ** (1 / a)).astype(np.int64).clip(1, n_pool) - 1
    if replacement:
        return draw.binomial(m, above / (n_pool - 1))
    return draw.hypergeometric(above, n_pool - 1 - above, m)


def diagnostics(runs: Tally, written: str = "beta-binomial") -> dict[str, float]:
    estimator = ESTIMATORS.make(written)
    assert isinstance(estimator, BetaBinomial)
    return dict(estimator.fit_tallies([runs])[1].diagnostics[0])


def literal_exponent(above: IntArray, m: int) -> float:
    """The exponent by the beta-binomial law of a continuum of ranks, P(j) = a G(m+1) G(j+a) / G(m+1+a) j!."""

    def height(u: float) -> float:
        a = np.exp(u)
        return -float(
            (u + gammaln(m + 1) + gammaln(above + a) - gammaln(m + 1 + a) - gammaln(above + 1)).sum()
        )

    return float(
        np.exp(minimize_scalar(height, bounds=(-6, 4), method="bounded", options={"xatol": 1e-10}).x)
    )


def test_masses_are_those_of_the_prior_beta() -> None:
    runs = counted(drawn(0.4, 9, 60, 300), 9, 60)
    found = BetaBinomial(grid=0).distribution(runs)
    np.testing.assert_allclose(found.weights, BetaPrior(found.diagnostics["a"]).weights(60), rtol=1e-12)


@pytest.mark.parametrize("a", [0.15, 0.5, 1.0, 3.0])
def test_large_catalogues_have_the_beta_binomial_law(a: float) -> None:
    """With a million items the sum over ranks is the integral, and bins of 0.1 do not matter."""
    above = drawn(a, 99, 1_000_000, 500)
    assert diagnostics(counted(above, 99, 1_000_000))["a"] == pytest.approx(
        literal_exponent(above, 99), rel=2e-3
    )


@pytest.mark.parametrize("replacement", [True, False])
def test_optimum_by_search(replacement: bool) -> None:
    """Newton's method ends where a search over all exponents ends; sizes and pools are mixed."""
    m = np.tile([4, 9, 19], 40)
    pool = np.tile([50, 50, 80, 80], 30)
    above = stream(1, "x").integers(0, 4, 120)
    runs = counted(above, m, pool, replacement=replacement)
    likelihood, fit = BetaBinomial(grid=0).fit_tallies([runs])
    fraction = np.arange(81) / 80

    def height(u: float) -> float:
        return -float(likelihood.fractions[0] @ np.log(likelihood.matrix @ np.diff(fraction ** np.exp(u))))

    best = minimize_scalar(height, bounds=(-8, 8), method="bounded", options={"xatol": 1e-11})
    assert np.log(fit.diagnostics[0]["a"]) == pytest.approx(best.x, abs=1e-6)
    assert fit.diagnostics[0]["log_likelihood"] == pytest.approx(-best.fun, abs=1e-12)
    step = 1e-3
    curvature = (height(best.x + step) - 2 * best.fun + height(best.x - step)) / step**2
    wanted = np.exp(best.x) / np.sqrt(120 * curvature)
    assert fit.diagnostics[0]["standard_error"] == pytest.approx(wanted, rel=1e-4)


@pytest.mark.stat
def test_exponents_of_drawn_ranks_are_recovered() -> None:
    """The simulation of the specification, N = 3706, 6040 users: all ten within noise of the truth.

    Two-sided, 1e-7 each. Finds exponents that are 15 % off with 99 %, as their standard errors are at most
    1.9 %; the plug-in fit of Li et al. 2020 is 94 % off at 0.15. The control claims 20 % more.
    """
    limit = norm.isf(1e-7 / 2)
    for n in (100, 1000):
        for a in (0.15, 0.25, 0.37, 0.5, 1.0):
            found = diagnostics(counted(drawn(a, n - 1, 3706, 6040), n - 1, 3706))
            assert abs(found["a"] - a) < limit * found["standard_error"]
            assert abs(found["a"] - 1.2 * a) > limit * found["standard_error"]


def test_several_sizes_use_all_rows() -> None:
    """Adaptive-like sizes: the estimate of all rows lies between those of the parts, and is more precise."""
    few, many = drawn(0.3, 99, 3706, 2000), drawn(0.3, 799, 3706, 2000)
    parts = [diagnostics(counted(few, 99, 3706)), diagnostics(counted(many, 799, 3706))]
    both = diagnostics(counted(np.concatenate([few, many]), np.repeat([99, 799], 2000), 3706))
    low, high = sorted(part["a"] for part in parts)
    assert low <= both["a"] <= high
    assert both["standard_error"] < min(part["standard_error"] for part in parts)


@pytest.mark.parametrize(("above", "a"), [([0], 1e-4), ([0] * 50, 1e-4), ([9], 1e4), ([9] * 50, 1e4)])
def test_ends_of_the_range(above: list[int], a: float) -> None:
    found = diagnostics(counted(above, 9, 1000))
    assert found["a"] == pytest.approx(a)
    assert np.isnan(found["standard_error"])


def test_runs_do_not_depend_on_their_batch() -> None:
    runs = [counted(drawn(a, 99, 3706, 100), 99, 3706) for a in (0.2, 0.6)]
    together = BetaBinomial().fit_tallies(runs)[1]
    for run, found in zip(runs, together.diagnostics, strict=True):
        assert diagnostics(run)["a"] == pytest.approx(found["a"], rel=1e-10)


@pytest.mark.parametrize("written", ["beta-binomial", "smooth"])
def test_the_number_of_targets_is_taken_from_the_tallies(written: str) -> None:
    """Fractions alone do not say how many targets there are; a fit reads that from the tallies."""
    estimator = ESTIMATORS.make(written)
    assert isinstance(estimator, MixtureEstimator)
    runs = counted([1, 2, 2, 5], 9, 100)
    likelihood, fit = estimator.fit_tallies([runs])
    again = estimator.fit(likelihood, [runs])
    assert again.diagnostics == fit.diagnostics
    more = estimator.fit(likelihood, [replace(runs, n_rows=400)])
    name = "standard_error" if written == "beta-binomial" else "degrees_of_freedom"
    assert more.diagnostics[0][name] != fit.diagnostics[0][name]
