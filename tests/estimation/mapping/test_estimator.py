"""The estimator ``mapping``: a literal twin, exact cases, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerank.core.errors import CannotEstimate, InvalidParameter
from truerank.core.ranks import Design, Ranks, SampledRanks, Stopping
from truerank.core.types import FloatArray
from truerank.estimation.mapping.estimator import Mapped
from truerank.estimation.mapping.functions import BetaMapping, MappingFunction
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally, tally
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics, values

METRICS = make_metrics("recall@1,recall@7,ndcg@5,ap,ap@3,ndcg,auc,mrr@4")
WRITTEN = [
    "mapping",
    "mapping(f=linear)",
    "mapping(f=bound)",
    "mapping(f=beta(round=floor, a=0))",
    "mapping(f=beta(round=interpolate, a=2))",
    "mapping(f=beta-p)",
    "mapping(f=beta-p(method=likelihood))",
]
#: columns of two users with several targets: user, item, n_above, n_tied, n_relevant, above, tied
MULTIPLE = [
    (0, 0, 1, 0, 3, 0, 0),
    (0, 1, 4, 2, 3, 1, 1),
    (0, 2, 4, 2, 3, 1, 1),
    (1, 0, 3, 1, 1, 0, 0),
]


def several_targets() -> SampledRanks:
    user, item, above, tied, relevant, relevant_above, relevant_tied = np.array(MULTIPLE).T
    return SampledRanks(
        user, item, above, tied, 40 + 5 * user, relevant, relevant_above, relevant_tied,
        n_negatives=np.full(4, 9), n_candidates=40 + 5 * user - relevant,
    )  # fmt: skip


def literal_value(
    metric: Metric, f: MappingFunction, m: int, size: int, j: int, context: FloatArray
) -> float:
    """The mean of the gain over a fine grid of (f(j), f(j + 1)], or the gain at the point."""
    above, relevant, pool = (np.array([int(x)]) for x in context)
    places = f.rounded_locations(np.arange(1, m + 2), m + 1, size + 1)
    places[-1] = size + 1
    low, high = (0.0 if j == 0 else places[j - 1]), places[j]
    if high <= low:
        rank = np.array([np.ceil(high)])
    else:
        edges = np.unique(np.concatenate([[low, high], np.arange(np.ceil(low), np.floor(high) + 1)]))
        rank = np.ceil((edges[1:] + edges[:-1]) / 2)
    gains = metric.gain(rank.astype(int) + above, above, relevant, pool) * np.ones(len(rank))
    return float(gains[0] if high <= low else gains @ np.diff(edges) / (high - low))


def samples() -> list[SampledRanks]:
    pools = np.array([30, 44, 30, 12])
    return [
        SampledRanks.single([0, 3, 5, 1], n_negatives=6, n_pool=pools),
        SampledRanks.single([0, 3, 5, 1], n_negatives=np.array([4, 6, 6, 2]), n_pool=pools),
        SampledRanks.single([0, 9, 20, 2], n_negatives=20, n_pool=8, design=Design(replacement=True)),
        several_targets(),
    ]


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("number", range(4))
def test_literal_twin(written: str, number: int) -> None:
    """Several pools, several sizes, samples larger than the pool, several targets with ties."""
    counted = tally(samples()[number])
    estimator = ESTIMATORS.make(written)
    assert isinstance(estimator, Mapped)
    f = estimator.f.fit(counted)  # type: ignore[union-attr]
    found = estimator.corrected(counted, METRICS)
    contexts = counted.contexts
    for row in range(len(contexts)):
        m, size = int(contexts.n_negatives[row]), int(contexts.n_candidates[row])
        facts = np.array([contexts.n_relevant_above[row], contexts.n_relevant[row], contexts.n_pool[row]])
        for column, metric in enumerate(METRICS):
            twin = [literal_value(metric, f, m, size, j, facts) for j in range(m + 1)]
            cells = slice(counted.offsets[row], counted.offsets[row + 1])
            np.testing.assert_allclose(found[cells, column], twin, atol=1e-12)


def gains_of(metric: Metric, counted: Tally, row: int) -> FloatArray:
    contexts = counted.contexts.take(np.array([row]))
    above = contexts.n_relevant_above
    rank = np.arange(1, int(contexts.n_candidates[0]) + 2) + above
    return metric.gain(rank, above, contexts.n_relevant, contexts.n_pool) * np.ones(len(rank))


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("number", range(4))
def test_weights_give_every_metric(written: str, number: int) -> None:
    counted = tally(samples()[number])
    estimator = ESTIMATORS.make(written)
    weights = estimator.weights(counted)
    assert min(w.min() for w in weights) >= 0
    assert sum(w.sum() for w in weights) == pytest.approx(counted.n_rows / counted.n_users)
    found = estimator.estimate(counted, METRICS).value
    twin = [sum(float(w @ gains_of(x, counted, row)) for row, w in enumerate(weights)) for x in METRICS]
    np.testing.assert_allclose(found, twin, atol=1e-12)


@pytest.mark.parametrize("f", ["linear", "bound", "beta", "beta(a=1)"])
def test_its_curve_passes_through_the_sampled_one(f: str) -> None:
    rng = np.random.default_rng(0)
    sample = SampledRanks.single(rng.integers(0, 20, 300), n_negatives=19, n_pool=1000)
    estimator = ESTIMATORS.make(f"mapping(f={f})")
    assert isinstance(estimator, Mapped)
    found = np.cumsum(estimator.distribution(tally(sample)).weights)
    shr = [(sample.n_above < k).mean() for k in range(1, 20)]
    places = estimator.f.rounded_locations(np.arange(1, 20), 20, 1000).astype(int)  # type: ignore[union-attr]
    np.testing.assert_allclose(found[places - 1], shr, atol=1e-12)
    assert found[-1] == pytest.approx(1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 11), min_size=1, max_size=20))
def test_a_whole_sample_is_exact_under_linear(above: list[int]) -> None:
    """Every item was drawn, so the straight line reads k as k and every metric is the exact one."""
    sample = SampledRanks.single(above, n_negatives=11, n_pool=12)
    found = ESTIMATORS.make("mapping(f=linear)").estimate(tally(sample), METRICS).value
    exact = values(METRICS, Ranks.single(above, n_pool=12)).mean(axis=0)
    np.testing.assert_allclose(found, exact, atol=1e-12)


def test_below_the_first_location_it_is_even() -> None:
    """All targets first of 100: Recall@10 is 10/30, because f(1) = 30."""
    sample = SampledRanks.single([0, 0, 0], n_negatives=99, n_pool=3706)
    found = ESTIMATORS.make("mapping").estimate(tally(sample), make_metrics("recall@10,recall@30,recall@40"))
    assert found.value.tolist() == pytest.approx([1 / 3, 1, 1])


def test_specs() -> None:
    for written in WRITTEN:
        made = ESTIMATORS.make(written)
        assert str(made) == written
        assert ESTIMATORS.make(str(made)) == made
    assert Mapped(f=BetaMapping(0.5)) == Mapped()
    with pytest.raises(
        InvalidParameter, match=r"f must be a mapping or a spec such as beta\(a=0\.5\), got 3"
    ):
        Mapped(f=3)  # type: ignore[arg-type]


def test_refusals() -> None:
    single = SampledRanks.single([0, 1], n_negatives=4, n_pool=30, design=Design(law="popularity"))
    with pytest.raises(CannotEstimate, match="'mapping' needs negatives that were drawn uniformly"):
        ESTIMATORS.make("mapping").corrected(tally(single), METRICS)
    grown = Design(stopping=Stopping((4, 9)))
    adaptive = SampledRanks.single([0, 1], n_negatives=np.array([9, 4]), n_pool=30, design=grown)
    for ask in ("corrected", "weights"):
        arguments = (METRICS,) if ask == "corrected" else ()
        with pytest.raises(CannotEstimate, match=r"got an adaptive sample\. Use estimator 'mle'"):
            getattr(ESTIMATORS.make("mapping"), ask)(tally(adaptive), *arguments)
