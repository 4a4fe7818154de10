"""Mapping functions: golden values, the printed recurrence, and what they promise."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import digamma
from scipy.stats import beta as beta_distribution

from truerank.core.errors import CannotEstimate, InvalidParameter, UnknownName
from truerank.core.ranks import SampledRanks
from truerank.estimation.mapping.functions import (
    MAPPINGS,
    BetaMapping,
    BoundMapping,
    LinearMapping,
    MappingFunction,
    log_fraction,
    mean_digamma,
    recurrence,
    round_to_ranks,
)
from truerank.estimation.tally import tally

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "spec" / "mapping.json").read_text())
WRITTEN = ["linear", "bound", "beta", "beta(a=0)", "beta(a=0.2)", "beta(a=1)", "beta(a=4)"]
sizes = st.tuples(st.integers(2, 300), st.integers(2, 5000))
exponents = st.floats(1e-6, 20)


def mapping(written: str) -> MappingFunction:
    return MAPPINGS.make(written)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("beta_a=1", "beta(a=1)"),
        ("beta_a=0.5", "beta"),
        ("beta_a=0.3", "beta(a=0.3)"),
        ("beta_a=0.2", "beta(a=0.2)"),
        ("linear_eq9", "linear"),
        ("bound_eq13_unfloored", "bound"),
    ],
)
def test_golden(name: str, written: str) -> None:
    table = GOLDEN["mapping_N3706_n100"]
    found = mapping(written).locations(table["k"], 100, 3706)
    np.testing.assert_allclose(found, np.minimum(table[name], 3706.0), rtol=1e-10)


def test_bound_is_held_at_n() -> None:
    """As printed, the last location is 3724.2 of 3706."""
    assert GOLDEN["mapping_N3706_n100"]["bound_eq13_unfloored"][-1] > 3724
    assert BoundMapping().rounded_locations([100], 100, 3706).tolist() == [3706.0]


@pytest.mark.parametrize(("n", "n_pool"), [(2, 2), (5, 9), (100, 3706), (1000, 3706), (300, 139_331)])
@pytest.mark.parametrize("a", [0.05, 0.24, 0.5, 1.0, 3.0])
def test_closed_form_is_the_recurrence(n: int, n_pool: int, a: float) -> None:
    np.testing.assert_allclose(
        BetaMapping(a).locations(np.arange(1, n + 1), n, n_pool), recurrence(n, n_pool, a), rtol=2e-10
    )


def test_recurrence_needs_a_positive_exponent() -> None:
    with pytest.raises(InvalidParameter, match="a must be greater than 0"):
        recurrence(4, 9, 0.0)


@pytest.mark.parametrize("k", [1, 3, 10, 40])
@pytest.mark.parametrize("a", [0.2, 0.5, 2.0])
def test_it_is_a_power_mean(k: int, a: float) -> None:
    """f - 1 is (N - 1) times the a-norm of a Beta(k, n - k) variable, by quadrature."""
    law = beta_distribution(k, 50 - k)
    moment = quad(lambda x: x**a * law.pdf(x), 0, 1, epsabs=1e-14, epsrel=1e-12, limit=200)[0]
    assert BetaMapping(a).locations(k, 50, 1001) == pytest.approx(1 + 1000 * moment ** (1 / a), rel=1e-8)


def test_uniform_ranks_give_a_straight_line() -> None:
    k = np.arange(1, 101)
    np.testing.assert_allclose(BetaMapping(1.0).locations(k, 100, 3706), 1 + k * 3705 / 100, rtol=1e-13)


def test_limit_of_small_exponents() -> None:
    """At a = 0 it is the geometric mean of the Beta variable, and nothing is lost on the way there."""
    k = np.array([1, 2, 10, 50, 99])
    limit = 1 + 3705 * np.exp(digamma(k) - digamma(100))
    np.testing.assert_allclose(BetaMapping(0.0).locations(k, 100, 3706), limit, rtol=1e-12)
    np.testing.assert_allclose(BetaMapping(1e-9).locations(k, 100, 3706), limit, rtol=1e-7)
    assert abs(limit - BoundMapping().locations(k, 100, 3706))[:3].max() < 3


@pytest.mark.parametrize("x", [0.01, 1.0, 7.5, 100.0, 1e6])
@pytest.mark.parametrize("a", [1e-12, 1e-5, 0.3, 1.0, 40.0])
def test_mean_digamma_against_arbitrary_precision(x: float, a: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        truth = (mpmath.loggamma(mpmath.mpf(x) + mpmath.mpf(a)) - mpmath.loggamma(x)) / mpmath.mpf(a)
    assert mean_digamma(np.array([x]), a)[0] == pytest.approx(float(truth), rel=1e-13, abs=1e-14)


@settings(deadline=None)
@given(sizes, exponents, exponents)
def test_it_rises_with_the_exponent(size: tuple[int, int], first: float, second: float) -> None:
    """Printed as open (and once reversed): a power mean rises with its exponent."""
    n, n_pool = size
    low, high = sorted((first, second))
    k = np.arange(1, n + 1)
    at_low, at_high = BetaMapping(low).locations(k, n, n_pool), BetaMapping(high).locations(k, n, n_pool)
    assert (at_low <= at_high * (1 + 1e-13)).all()
    if high > low * 1.01 and n_pool > 2:
        assert (at_low[:-1] < at_high[:-1]).all()


@settings(deadline=None)
@given(sizes, st.sampled_from(WRITTEN))
@example((300, 87), "linear")
def test_locations_rise_and_stay_in_the_pool(size: tuple[int, int], written: str) -> None:
    n, n_pool = size
    found = mapping(written).locations(np.arange(n + 1), n, n_pool)
    assert (np.diff(found) >= 0).all()
    assert 1 <= found[0] <= found[-1] <= n_pool
    assert found[-1] == n_pool or (written == "bound" and n > n_pool)
    for rule in ("nearest", "floor", "interpolate"):
        places = mapping(
            written.replace(")", "") + f"{', ' if '(' in written else '('}round={rule})"
        ).rounded_locations(np.arange(1, n + 1), n, n_pool)
        assert places.min() >= 1
        assert places.max() <= n_pool
        assert rule == "interpolate" or (places == np.rint(places)).all()


@settings(max_examples=50, deadline=None)
@given(sizes, st.sampled_from(WRITTEN), st.floats(0, 1))
def test_inverse(size: tuple[int, int], written: str, share: float) -> None:
    """f lies below the location just before the inverse and above it just behind, up to rounding."""
    n, n_pool = size
    f = mapping(written)
    location = 1 + share * (n_pool - 1)
    k = float(f.inverse(location, n, n_pool))
    assert 0 <= k <= n
    step = 1e-11 * k + 1e-17 * n
    before, behind = f.raw(np.array([max(k - step, 0.0), min(k + step, n)]), n, n_pool)
    slack = 1e-12 * n_pool
    assert k <= step or before <= location + slack
    assert k == n or behind >= location - slack


def test_inverse_of_whole_cut_offs() -> None:
    k = np.arange(1, 100)
    for written in WRITTEN:
        f = mapping(written)
        np.testing.assert_allclose(f.inverse(f.locations(k, 100, 3706), 100, 3706), k, rtol=1e-11)


def test_sizes_of_the_paper() -> None:
    """Figures 4 and 5 in numbers: relative to a = 1, and around a = 0.3."""
    k = np.arange(1, 101)
    one = BetaMapping(1.0).locations(k, 100, 3706)
    ratios = [BetaMapping(a).locations(k, 100, 3706)[0] / one[0] - 1 for a in (0.2, 0.4, 0.6, 0.8)]
    assert np.round(ratios, 3).tolist() == [-0.336, -0.25, -0.165, -0.082]
    near = BetaMapping(0.3).locations(k, 100, 3706)
    gaps = {a: BetaMapping(a).locations(k, 100, 3706) - near for a in (0.24, 0.26, 0.28, 0.32, 0.34)}
    assert {a: round(float(gap[2]), 3) for a, gap in gaps.items()} == {
        0.24: -1.062,
        0.26: -0.707,
        0.28: -0.353,
        0.32: 0.353,
        0.34: 0.705,
    }
    assert all(np.abs(gap).argmax() == 2 for gap in gaps.values())


def test_rounding_rules() -> None:
    given_at = np.array([0.4, 1.5, 2.5, 2.51, 9.7])
    assert round_to_ranks(given_at, 9, "nearest").tolist() == [1, 2, 2, 3, 9]
    assert round_to_ranks(given_at, 9, "floor").tolist() == [1, 1, 2, 2, 9]
    assert round_to_ranks(given_at, 9, "interpolate").tolist() == given_at.tolist()
    assert LinearMapping().rounded_locations([2], 100, 3706).tolist() == [38]
    assert LinearMapping(round="floor").rounded_locations([3], 100, 3706).tolist() == [75]
    assert LinearMapping().rounded_locations([3], 100, 3706).tolist() == [76]
    with pytest.raises(InvalidParameter, match="round must be one of nearest, floor, interpolate, got 'up'"):
        LinearMapping(round="up")  # type: ignore[arg-type]


def test_specs() -> None:
    for written in [*WRITTEN, "bound(round=nearest)", "beta(round=floor)", "beta-p(method=likelihood)"]:
        made = mapping(written)
        assert MAPPINGS.make(str(made)) == made
    assert str(mapping("beta(a=0.5)")) == "beta"
    with pytest.raises(UnknownName, match="Did you mean 'beta'"):
        mapping("beda")
    with pytest.raises(InvalidParameter, match=r"a must be a number >= 0, got -1\.0"):
        mapping("beta(a=-1)")
    with pytest.raises(InvalidParameter, match="a must be a number >= 0, got nan"):
        BetaMapping(float("nan"))
    with pytest.raises(InvalidParameter, match="method must be one of iteration, likelihood"):
        from truerank.estimation.mapping.functions import FittedBetaMapping

        FittedBetaMapping("em")  # type: ignore[arg-type]


def test_bad_sizes() -> None:
    with pytest.raises(InvalidParameter, match=r"k must lie in 0\.\.100, the sampled list, got 1\.\.101"):
        BetaMapping().locations([1, 101], 100, 3706)
    with pytest.raises(InvalidParameter, match="n and n_pool must be at least 2"):
        LinearMapping().locations([1], 1, 3706)
    with pytest.raises(InvalidParameter, match=r"a location must lie in 1\.\.3706, the pool, got 0\.\.0"):
        LinearMapping().inverse([0], 100, 3706)


def test_beta_p_wants_a_fit() -> None:
    with pytest.raises(CannotEstimate, match="'beta-p' has no locations before it is fitted"):
        mapping("beta-p").locations([1], 100, 3706)
    sample = SampledRanks.single([0, 3, 50], n_negatives=99, n_pool=3706)
    fitted = mapping("beta-p(round=floor)").fit(tally(sample))
    assert isinstance(fitted, BetaMapping)
    assert fitted.round == "floor"
    assert mapping("beta(a=0.3)").fit(tally(sample)) == BetaMapping(0.3)


def test_log_share_of_a_straight_line_is_exact() -> None:
    shares = np.exp(log_fraction(np.arange(8.0), 7, 1.0))
    np.testing.assert_allclose(shares, [float(Fraction(k, 7)) for k in range(8)], rtol=1e-14)
