"""Normal matrices without the law's matrix equal those with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from truerank.core.types import FloatArray
from truerank.estimation.law import (
    NEGLIGIBLE,
    TINY,
    Binomial,
    FixedLaw,
    Hypergeometric,
    blocked_gram,
    hankel_gram,
    is_overlap_cheaper,
    overlap_gram,
)


def dense_gram(law: FixedLaw, prior: FloatArray) -> FloatArray:
    rows = law.pmf(np.arange(law.n_candidates + 1))
    gram: FloatArray = rows.T @ (prior[:, None] * rows)
    return gram


def random_prior(size: int, *, holes: bool) -> FloatArray:
    draw = np.random.default_rng(size)
    weights = draw.random(size) ** 3
    if holes:
        weights[draw.random(size) < 0.5] = 0
        weights[0] = 1
    prior: FloatArray = weights / weights.sum()
    return prior


@given(st.integers(1, 30), st.integers(1, 30), st.booleans())
@settings(deadline=None)
def test_all_ways_agree(n_candidates: int, n_negatives: int, holes: bool) -> None:
    """Hankel, overlap and blocked matrices equal A'DA entry by entry, relative to each entry."""
    prior = random_prior(n_candidates + 1, holes=holes)
    binomial = Binomial(n_candidates, n_negatives)
    wanted = dense_gram(binomial, prior)
    np.testing.assert_allclose(hankel_gram(binomial, prior, TINY), wanted, rtol=1e-12, atol=1e-250)
    np.testing.assert_allclose(blocked_gram(binomial, prior, TINY), wanted, rtol=1e-12, atol=1e-250)
    if n_negatives <= n_candidates:
        law = Hypergeometric(n_candidates, n_negatives)
        wanted = dense_gram(law, prior)
        np.testing.assert_allclose(overlap_gram(law, prior, TINY), wanted, rtol=1e-12, atol=1e-250)
        np.testing.assert_allclose(blocked_gram(law, prior, TINY), wanted, rtol=1e-12, atol=1e-250)


@pytest.mark.parametrize("law", [Binomial(3705, 100), Hypergeometric(3705, 100), Hypergeometric(20_000, 60)])
def test_a_movie_sized_catalogue(law: FixedLaw) -> None:
    prior = np.full(law.n_candidates + 1, 1 / (law.n_candidates + 1))
    wanted = dense_gram(law, prior)
    np.testing.assert_allclose(law.gram(prior, floor=NEGLIGIBLE), wanted, atol=1e-13 * wanted.max())


def test_both_ways_without_replacement_are_taken() -> None:
    assert is_overlap_cheaper(Hypergeometric(10**6, 999))
    assert not is_overlap_cheaper(Hypergeometric(3705, 1000))


def test_eigenvalues_of_the_uniform_prior() -> None:
    """Scaled by the marginal they are G(n)G(n+1)/(G(n-k)G(n+k+1)), down to about 4^-n, for large pools."""
    n = 6
    law = Binomial(200_000, n - 1)
    gram = law.gram(np.full(200_001, 1 / 200_001), floor=NEGLIGIBLE)
    root = np.sqrt(gram.sum(axis=1))
    k = np.arange(n)
    wanted = np.exp(gammaln(n) + gammaln(n + 1) - gammaln(n - k) - gammaln(n + k + 1))
    found = np.linalg.eigvalsh(gram / root / root[:, None])[::-1]
    np.testing.assert_allclose(found, wanted, rtol=1e-3)
