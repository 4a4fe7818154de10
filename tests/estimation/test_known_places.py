"""Estimates for some targets of a user: the others are irrelevant items whose place is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.estimation.test_grades import SPECS, all_items, graded_ranks
from truerank.core.errors import CannotEstimate, InvalidData
from truerank.core.ranks import Ranks, SampledRanks, TiePolicy
from truerank.core.types import BoolArray, IntArray
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.inference.bounds.identify import identification_bounds
from truerank.metrics.base import GainMetric
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.simulate import simulate_sample
from truerank.workflows.estimate import estimate

METRICS = make_metrics(
    "recall@5,recall(norm=min)@2,hit@3,precision@4,precision,mrr@5,mrr,ap@5,ap(norm=rel)@4,ap(norm=k)@3,"
    "ndcg@5,ndcg(ideal=all)@2,ndcg,err@5"
)
COUNTED = make_metrics("recall@5,mrr@5,ap@5,ndcg@5,err@5")


def some_targets(*, graded: bool, seed: int = 0) -> tuple[Ranks, BoolArray]:
    """Return ranks with many ties, and which targets stay; most users have both kinds."""
    ranks = graded_ranks(50, seed=seed)
    return ranks if graded else replace(ranks, gain=None), ranks.item % 5 < 3


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("ties", ["expected", "best", "worst"])
def test_samples_of_all_items_are_exact(ties: TiePolicy, graded: bool) -> None:
    """Targets that leave become items of the pool, as they do in exact ranks, whatever ties with whatever."""
    ranks, kept = some_targets(graded=graded)
    part, sample = ranks.where(kept), all_items(ranks).where(kept)
    assert sample.gain is not None and (sample.gain == 0).any()
    counted = tally(sample, ties=ties, metrics=METRICS)
    assert (counted.n_users, counted.n_rows) == (part.n_users, len(part))
    found = ESTIMATORS.make("naive").estimate(counted, METRICS).value
    assert found == pytest.approx(values(METRICS, part, ties=ties).mean(axis=0), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("graded", [False, True])
def test_every_estimator_takes_some_targets(graded: bool) -> None:
    """Estimates lie within their intervals, and bounds hold the exact values."""
    ranks, kept = some_targets(graded=graded, seed=3)
    wanted = values(COUNTED, ranks.where(kept)).mean(axis=0)
    sample = simulate_sample(ranks, 30, seed=1).where(kept)
    counted = tally(sample, metrics=COUNTED)
    for spec in SPECS:
        found = ESTIMATORS.make(spec).estimate(counted, COUNTED).value
        assert np.isfinite(found).all() and (spec == "ls" or (np.abs(found) < 1).all()), spec
    for bound, value in zip(identification_bounds(sample, COUNTED), wanted, strict=True):
        assert bound.low <= value <= bound.high
    for uncertainty in ("delta", "bootstrap(resamples=50)"):
        for one in estimate(sample, COUNTED, "smooth", uncertainty=uncertainty).estimates:
            assert one.low is not None and one.high is not None and one.low <= one.value <= one.high


def test_there_is_no_posterior_of_some_targets() -> None:
    ranks = replace(graded_ranks(120, seed=3), gain=None)
    sample = simulate_sample(ranks, 20, seed=1).where(ranks.item % 5 < 3)
    (one,) = estimate(sample, "recall@5", "smooth", uncertainty="auto").estimates
    assert "bounds: there is no posterior for some targets of a user" in one.method


@pytest.mark.parametrize("spec", ["naive", "rank-estimate", "bv(gamma=0.1)", "cls"])
def test_groups_add_up(spec: str) -> None:
    """Precision is a sum over targets of equal weight: corrected values of all are those of both groups."""
    ranks, kept = some_targets(graded=False, seed=5)
    whole, metrics = simulate_sample(ranks, 12, seed=2), make_metrics("precision@4")
    sums = []
    for part in (whole, whole.where(kept), whole.where(~kept)):
        counted = tally(part, metrics=metrics)
        sums.append(float(ESTIMATORS.make(spec).estimate(counted, metrics).value[0]) * counted.n_users)
    assert sums[0] == pytest.approx(sums[1] + sums[2], rel=1e-9) and sums[1] != sums[2]


def test_users_whose_targets_all_stay_are_as_before() -> None:
    ranks, _ = some_targets(graded=False)
    kept = ranks.user < 20
    part = all_items(ranks).where(kept)
    assert part.gain is None and part.n_users == 20


def test_metrics_that_are_no_product_are_refused() -> None:
    ranks, kept = some_targets(graded=False)
    sample = all_items(ranks).where(kept)
    for spec in ("auc", "auc@5"):
        with pytest.raises(CannotEstimate, match=r"'auc.*' of some targets of a user cannot be estimated"):
            tally(sample, metrics=make_metrics(spec))
    with pytest.raises(CannotEstimate, match="'recall@5' of graded targets needs their weights"):
        ESTIMATORS.make("bv").estimate(tally(sample), make_metrics("recall@5"))


class Mixed(GainMetric):
    """A gain whose dependence on the rank changes with the targets above."""

    key = "mixed"

    def gain_at(self, rank: IntArray, n_relevant_above: IntArray) -> np.ndarray:
        """Return 1 / (rank + targets above)."""
        return 1.0 / (rank + n_relevant_above)


def test_gains_of_ones_own_are_checked() -> None:
    ranks, kept = some_targets(graded=False)
    with pytest.raises(CannotEstimate, match="targets that are left out change more than its weight"):
        tally(all_items(ranks).where(kept), metrics=(Mixed(5),))


def test_users_need_a_target() -> None:
    single = SampledRanks.single([0, 2], n_negatives=9, n_pool=30)
    with pytest.raises(InvalidData, match="every user must have a target of gain above 0"):
        replace(single, gain=np.array([1.0, 0.0]))
