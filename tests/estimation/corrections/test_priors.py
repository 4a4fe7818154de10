"""Priors: weights for pools of any size, and what a bad file gets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.core.errors import InvalidData
from truerank.core.ranks import SampledRanks
from truerank.estimation.corrections.bias_variance import BiasVariance
from truerank.estimation.corrections.priors import BetaPrior, FilePrior, Prior, TablePrior, UniformPrior
from truerank.estimation.expectation import corrected_values
from truerank.estimation.law import Binomial
from truerank.estimation.registry import ESTIMATORS, PRIORS
from truerank.estimation.tally import tally
from truerank.metrics.registry import make_metrics


@given(st.integers(1, 300), st.floats(0.05, 3))
def test_weights_are_distributions(n_ranks: int, a: float) -> None:
    for prior in (UniformPrior(), BetaPrior(a), TablePrior(np.array([0.5, 0.0, 0.5]))):
        weights = prior.weights(n_ranks)
        assert len(weights) == n_ranks
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1)


def test_beta_one_is_uniform() -> None:
    np.testing.assert_allclose(BetaPrior(1.0).weights(7), 1 / 7)


def test_beta_half_is_a_difference_of_roots() -> None:
    np.testing.assert_allclose(BetaPrior(0.5).weights(9)[:2], [1 / 3, np.sqrt(2 / 9) - 1 / 3])


def test_a_table_is_taken_as_it_is_where_it_fits() -> None:
    given = np.array([0.7, 0.1, 0.1, 0.1])
    np.testing.assert_array_equal(TablePrior(given).weights(4), given)
    np.testing.assert_allclose(TablePrior(given).weights(2), [0.8, 0.2])
    np.testing.assert_allclose(TablePrior(given).weights(8), np.repeat(given / 2, 2))


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "prior.csv"
    path.write_text(text)
    return str(path)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, "weight\n0.5\n0.25\n\n0.25\n")
    estimator = ESTIMATORS.make(f"bv(prior=file(path='{path}'))")
    wanted = BiasVariance(prior=TablePrior(np.array([0.5, 0.25, 0.25])))
    (metric,) = make_metrics("ap")
    law = Binomial(2, 3)
    np.testing.assert_array_equal(
        corrected_values(estimator, metric, law), corrected_values(wanted, metric, law)
    )
    assert ESTIMATORS.make(str(estimator)) == estimator


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    """What was computed with the old weights is not used for the new ones."""
    prior = FilePrior(written(tmp_path, "0.5\n0.25\n0.125\n0.125\n"))
    (metric,) = make_metrics("ap")
    first = corrected_values(BiasVariance(prior=prior), metric, Binomial(3, 3))
    written(tmp_path, "0.25\n0.25\n0.25\n0.25\n")
    second = corrected_values(BiasVariance(prior=prior), metric, Binomial(3, 3))
    assert not np.allclose(first, second)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.5\n0.4\n", r"weights of prior file .* must sum to 1, got 0\.9\."),
        ("1.5\n-0.5\n", r"weights of prior file .* must be >= 0, got -0\.5 at rank 2"),
        ("0.5\nhalf\n", r"line 2 of prior file .* must be one number, got 'half'"),
        ("0.5\nnan\n", "must be a list of finite weights"),
        ("\n", "must be a list of finite weights"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        FilePrior(written(tmp_path, text))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"cannot read prior file .*none\.csv"):
        FilePrior(str(tmp_path / "none.csv"))


def test_a_prior_of_the_wrong_length(tmp_path: Path) -> None:
    """The largest pool must fit, smaller ones are interpolated; resize stretches."""
    path = written(tmp_path, "0.5\n0.25\n0.25\n")
    metrics = make_metrics("ap")
    counted = tally(SampledRanks.single([0, 0], n_negatives=1, n_pool=np.array([4, 2])))
    with pytest.raises(
        InvalidData, match="the prior must have 4 weights, one per rank of the largest pool, got 3"
    ):
        BiasVariance(prior=FilePrior(path)).estimate(counted, metrics)
    assert BiasVariance(prior=FilePrior(path, resize=True)).estimate(counted, metrics).value[
        0
    ] == pytest.approx(
        BiasVariance(prior=TablePrior(TablePrior(np.array([0.5, 0.25, 0.25])).weights(4)))
        .estimate(counted, metrics)
        .value[0]
    )
    smaller = tally(SampledRanks.single([0, 0], n_negatives=1, n_pool=np.array([3, 2])))
    assert np.isfinite(BiasVariance(prior=FilePrior(path)).estimate(smaller, metrics).value).all()


@pytest.mark.parametrize("bad", [np.array([0.5, 0.6]), np.array([-0.5, 1.5]), np.zeros((2, 2)), np.array([])])
def test_bad_tables(bad: np.ndarray) -> None:
    with pytest.raises(InvalidData, match="the prior must"):
        TablePrior(bad)


def test_registered_priors_read_back() -> None:
    for text in ("uniform", "beta", "beta(a=0.3)"):
        prior: Prior = PRIORS.make(text)
        assert str(prior) == text
