"""The exact maximum: conditions of optimality, an oracle, and hard cases."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from truerank.core.errors import NotConverged
from truerank.core.parallel import single_threaded_blas
from truerank.core.ranks import Design, SampledRanks, Stopping
from truerank.core.types import FloatArray
from truerank.estimation.distribution import mle as module
from truerank.estimation.distribution.likelihood import Likelihood, make_likelihood
from truerank.estimation.distribution.mle import LikelihoodMaximum, maximise
from truerank.estimation.law import Binomial, FixedLaw, Hypergeometric
from truerank.estimation.tally import tally


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As the estimator calls it: the matrices are small."""
    with single_threaded_blas():
        yield


def check_optimal(matrix: FloatArray, fractions: FloatArray) -> LikelihoodMaximum:
    """The gradient is at most 1 and equals 1 where there is mass; the gap says so."""
    found = maximise(matrix, fractions)
    assert found.gap <= 1e-9
    assert (found.masses >= 0).all()
    assert found.masses.sum() == pytest.approx(1, abs=1e-12)
    seen = fractions > 0
    slope = (fractions[seen] / (matrix[seen] @ found.masses)) @ matrix[seen]
    assert slope.max() - 1 == pytest.approx(found.gap, abs=1e-13)
    assert found.masses @ np.abs(slope - 1) <= 2e-9
    return found


def fixed(n_pool: int, m: int, n_users: int, *, replacement: bool = True, seed: int = 0) -> Likelihood:
    draw = np.random.default_rng(seed)
    J = np.minimum(draw.random(n_users) ** 3 * n_pool, n_pool - 1).astype(np.int64)
    above = draw.binomial(m, J / (n_pool - 1)) if replacement else draw.hypergeometric(J, n_pool - 1 - J, m)
    design = Design(replacement=replacement)
    return make_likelihood(
        [tally(SampledRanks.single(above, n_negatives=m, n_pool=n_pool, design=design))], step=0.1
    )


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("n_users", [1, 2, 5, 200, 20_000])
@pytest.mark.parametrize(("n_pool", "m"), [(12, 4), (3706, 99), (3706, 999), (1_000_000, 99)])
def test_the_gap_is_reached(n_pool: int, m: int, n_users: int, replacement: bool) -> None:
    found = fixed(n_pool, min(m, n_pool - 1), n_users, replacement=replacement)
    check_optimal(found.matrix, found.fractions[0])


def test_adaptive_samples() -> None:
    draw, sizes = np.random.default_rng(1), (99, 199, 399, 799, 1599, 3199)
    J = np.exp(draw.normal(5, 2, 30_000)).astype(np.int64).clip(max=20_719)
    above, m = np.zeros(len(J), dtype=np.int64), np.zeros(len(J), dtype=np.int64)
    for size in sizes:
        on = above == 0
        above[on] = draw.binomial(size - m[on], J[on] / 20_719)
        m[on] = size
    design = Design(replacement=True, stopping=Stopping(sizes))
    found = make_likelihood(
        [tally(SampledRanks.single(above, n_negatives=m, n_pool=20_720, design=design))], step=0.1
    )
    assert len(found.matrix) > 120
    check_optimal(found.matrix, found.fractions[0])


@pytest.mark.parametrize(("above", "place"), [(0, 0), (99, -1)])
def test_all_users_alike_at_an_end(above: int, place: int) -> None:
    sample = SampledRanks.single([above] * 7, n_negatives=99, n_pool=3706, design=Design(replacement=True))
    found = make_likelihood([tally(sample)], step=0.1)
    masses = check_optimal(found.matrix, found.fractions[0]).masses
    assert masses[place] == pytest.approx(1, abs=1e-9)


def test_one_user_has_one_atom_where_the_law_is_largest() -> None:
    law = Binomial(1000, 20)
    matrix = law.pmf(np.arange(1001)).T
    masses = check_optimal(matrix, np.eye(21)[7]).masses
    assert np.argmax(masses) == 350
    assert masses[350] > 1 - 1e-4


def test_equal_and_nearly_equal_columns() -> None:
    draw = np.random.default_rng(2)
    matrix = np.repeat(draw.dirichlet(np.ones(6), 3), [40, 50, 60], axis=0).T
    check_optimal(matrix, draw.dirichlet(np.ones(6)))
    check_optimal(matrix * (1 + 1e-9 * draw.random(matrix.shape)), draw.dirichlet(np.ones(6)))


def test_unseen_outcomes_do_not_matter() -> None:
    matrix = Binomial(50, 6).pmf(np.arange(51)).T
    fractions = np.array([0.5, 0, 0.2, 0, 0, 0.3, 0])
    np.testing.assert_allclose(
        maximise(matrix, fractions).masses,
        maximise(matrix[[0, 2, 5]], fractions[[0, 2, 5]]).masses,
        atol=1e-9,
    )


def test_a_sample_of_everything_gives_the_shares() -> None:
    fractions = np.random.default_rng(3).dirichlet(np.full(41, 0.2))
    law: FixedLaw = Hypergeometric(40, 40)
    np.testing.assert_allclose(
        check_optimal(law.pmf(np.arange(41)).T, fractions).masses, fractions, atol=1e-9
    )


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 15))
@example(43942, 3, 12)  # steps of a predictor and a corrector end at a bound here, and below
@example(80399, 3, 8)
@example(586123, 7, 9)
@settings(deadline=None, max_examples=60)
def test_random_components(seed: int, n_outcomes: int, n_bins: int) -> None:
    """Columns without any order among them, zeros included."""
    draw = np.random.default_rng(seed)
    matrix = draw.dirichlet(np.full(n_outcomes, 0.3), n_bins).T
    matrix[draw.random(matrix.shape) < 0.3] = 0.0
    matrix[:, 0] = 1.0 / n_outcomes
    check_optimal(matrix, draw.dirichlet(np.full(n_outcomes, 0.5)))


@pytest.mark.parametrize("seed", range(6))
def test_against_a_general_solver(seed: int) -> None:
    cvxpy = pytest.importorskip("cvxpy", reason="cvxpy is the oracle of this test")
    draw = np.random.default_rng(seed)
    m = int(draw.integers(3, 30))
    law: FixedLaw = Binomial(60, m) if seed % 2 else Hypergeometric(60, m)
    fractions = np.bincount(draw.binomial(m, draw.beta(0.5, 2, 200)), minlength=m + 1) / 200
    matrix = law.pmf(np.arange(61)).T
    seen = fractions > 0
    masses = cvxpy.Variable(61, nonneg=True)
    value = fractions[seen] @ cvxpy.log(matrix[seen] @ masses)
    problem = cvxpy.Problem(cvxpy.Maximize(value), [cvxpy.sum(masses) == 1])
    wanted = problem.solve(solver=cvxpy.CLARABEL)
    found = check_optimal(matrix, fractions).masses
    assert float(fractions[seen] @ np.log(matrix[seen] @ found)) == pytest.approx(wanted, abs=1e-7)
    np.testing.assert_allclose(matrix[seen] @ found, matrix[seen] @ masses.value, atol=1e-4)  # q is unique


def test_what_is_not_reached_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found = fixed(3706, 99, 2000)
    monkeypatch.setattr(module, "_STEPS", 3)
    monkeypatch.setattr(module, "_ROUNDS", 1)
    with pytest.raises(
        NotConverged, match=r"to within .* of its maximum, not 1e-09\. Use solver=em"
    ) as error:
        maximise(found.matrix, found.fractions[0])
    assert isinstance(error.value.last, LikelihoodMaximum)
    assert error.value.last.gap > 1e-9
