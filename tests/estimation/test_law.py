"""The law of sampled ranks, against enumeration, whole numbers and scipy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.reference.law import integer_pmf, literal_pmf
from truerank.core.errors import InvalidParameter
from truerank.estimation.law import NEGLIGIBLE, Binomial, FixedLaw, Hypergeometric, make_law

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "spec" / "corrections.json").read_text())
LAWS = [Binomial, Hypergeometric]


@st.composite
def laws(draw: st.DrawFn, most: int = 60) -> FixedLaw:
    """Laws of both kinds and all shapes, small samples of small pools among them."""
    n_candidates, replacement = draw(st.integers(1, most)), draw(st.booleans())
    n_negatives = draw(st.integers(1, most if replacement else n_candidates))
    return make_law(n_candidates, n_negatives, replacement=replacement)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n_candidates", "n_negatives"), [(1, 1), (4, 2), (5, 3), (5, 5), (7, 4)])
def test_pmf_counts_samples(n_candidates: int, n_negatives: int, replacement: bool) -> None:
    """Every probability is the share of samples, all of them enumerated."""
    law = make_law(n_candidates, n_negatives, replacement=replacement)
    twin = [literal_pmf(n_candidates, n_negatives, J, replacement) for J in range(n_candidates + 1)]
    np.testing.assert_allclose(law.pmf(np.arange(n_candidates + 1)), np.array(twin, float), rtol=1e-14)


def test_golden_row() -> None:
    np.testing.assert_allclose(Binomial(11, 4).pmf(3), GOLDEN["small_linear"]["A_row_R4"], rtol=1e-12)


@pytest.mark.parametrize(
    "law", [Binomial(10**7, 10**4), Hypergeometric(10**7, 10**4), Hypergeometric(10**5, 9999)]
)
@pytest.mark.parametrize("share", [1e-6, 0.001, 0.3, 0.9999])
def test_pmf_is_accurate_for_large_pools(law: FixedLaw, share: float) -> None:
    """Ten digits against whole-number arithmetic at the mode, in both flanks and far out in the tails."""
    J = int(share * law.n_candidates)
    pmf = law.pmf(J)
    sd = float(np.sqrt(law.variance(J))) + 1
    for shift in (0, -1, 1, -5, 5, -15, 15):
        j = int(np.clip(round(float(law.mean(J)) + shift * sd), 0, min(law.n_negatives, J)))
        wanted = integer_pmf(law.n_candidates, law.n_negatives, J, j, law.replacement)
        assert pmf[j] == pytest.approx(wanted, rel=1e-10)


@given(laws())
@settings(deadline=None)
def test_rows_are_distributions(law: FixedLaw) -> None:
    """Rows sum to 1, ends are unit vectors, the CDF ends in 1 and falls as the rank worsens."""
    every = np.arange(law.n_candidates + 1)
    pmf, cdf = law.pmf(every), law.cdf(every)
    np.testing.assert_allclose(pmf.sum(axis=1), 1, rtol=1e-12)
    assert pmf[0].tolist() == [1.0] + [0.0] * law.n_negatives
    assert pmf[-1].tolist() == [0.0] * law.n_negatives + [1.0]
    assert (cdf[:, -1] == 1).all()
    assert (np.diff(cdf, axis=0) <= 1e-12).all()


@given(laws())
@settings(deadline=None)
def test_mean_and_variance_are_those_of_the_rows(law: FixedLaw) -> None:
    every, j = np.arange(law.n_candidates + 1), np.arange(law.n_negatives + 1)
    mean = law.pmf(every) @ j
    np.testing.assert_allclose(law.mean(every), mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(law.variance(every), law.pmf(every) @ j**2 - mean**2, atol=1e-8)
    by_kernel = law.moments(j.astype(float), every)
    np.testing.assert_allclose(by_kernel[0], law.mean(every), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(by_kernel[1], law.variance(every), rtol=1e-8, atol=1e-10)


@given(laws(), st.integers(1, 3))
@settings(deadline=None)
def test_sums_over_rows(law: FixedLaw, n_columns: int) -> None:
    """Adding up rows and multiplying by a vector equal the products with the dense matrix."""
    draw = np.random.default_rng(0)
    dense = law.pmf(np.arange(law.n_candidates + 1))
    values = draw.normal(size=(n_columns, law.n_candidates + 1))
    dual = draw.normal(size=law.n_negatives + 1)
    np.testing.assert_allclose(law.add(values), values @ dense, atol=1e-12)
    np.testing.assert_allclose(law.dot(dual), dense @ dual, atol=1e-12)


def test_negligible_terms_are_negligible() -> None:
    """Leaving out terms below 1e-20 of the largest does not show, over many threads and blocks."""
    law = Binomial(20_000, 300)
    prior = np.full((1, 20_001), 1 / 20_001)
    np.testing.assert_allclose(law.add(prior, floor=NEGLIGIBLE), law.add(prior, floor=1e-290), rtol=1e-13)


def test_a_sample_of_everything_is_exact() -> None:
    """Without replacement m = L gives the identity."""
    np.testing.assert_array_equal(Hypergeometric(6, 6).pmf(np.arange(7)), np.eye(7))


def test_cdf_agrees_with_scipy() -> None:
    J, j = np.arange(0, 3706, 50)[:, None], np.arange(101)
    np.testing.assert_allclose(
        Binomial(3705, 100).cdf(J.ravel()), stats.binom.cdf(j, 100, J / 3705), atol=1e-12
    )
    wanted = stats.hypergeom.cdf(j, 3705, J, 100)
    np.testing.assert_allclose(Hypergeometric(3705, 100).cdf(J.ravel()), wanted, atol=1e-10)


def test_the_cdf_with_replacement_has_no_case_for_small_ranks() -> None:
    """Li et al. 2020 print P(r <= k) = 1 for R < k; with replacement R = 3, k = 4 gives 0.926."""
    assert float(Binomial(49, 39).cdf(2)[3]) == pytest.approx(0.926, abs=5e-4)
    assert float(Hypergeometric(49, 39).cdf(2)[3]) == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Binomial(0, 1), "n_candidates must be an integer >= 1, got 0"),
        (lambda: Binomial(3, 0), "n_negatives must be an integer >= 1, got 0"),
        (
            lambda: Hypergeometric(3, 4),
            "without replacement n_negatives must be at most the 3 candidates, got 4",
        ),
        (lambda: Binomial(3, 1).pmf(4), r"n_above must lie in 0\.\.3, got 4\.\.4"),
    ],
)
def test_bad_sizes(make: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()  # type: ignore[operator]
