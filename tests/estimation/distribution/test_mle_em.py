"""EM: each step raises the likelihood, and the gap says how far there is to go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerank.core.types import FloatArray
from truerank.estimation.distribution.mle import em, gap, gradient, log_likelihood, maximise
from truerank.estimation.law import Binomial


def problem(seed: int, n_outcomes: int, n_bins: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Random components, a run with unseen outcomes, and a start."""
    draw = np.random.default_rng(seed)
    matrix = draw.dirichlet(np.full(n_outcomes, 0.4), n_bins).T
    fractions = draw.dirichlet(np.ones(n_outcomes), 1)
    fractions[:, draw.random(n_outcomes) < 0.3] = 0
    fractions = (
        np.full((1, n_outcomes), 1 / n_outcomes) if fractions.sum() == 0 else fractions / fractions.sum()
    )
    return np.maximum(matrix, 1e-150), fractions, draw.dirichlet(np.ones(n_bins), 1)


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 12))
@settings(deadline=None, max_examples=60)
def test_every_step_raises_the_likelihood(seed: int, n_outcomes: int, n_bins: int) -> None:
    matrix, fractions, masses = problem(seed, n_outcomes, n_bins)
    values, bounds = [], []
    for _ in range(30):
        values.append(log_likelihood(matrix, fractions, masses)[0])
        bounds.append(gap(matrix, fractions, masses)[0])
        masses = em(matrix, fractions, masses, 1)
        assert masses.sum() == pytest.approx(1, abs=1e-12)
        assert (masses >= 0).all()
    assert (np.diff(values) >= -1e-13).all()
    best = maximise(matrix, fractions[0])
    top = log_likelihood(matrix, fractions, best.masses[None])[0]
    assert all(-1e-9 <= top - value <= bound + 1e-9 for value, bound in zip(values, bounds, strict=True))


def test_steps_add_up_and_the_mean_gradient_is_one() -> None:
    matrix, fractions, masses = problem(3, 7, 9)
    np.testing.assert_allclose(
        em(matrix, fractions, em(matrix, fractions, masses, 3), 4),
        em(matrix, fractions, masses, 7),
        rtol=1e-13,
    )
    assert float(masses[0] @ gradient(matrix, fractions, masses)[0]) == pytest.approx(1)
    np.testing.assert_array_equal(em(matrix, fractions, masses, 0), masses)


def test_the_start_is_left_alone() -> None:
    matrix, fractions, masses = problem(4, 5, 6)
    before = masses.copy()
    em(matrix, fractions, masses, 5)
    np.testing.assert_array_equal(masses, before)


def test_a_run_alone_and_among_others_agree() -> None:
    """To 1e-12; blocks are of 25 runs, so 70 runs go through three of them."""
    draw = np.random.default_rng(0)
    matrix = np.ascontiguousarray(Binomial(400, 40).pmf(np.arange(401)).T)
    fractions = draw.dirichlet(np.full(41, 0.3), 70)
    start = np.full((70, 401), 1 / 401)
    together = em(matrix, fractions, start, 100)
    for run in (0, 24, 25, 69):
        alone = em(matrix, fractions[run : run + 1], start[:1], 100)[0]
        np.testing.assert_allclose(together[run], alone, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(np.cumsum(together[run]), np.cumsum(alone), atol=1e-12)


def test_masses_do_not_dwindle_into_numbers_without_precision() -> None:
    matrix = np.array([[1.0, 0.01], [0.0, 0.99]])
    found = em(matrix, np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]), 155)
    assert found.tolist() == [[1.0, 0.0]]
