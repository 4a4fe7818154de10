"""Expected sampled metrics in closed form; where the order of recommenders flips over sample sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.estimation.test_expectation import TOY
from tests.estimation.test_law import laws
from tests.reference.law import literal_pmf, literal_tied_pmf
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.ranks import Ranks
from truerank.estimation.expectation import expected_values
from truerank.estimation.law import Binomial, FixedLaw, Hypergeometric, make_law
from truerank.estimation.registry import ESTIMATORS
from truerank.metrics.registry import METRICS
from truerank.papers.expected_metrics import (
    affine_limit,
    expected_ap,
    expected_auc,
    expected_recall,
    order_flips,
    sampled_rank_chances,
    smoothed_recall,
)


@given(laws(200), st.integers(1, 12))
@settings(deadline=None)
def test_closed_forms_are_the_sums(law: FixedLaw, cutoff: int) -> None:
    """AP, recall and AUC in closed form equal the sums over sampled ranks, both laws."""
    every = np.arange(law.n_candidates + 1)
    for found, written in (
        (expected_ap(law, every), "ap"),
        (expected_recall(law, every, cutoff), f"recall@{cutoff}"),
        (expected_auc(law, every), "auc"),
    ):
        mean, _ = expected_values(METRICS.make(written), law, every)
        np.testing.assert_allclose(found, mean, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("replacement", [True, False])
def test_ap_in_fractions(replacement: bool) -> None:
    law = make_law(6, 3, replacement=replacement)
    twin = [sum(p / (j + 1) for j, p in enumerate(literal_pmf(6, 3, J, replacement))) for J in range(7)]
    np.testing.assert_allclose(expected_ap(law, np.arange(7)), np.array(twin, float), rtol=1e-14)


def test_ap_does_not_cancel_at_the_top() -> None:
    """For R = 1, 2 of ten million the two laws differ from 1 by about m/(2 L); twelve digits are right."""
    for law in (Binomial(10**7, 1000), Hypergeometric(10**7, 1000)):
        np.testing.assert_allclose(
            expected_ap(law, [0, 1, 50]), expected_values(METRICS.make("ap"), law, [0, 1, 50])[0], rtol=1e-12
        )


@pytest.mark.parametrize("written", ["ap", "ndcg", "recall@1", "recall@2", "precision@2", "auc", "mrr"])
@pytest.mark.parametrize("replacement", [True, False])
def test_one_negative_makes_every_metric_a_line(written: str, replacement: bool) -> None:
    metric = METRICS.make(written)
    first, second = (float(metric.gain(*(np.array([v]) for v in (r, 0, 1, 2)))[0]) for r in (1, 2))
    every = np.arange(51)
    mean, _ = expected_values(metric, make_law(50, 1, replacement=replacement), every)
    np.testing.assert_allclose(mean, affine_limit(first, second, 50, every), rtol=1e-13)


@given(st.integers(2, 60), st.integers(2, 30), st.data())
@settings(deadline=None)
def test_sampled_recall_is_smoothed_recall(n_candidates: int, m: int, data: st.DataObject) -> None:
    """Recall of a sample is the global recall curve under a Beta(K, n - K) kernel, exactly."""
    cutoff = data.draw(st.integers(1, m))
    weights = np.random.default_rng(m).dirichlet(np.ones(n_candidates + 1))
    law = Binomial(n_candidates, m)
    wanted = weights @ expected_recall(law, np.arange(n_candidates + 1), cutoff)
    assert float(smoothed_recall(law, weights, cutoff)) == pytest.approx(float(wanted), abs=1e-13)


def test_the_kernel_needs_replacement() -> None:
    with pytest.raises(InvalidParameter, match="the Beta kernel needs draws with replacement"):
        smoothed_recall(Hypergeometric(5, 2), np.ones(6) / 6, 1)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("can_be_last", [True, False])
def test_sampled_ranks_of_tied_targets(replacement: bool, can_be_last: bool) -> None:
    """Every split of six items into above, tied and below, three of them drawn, by counting samples."""
    splits = [(above, tied) for above in range(7) for tied in range(7 - above)]
    ranks = Ranks.single([above for above, _ in splits], n_pool=7, n_tied=np.array([t for _, t in splits]))
    found = sampled_rank_chances(ranks, 3, replacement=replacement, can_be_last=can_be_last)
    twin = [literal_tied_pmf(6, 3, *split, replacement, can_be_last) for split in splits]
    np.testing.assert_allclose(found, np.array(twin, dtype=float), atol=1e-13)


def test_sampled_ranks_need_one_target() -> None:
    both = Ranks(
        *(np.array(column) for column in ([0, 0], [1, 2], [0, 1], [0, 0], [9, 9], [2, 2], [0, 1], [0, 0]))
    )
    with pytest.raises(InvalidData, match="needs one target per user"):
        sampled_rank_chances(both, 3, replacement=False)


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
