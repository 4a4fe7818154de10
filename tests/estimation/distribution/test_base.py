"""What fitted distributions share: pools, several targets, ties, and metrics from masses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from tests.reference.mixture import Row, literal_em, literal_metric
from truerank.core.ranks import Design, SampledRanks
from truerank.estimation.distribution import base as gains_module
from truerank.estimation.distribution import base as mixture
from truerank.estimation.distribution import base as plug_in
from truerank.estimation.distribution.base import bin_gains
from truerank.estimation.distribution.likelihood import RankGrid, make_grid
from truerank.estimation.distribution.mle import MaximumLikelihood
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally, tally
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics

MEASURED = "recall@1,recall@3,ndcg@4,ap@5,ndcg,ap,auc,precision@2,recall"


def gain_of(metric: Metric, rank: int, row: Row) -> float:
    values = metric.gain(*(np.array([v]) for v in (rank, row.above, row.relevant, row.L + row.relevant)))
    return float(np.broadcast_to(values, 1)[0])


def several_targets(replacement: bool) -> tuple[SampledRanks, list[Row]]:
    """Four users, one to three targets, pools of two sizes, samples of two sizes; no ties."""
    rows = [
        (0, Row(4, 11, 0, 0, 2)),
        (0, Row(4, 11, 3, 1, 2)),
        (1, Row(4, 11, 1)),
        (2, Row(6, 8, 0, 0, 3)),
        (2, Row(6, 8, 2, 1, 3)),
        (2, Row(6, 8, 6, 2, 3)),
        (3, Row(6, 11, 2, 0, 2)),
        (3, Row(6, 11, 2, 1, 2)),
    ]
    own = [row for _, row in rows]

    def column(name: str) -> np.ndarray:
        return np.array([getattr(row, name) for row in own])

    zeros = np.zeros(len(rows), dtype=np.int64)
    sample = SampledRanks(
        user=np.array([user for user, _ in rows]),
        item=np.arange(len(rows)),
        n_above=column("j") + column("above"),
        n_tied=zeros,
        n_pool=column("L") + column("relevant"),
        n_relevant=column("relevant"),
        n_relevant_above=column("above"),
        n_relevant_tied=zeros,
        n_negatives=column("m"),
        n_candidates=column("L"),
        design=Design(replacement=replacement),
    )
    return sample, own


@pytest.mark.parametrize("replacement", [True, False])
def test_several_targets_and_pools_against_the_definition(replacement: bool) -> None:
    sample, rows = several_targets(replacement)
    counted, measured = tally(sample, width=0), make_metrics(MEASURED)
    edges = list(range(13))
    masses = literal_em(rows, edges, 6, replacement)
    wanted = [literal_metric(rows, edges, masses, replacement, 4, partial(gain_of, one)) for one in measured]
    found = MaximumLikelihood(iterations=6, grid=0.0).estimate(counted, measured)
    np.testing.assert_allclose(found.value, wanted, rtol=1e-11)
    assert np.isnan(found.standard_error).all()


@pytest.mark.parametrize("replacement", [True, False])
def test_one_kind_in_several_pools(replacement: bool) -> None:
    """Pools of several sizes share one distribution of R/N; nobody has other targets above, so no step."""
    m, pool, above = np.array([3, 3, 5, 5]), np.array([12, 9, 12, 7]), [0, 2, 1, 5]
    sample = SampledRanks.single(above, n_negatives=m, n_pool=pool, design=Design(replacement=replacement))
    rows = [Row(int(a), int(b) - 1, c) for a, b, c in zip(m, pool, above, strict=True)]
    edges, measured = list(range(13)), make_metrics(MEASURED)
    masses = literal_em(rows, edges, 9, replacement)
    wanted = [literal_metric(rows, edges, masses, replacement, 4, partial(gain_of, one)) for one in measured]
    found = MaximumLikelihood(iterations=9, grid=0.0).estimate(tally(sample, width=0), measured)
    np.testing.assert_allclose(found.value, wanted, rtol=1e-11)


def test_a_tied_row_is_spread_over_the_places_it_may_take() -> None:
    sample = SampledRanks.single(
        [0, 1, 3], n_negatives=5, n_pool=14, n_tied=np.array([2, 0, 1]), design=Design(replacement=True)
    )
    rows = [Row(5, 13, j, weight=1 / 3) for j in (0, 1, 2)]
    rows += [Row(5, 13, 1), Row(5, 13, 3, weight=0.5), Row(5, 13, 4, weight=0.5)]
    wanted = literal_em(rows, list(range(15)), 12, True)
    found = MaximumLikelihood(iterations=12, grid=0.0).distribution(tally(sample)).weights
    np.testing.assert_allclose(found, wanted, atol=1e-13)


def realistic(n_users: int = 300, *, seed: int = 0) -> SampledRanks:
    """Users with one to four targets, pools of many sizes."""
    draw = np.random.default_rng(seed)
    columns: dict[str, list[int]] = {name: [] for name in ("user", "above", "relevant", "size", "j")}
    for user in range(n_users):
        n, size = int(draw.integers(1, 5)), int(draw.integers(500, 900))
        for place, fraction in enumerate(np.sort(draw.beta(0.4, 2, n))):
            for name, value in zip(
                columns, (user, place, n, size, draw.binomial(49, int(fraction * size) / size)), strict=True
            ):
                columns[name].append(int(value))
    own = {name: np.array(values) for name, values in columns.items()}
    zeros = np.zeros_like(own["user"])
    return SampledRanks(
        user=own["user"],
        item=np.arange(len(zeros)),
        n_above=own["j"] + own["above"],
        n_tied=zeros,
        n_pool=own["size"] + own["relevant"],
        n_relevant=own["relevant"],
        n_relevant_above=own["above"],
        n_relevant_tied=zeros,
        n_negatives=zeros + 49,
        n_candidates=own["size"],
        design=Design(replacement=True),
    )


@pytest.mark.parametrize("written", ["mle", "mle(solver=exact)"])
def test_all_routes_agree(written: str) -> None:
    """The estimate, the mean over users of corrected values, and weights over ranks times gains."""
    counted, measured = tally(realistic()), make_metrics("recall@10,ndcg@20,ap,auc")
    estimator = ESTIMATORS.make(written)
    wanted = estimator.estimate(counted, measured).value
    np.testing.assert_allclose(estimator.per_user(counted, measured).mean(axis=0), wanted, rtol=1e-12)
    total = np.zeros(len(measured))
    contexts = counted.contexts
    for row, weights in enumerate(estimator.weights(counted)):
        assert weights.sum() == pytest.approx(counted.counts(row).sum() / counted.n_users)
        above, relevant, pool = (
            np.full(len(weights), column[row])
            for column in (contexts.n_relevant_above, contexts.n_relevant, contexts.n_pool)
        )
        rank = np.arange(len(weights)) + 1 + above
        total += [float(weights @ metric.gain(rank, above, relevant, pool)) for metric in measured]
    np.testing.assert_allclose(total, wanted, rtol=1e-10)


@pytest.mark.parametrize("written", ["mle(iterations=3)", "mle", "mle(solver=exact)"])
def test_constants_stay(written: str) -> None:
    """Recall without a cut-off is 1 for everybody."""
    found = ESTIMATORS.make(written).per_user(tally(realistic()), make_metrics("recall"))
    np.testing.assert_allclose(found, 1, atol=1e-9)


def test_corrected_values_fall_with_the_sampled_rank() -> None:
    """The mean gain given the cell, up to one shift for all cells: a better sampled rank counts more."""
    above = np.random.default_rng(1).binomial(49, np.random.default_rng(2).beta(0.4, 2, 400))
    counted = tally(SampledRanks.single(above, n_negatives=49, n_pool=800, design=Design(replacement=True)))
    found = MaximumLikelihood().corrected(counted, make_metrics("ndcg@20"))[:, 0]
    seen = counted.cell_weights > 0
    assert (np.diff(found[seen]) <= 1e-12).all()
    assert found[0] > 0.1


@pytest.mark.parametrize("limit", [1, 1000])
def test_parts_of_the_work_add_up(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by going through runs, situations and contexts in parts."""
    runs, measured = [tally(realistic(12, seed=seed)) for seed in (0, 1)], make_metrics("recall@10,ndcg")
    estimator = MaximumLikelihood(iterations=10)
    wanted, cells = estimator.estimate_runs(runs, measured), estimator.corrected(runs[0], measured)
    for module, name in (
        (plug_in, "_CHUNK"),
        (plug_in, "_MASSES"),
        (gains_module, "_CHUNK"),
        (mixture, "_CHUNK"),
    ):
        monkeypatch.setattr(module, name, limit)
    np.testing.assert_allclose(estimator.estimate_runs(runs, measured), wanted, rtol=1e-12)
    np.testing.assert_allclose(estimator.corrected(runs[0], measured), cells, rtol=1e-9, atol=1e-12)


def test_a_run_keeps_its_kinds_among_others() -> None:
    """A run without other targets is estimated alike alone and beside one that has them."""
    single = SampledRanks.single([0, 3, 1], n_negatives=49, n_pool=905, design=Design(replacement=True))
    runs, measured = [tally(realistic()), tally(single)], make_metrics("recall@10,ndcg")
    together = MaximumLikelihood(grid=0.0).estimate_runs(runs, measured)
    for run, row in zip(runs, together, strict=True):
        alone = MaximumLikelihood(grid=0.0).estimate_runs([run], measured)[0]
        largest = int(run.contexts.n_candidates.max())
        tolerance = 1e-10 if largest == 904 else 2e-3  # alone, the grid is that of its own largest pool
        np.testing.assert_allclose(row, alone, rtol=tolerance)


def literal_gains(metric: Metric, counted: Tally, grid: RankGrid) -> Sequence[Sequence[float]]:
    """The gain at each rank, averaged over the ranks of each bin by their fractions."""
    contexts, result = counted.contexts, []
    for row in range(len(contexts)):
        size = int(contexts.n_candidates[row]) + 1
        above, relevant, pool = (
            np.full(size, column[row])
            for column in (contexts.n_relevant_above, contexts.n_relevant, contexts.n_pool)
        )
        gains = np.broadcast_to(metric.gain(np.arange(size) + 1 + above, above, relevant, pool), size)
        sums = np.interp(
            grid.edges * (size / grid.n_ranks), np.arange(size + 1), np.concatenate([[0], np.cumsum(gains)])
        )
        result.append((np.diff(sums) / np.diff(grid.edges * (size / grid.n_ranks))).tolist())
    return result


@pytest.mark.parametrize("written", [*MEASURED.split(","), "recall@600", "ndcg@2000", "hit@3"])
def test_mean_gains(written: str) -> None:
    """Many contexts at once, cut-offs below, between and above the sizes of pools."""
    counted, (metric,) = tally(realistic(40)), make_metrics(written)
    grid = make_grid(int(counted.contexts.n_candidates.max()) + 1, 49)
    found = bin_gains(metric, counted.contexts, grid)
    np.testing.assert_allclose(found, literal_gains(metric, counted, grid), rtol=1e-10, atol=1e-12)
