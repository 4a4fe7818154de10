"""Where the order of recommenders flips over sample sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.estimation.test_expectation import TOY
from truerank.core.errors import InvalidParameter
from truerank.estimation.expectation import order_flips
from truerank.estimation.registry import ESTIMATORS
from truerank.metrics.registry import METRICS


@pytest.mark.parametrize("replacement", [True, False])
def test_auc_never_flips(replacement: bool) -> None:
    found = order_flips(
        TOY,
        METRICS.make("auc"),
        n_pool=10_000,
        n_negatives=np.geomspace(1, 9999, 30).astype(int),
        replacement=replacement,
    )
    assert found.runs() == [(1, 9999, "A > C > B")]
    assert found.agrees.all()
    assert found.flips() == []


def test_the_toy_example_over_all_sample_sizes() -> None:
    """AP of Fig. 2 in Rendle 2019: five orders between m = 1 and m = 9,999, the last one exact."""
    found = order_flips(TOY, METRICS.make("ap"), n_pool=10_000)
    assert [order for _, _, order in found.runs()] == [
        "A > C > B",
        "A > B > C",
        "A > C > B",
        "C > A > B",
        "C > B > A",
    ]
    first, second, third, fourth = found.flips()
    assert 60 < first < 80
    assert 250 < second < 300
    assert 400 < third < 450
    assert fourth == pytest.approx(1000, abs=60)
    assert found.exact_order == "C > B > A"
    assert found.agrees.sum() == 9999 - fourth + 1


def test_recall_counts_equal_values_as_equal() -> None:
    """Below ten negatives every recall@10 is 1."""
    found = order_flips(
        TOY, METRICS.make("recall@10"), n_pool=10_000, n_negatives=[3, 9, 100, 9999], replacement=False
    )
    assert found.runs() == [(3, 9, "A = B = C"), (100, 100, "A > C > B"), (9999, 9999, "C > A = B")]
    assert found.agrees.tolist() == [False, False, False, True]


def test_sampling_everything_gives_the_exact_values() -> None:
    found = order_flips(TOY, METRICS.make("ndcg"), n_pool=10_000, n_negatives=[9999], replacement=False)
    np.testing.assert_allclose(found.expected[0], found.exact, rtol=1e-12)


def test_a_correction_needs_fewer_negatives() -> None:
    """Two recommenders that cross: recall@10 finds the order late, its correction early."""
    top = np.concatenate([np.full(20, 3), np.full(80, 2000)])
    flat = np.full(100, 60)
    sizes = [50, 100, 200, 400, 800]
    metric = METRICS.make("recall@10")
    plain = order_flips({"top": top, "flat": flat}, metric, n_pool=3000, n_negatives=sizes)
    corrected = order_flips(
        {"top": top, "flat": flat},
        metric,
        n_pool=3000,
        n_negatives=sizes,
        estimator=ESTIMATORS.make("bv(gamma=0.01)"),
    )
    assert plain.exact_order == "top > flat"
    assert corrected.agrees.sum() > plain.agrees.sum()


def test_nothing_to_compare() -> None:
    with pytest.raises(InvalidParameter, match="at least one recommender and one sample size"):
        order_flips({}, METRICS.make("ap"), n_pool=10)
    with pytest.raises(InvalidParameter, match="at least one recommender and one sample size"):
        order_flips({"A": [1]}, METRICS.make("ap"), n_pool=10, n_negatives=[])
