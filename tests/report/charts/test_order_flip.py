"""Expected metrics of shorter lists against all lists there are."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import hypergeom

from truerank.core.errors import CannotEstimate
from truerank.core.ranks import Design, Ranks, SampledRanks, Stopping
from truerank.metrics.registry import make_metrics, values
from truerank.report.charts.order_flip import GainContexts, expected_metric, list_sizes

#: scores of the targets and of the other items, by user
UNTIED = (
    ([5.0, 2.0], [9.0, 4.0, 3.0, 1.0, 0.0, 6.0]),
    ([3.5], [9.0, 4.0, 3.0, 1.0, 0.0]),
    ([0.5], [1.0, 0.0]),
)
TIED = (([5.0], [9.0, 5.0, 5.0, 1.0, 0.0, 5.0]), ([2.0, 1.0], [3.0, 1.0, 2.0, 2.0, 0.0]))
TIED_TARGETS = (([5.0, 5.0], [9.0, 4.0, 6.0, 1.0, 0.0]),)
Users = tuple[tuple[list[float], list[float]], ...]


def ranks_of(users: Users) -> Ranks:
    """Rank targets among the other items by counting."""
    rows = []
    for user, (targets, others) in enumerate(users):
        for item, own in enumerate(targets):
            rest = targets[:item] + targets[item + 1 :]
            above, tied = ([score > own for score in rest], [score == own for score in rest])
            rows.append(
                (
                    user,
                    item,
                    sum(above) + sum(score > own for score in others),
                    sum(tied) + sum(score == own for score in others),
                    len(targets) + len(others),
                    len(targets),
                    sum(above),
                    sum(tied),
                )
            )
    return Ranks(*np.array(rows).T)


def mean_over_all_draws(users: Users, spec: str, size: int) -> float:
    """Draw every possible list for every user and evaluate it exactly."""
    metrics = make_metrics(spec)
    total = 0.0
    for targets, others in users:
        lists = list(combinations(others, min(size, len(others))))
        found = [values(metrics, ranks_of(((targets, list(drawn)),)))[0, 0] for drawn in lists]
        total += float(np.mean(found))
    return total / len(users)


@pytest.mark.parametrize("spec", ["recall@1", "recall@2", "ndcg@2", "ap@2", "precision@2"])
@pytest.mark.parametrize("users", [UNTIED, TIED], ids=["untied", "tied"])
def test_closed_form_equals_all_draws(users: Users, spec: str) -> None:
    (metric,) = make_metrics(spec)
    sizes = np.arange(2, 7)  # a list must be as long as the cut-off for the brute force
    found = expected_metric(GainContexts.of(ranks_of(users)), metric, sizes)
    twin = [mean_over_all_draws(users, spec, size) for size in sizes.tolist()]
    np.testing.assert_allclose(found, twin, atol=1e-12)


def test_targets_that_tie_with_each_other_have_one_order() -> None:
    """Recall does not depend on which of two tied targets comes first."""
    (metric,) = make_metrics("recall@2")
    found = expected_metric(GainContexts.of(ranks_of(TIED_TARGETS)), metric, np.array([2, 4, 5]))
    twin = [mean_over_all_draws(TIED_TARGETS, "recall@2", size) for size in (2, 4, 5)]
    np.testing.assert_allclose(found, twin, atol=1e-12)


def test_a_sample_is_drawn_from_further() -> None:
    """With replacement or without: any s of the m that were drawn are as good as any others."""
    (metric,) = make_metrics("recall@2")
    drawn = [1, 1, 0, 0, 1, 0]  # whether each of six negatives stands above the target
    twin = [np.mean([sum(some) < 2 for some in combinations(drawn, size)]) for size in (1, 3, 6)]
    for replacement in (True, False):
        ranks = SampledRanks.single([3], n_negatives=6, n_pool=50, design=Design(replacement=replacement))
        found = expected_metric(GainContexts.of(ranks), metric, np.array([1, 3, 6]))
        np.testing.assert_allclose(found, twin, atol=1e-12)


@pytest.mark.parametrize("ties", ["expected", "best", "worst", "random"])
@pytest.mark.parametrize("spec", ["recall@5", "ndcg@5"])
def test_the_longest_list_gives_the_exact_metric(ties: str, spec: str) -> None:
    draw = np.random.default_rng(1)
    tied = np.where(draw.random(60) < 0.5, draw.integers(0, 40, 60), 0)
    ranks = Ranks.single(draw.integers(0, 60, 60), n_pool=draw.integers(120, 140, 60), n_tied=tied)
    metrics = make_metrics(spec)
    found = expected_metric(GainContexts.of(ranks, ties=ties), metrics[0], np.array([200]))  # type: ignore[arg-type]
    exact = values(metrics, ranks, ties=ties).mean()  # type: ignore[arg-type]
    if ties != "random":  # sampled and exact ranks have random orders of their own
        assert found[0] == pytest.approx(exact, abs=1e-12)
    assert 0 < found[0] < 1


def test_many_ties_equal_their_mean_over_places() -> None:
    (metric,) = make_metrics("recall@7")
    ranks = Ranks.single([3], n_pool=1001, n_tied=400)
    for size in (1, 10, 100, 999):
        twin = np.mean([hypergeom.cdf(6, 1000, above, size) for above in range(3, 404)])
        found = expected_metric(GainContexts.of(ranks), metric, np.array([size]))[0]
        assert found == pytest.approx(twin, abs=1e-9)


def test_sizes_reach_both_ends_and_stay_few() -> None:
    for most in (1, 2, 17, 5_995, 1_000_000):
        sizes = list_sizes(most, 1000)
        assert (sizes[0], sizes[-1]) == (1, most)
        assert len(sizes) <= 40
    assert len(list_sizes(1000, 10**12)) == 8


def test_what_has_no_closed_form_is_refused() -> None:
    found = GainContexts.of(Ranks.single([0, 3], n_pool=9))
    with pytest.raises(CannotEstimate, match="'auc' has no cut-off"):
        expected_metric(found, make_metrics("auc")[0], np.array([3]))
    grown = SampledRanks.single(
        [0, 3], n_negatives=np.array([8, 4]), n_pool=9, design=Design(stopping=Stopping(sizes=(4, 8), rank=1))
    )
    with pytest.raises(CannotEstimate, match="an adaptive sample does not say"):
        GainContexts.of(grown)
