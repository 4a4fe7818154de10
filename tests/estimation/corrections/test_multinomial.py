"""MN: golden values, definiteness, what it is for the uniform prior, and ill-conditioned problems."""

from __future__ import annotations

import json
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.adaptive import literal_correction
from tests.reference.law import integer_pmf, literal_pmf
from truerank.core.errors import InvalidParameter
from truerank.core.ranks import Design, SampledRanks
from truerank.core.types import FloatArray
from truerank.estimation.corrections import equations as normal
from truerank.estimation.corrections import multinomial
from truerank.estimation.corrections.bias_variance import BiasVariance
from truerank.estimation.corrections.equations import (
    NormalEquations,
    ScaledEquations,
    StackedLeastSquares,
    laplacian,
    laplacian_root,
)
from truerank.estimation.corrections.multinomial import Multinomial
from truerank.estimation.corrections.priors import TablePrior, UniformPrior
from truerank.estimation.expectation import corrected_values
from truerank.estimation.law import Binomial, FixedLaw, Hypergeometric, make_law
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Contexts, tally
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "spec" / "multinomial.json").read_text())


def metric(written: str) -> Metric:
    return make_metrics(written)[0]


def test_golden() -> None:
    small = GOLDEN["small_linear"]
    estimator = Multinomial(prior=TablePrior(np.array(small["prior"])), users=small["M"])
    found = corrected_values(estimator, metric("recall@3"), Binomial(11, 4))
    np.testing.assert_allclose(found, small["MN"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("users", [1, 7, 10**6])
def test_mn_equals_fractions(users: int, replacement: bool) -> None:
    size, m = 8, 3
    prior = [Fraction(i, 28) for i in range(size)]  # rank 1 has no mass
    gains = [Fraction(1, i + 1) for i in range(size)]
    rows = [literal_pmf(size - 1, m, J, replacement) for J in range(size)]
    twin = literal_correction(rows, prior, gains, users=users)
    found = corrected_values(
        Multinomial(prior=TablePrior(np.array(prior, float)), users=users),
        metric("ap"),
        make_law(size - 1, m, replacement=replacement),
    )
    np.testing.assert_allclose(found, np.array(twin, float), rtol=1e-9)


@given(st.integers(2, 9), st.integers(2, 30), st.integers(1, 10**6), st.integers(0, 10**6))
@settings(deadline=None, max_examples=80)
def test_the_matrix_is_positive_definite(n: int, n_ranks: int, users: int, seed: int) -> None:
    """For any law with stochastic rows and any prior, zeros included."""
    draw = np.random.default_rng(seed)
    rows = draw.dirichlet(np.ones(n), n_ranks)
    prior = draw.dirichlet(np.full(n_ranks, 0.1)) * (draw.random(n_ranks) < 0.5)
    prior = prior / prior.sum() if prior.sum() > 0 else np.eye(n_ranks)[0]
    matrix = (rows * prior[:, None]).T @ rows + laplacian(rows.T @ rows) / users
    penalty = np.diag(rows.sum(axis=0)) - rows.T @ rows
    np.testing.assert_allclose(laplacian(rows.T @ rows), penalty, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > 0


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("users", [1, 40, 10**5])
@pytest.mark.parametrize("prior", ["uniform", "top", "bottom", "gaps"])
def test_the_matrix_of_the_laws_is_positive_definite(prior: str, users: int, replacement: bool) -> None:
    masses = {
        "uniform": np.ones(61),
        "top": np.eye(61)[0],
        "bottom": np.eye(61)[-1],
        "gaps": (np.arange(61) % 7 == 3).astype(float),
    }[prior]
    law = make_law(60, 12, replacement=replacement)
    estimator = Multinomial(prior=TablePrior(masses / masses.sum()), users=users)
    matrix = estimator.matrix(estimator.equations(law))
    scale = 1 / np.sqrt(np.diag(matrix))
    assert np.linalg.eigvalsh(matrix * scale * scale[:, None]).min() > 0
    assert np.isfinite(corrected_values(estimator, metric("ndcg@5"), law)).all()


@given(st.integers(20, 300), st.integers(1, 15), st.floats(0.01, 1), st.booleans())
@settings(deadline=None, max_examples=40)
def test_with_the_uniform_prior_it_is_bv(n_candidates: int, m: int, share: float, replacement: bool) -> None:
    """gamma = N/M, exactly."""
    law = make_law(n_candidates, m, replacement=replacement)
    users = max(int((n_candidates + 1) / share), n_candidates + 1)
    found = corrected_values(Multinomial(users=users), metric("ndcg@10"), law)
    gamma = (n_candidates + 1) / users
    wanted = corrected_values(BiasVariance(gamma=gamma), metric("ndcg@10"), law)
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)


@given(st.integers(1, 500), st.booleans(), st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_mn_is_a_minimum(users: int, replacement: bool, seed: int) -> None:
    """No step away from x lowers the bias under the prior plus the variances over M."""
    draw = np.random.default_rng(seed)
    law = make_law(15, 5, replacement=replacement)
    prior = draw.dirichlet(np.ones(16))
    gains = 1 / np.log2(np.arange(16) + 2)
    rows = law.pmf(np.arange(16))

    def objective(x: FloatArray) -> float:
        mean = rows @ x
        return float(prior @ (mean - gains) ** 2 + (rows @ x**2 - mean**2).sum() / users)

    x = corrected_values(Multinomial(prior=TablePrior(prior), users=users), metric("ndcg"), law)
    for _ in range(10):
        assert objective(x + 1e-3 * draw.normal(size=6)) >= objective(x) - 1e-13


def test_users_are_the_rows_of_the_sample() -> None:
    """Pools of several sizes have one M, that of all rows."""
    design = Design(replacement=True)
    sample = SampledRanks.single(
        [0, 1, 4, 0, 2], n_negatives=6, n_pool=np.array([30, 30, 50, 50, 50]), design=design
    )
    measured = make_metrics("recall@3,ap")
    found = Multinomial().estimate(tally(sample), measured).value
    np.testing.assert_array_equal(found, Multinomial(users=5).estimate(tally(sample), measured).value)
    assert not np.allclose(found, Multinomial(users=500).estimate(tally(sample), measured).value)


@pytest.mark.parametrize("replacement", [True, False])
def test_weights_give_all_metrics(replacement: bool) -> None:
    sample = SampledRanks.single(
        [0, 0, 1, 7, 30], n_negatives=30, n_pool=200, design=Design(replacement=replacement)
    )
    counted = tally(sample)
    estimator = ESTIMATORS.make("mn(prior=beta(a=0.3))")
    distribution = estimator.distribution(counted)
    assert distribution.signed
    assert distribution.method == "mn(prior=beta(a=0.3))"
    measured = make_metrics("recall@10,ndcg@5,ap,auc")
    one = np.ones(200, dtype=np.int64)
    direct = [distribution.weights @ m.gain(np.arange(1, 201), 0 * one, one, 200 * one) for m in measured]
    np.testing.assert_allclose(direct, estimator.estimate(counted, measured).value, rtol=1e-9)


def test_fewer_users_shrink_the_values() -> None:
    """The smaller M, the less the values spread around the metric under the prior."""
    weights = np.diff((np.arange(1001) / 1000) ** 0.25)
    law = Binomial(999, 100)
    marginal = weights @ law.pmf(np.arange(1000))
    spread, mean = [], []
    for users in (10, 1_000, 100_000):
        x = corrected_values(Multinomial(prior=TablePrior(weights), users=users), metric("recall@10"), law)
        mean.append(float(marginal @ x))
        spread.append(float(marginal @ (x - mean[-1]) ** 2))
    np.testing.assert_allclose(mean, weights[:10].sum(), rtol=1e-9)
    assert spread[0] < spread[1] < spread[2]


@pytest.mark.parametrize("law", [Binomial(40, 18), Hypergeometric(60, 20)], ids=str)
def test_many_more_users_than_items(law: FixedLaw) -> None:
    """M = 1e15: the orthogonal factorisation keeps digits that the normal matrix has lost."""
    size, users = law.n_candidates + 1, 10**15
    rows = [[exact_pmf(law, J, j) for j in range(law.n_negatives + 1)] for J in range(size)]
    gains = [Fraction(1, J + 1) for J in range(size)]
    twin = np.array(literal_correction(rows, [Fraction(1, size)] * size, gains, users=users), float)
    stacked = corrected_values(Multinomial(users=users), metric("ap"), law)
    equations = NormalEquations(law, UniformPrior().weights(size))
    estimator = Multinomial(users=users)
    assert estimator._factor(equations)[1] is None
    direct = np.linalg.solve(
        estimator.matrix(equations), equations.moment(metric("ap"), one_context(law))
    ).ravel()
    scale = np.abs(twin).max()
    error = np.abs(stacked - twin).max() / scale
    assert error < 1e-6
    assert error < np.abs(direct - twin).max() / scale / 100


def exact_pmf(law: FixedLaw, J: int, j: int) -> Fraction:
    """One probability as a fraction."""
    L, m = law.n_candidates, law.n_negatives
    if law.replacement:
        found = Fraction(comb(m, j) * J**j * (L - J) ** (m - j), L**m)
    else:
        found = Fraction(comb(J, j) * comb(L - J, m - j) if m - j >= 0 else 0, comb(L, m))
    assert float(found) == pytest.approx(integer_pmf(L, m, J, j, law.replacement))
    return found


def one_context(law: FixedLaw) -> Contexts:
    """The context of a target without other targets."""
    sample = SampledRanks.single(
        [0],
        n_negatives=law.n_negatives,
        n_pool=law.n_candidates + 1,
        design=Design(replacement=law.replacement),
    )
    return tally(sample).contexts


@pytest.mark.parametrize("replacement", [True, False])
def test_both_ways_to_solve_agree(replacement: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and weights from the stacked matrix equal those from the normal one where that is sound."""
    law = make_law(90, 12, replacement=replacement)
    estimator = Multinomial(prior=TablePrior(np.diff((np.arange(92) / 91) ** 0.4)), users=80)
    equations = estimator.equations(law)
    wanted = [(m, one_context(law)) for m in make_metrics("ap,ndcg@5")]
    sound = estimator.solve_metrics(equations, wanted)
    columns = np.random.default_rng(0).random((13, 2))
    dual = estimator.solve_dual(equations, columns)
    monkeypatch.setattr(multinomial, "_ILL", 2.0)
    np.testing.assert_allclose(estimator.solve_metrics(equations, wanted), sound, rtol=1e-9)
    np.testing.assert_allclose(estimator.solve_dual(equations, columns), dual, rtol=1e-8)


def test_many_blocks_reduce_to_the_same_triangle(monkeypatch: pytest.MonkeyPatch) -> None:
    law = Binomial(200, 6)
    equations = NormalEquations(law, UniformPrior().weights(201))
    penalty = laplacian(equations.gram)
    wanted = [(metric("ap"), one_context(law))]
    scaled = ScaledEquations.of(equations)
    whole = StackedLeastSquares(equations, penalty, scaled).solve_metrics(wanted)
    monkeypatch.setattr(normal, "_CHUNK", 7 * 16)
    np.testing.assert_allclose(
        StackedLeastSquares(equations, penalty, scaled).solve_metrics(wanted), whole, rtol=1e-10
    )


@given(st.integers(1, 12), st.integers(0, 10**6))
def test_the_root_of_a_laplacian(size: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    weights = draw.random((size, size)) * (draw.random((size, size)) < 0.7)
    matrix = laplacian(weights + weights.T)
    root = laplacian_root(matrix)
    np.testing.assert_allclose(root.T @ root, matrix, atol=1e-12)


def test_samples_of_everything_need_no_mass_at_every_rank() -> None:
    """All candidates drawn: ranks are certain, whatever mass the prior gives them."""
    prior = TablePrior(np.array([0.5, 0.0, 0.25, 0.25, 0.0]))
    found = corrected_values(Multinomial(prior=prior, users=9), metric("ap"), Hypergeometric(4, 4))
    np.testing.assert_allclose(found, [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])


def test_specs_read_back() -> None:
    for written in ("mn", "mn(users=40)", "mn(prior=beta(a=0.3))", "mn(prior=beta, users=7)"):
        estimator = ESTIMATORS.make(written)
        assert str(estimator) == written
        assert ESTIMATORS.make(str(estimator)) == estimator


def test_bad_parameters() -> None:
    with pytest.raises(InvalidParameter, match="users must be an integer >= 1, got 0"):
        ESTIMATORS.make("mn(users=0)")
    with pytest.raises(InvalidParameter, match=r"'mn' needs the number of users\. Give it"):
        corrected_values(Multinomial(), metric("ap"), Binomial(9, 3))
