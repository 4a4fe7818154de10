"""Negatives compared on a device: the counts of the CPU's judges."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ranking.gpu.engines import ENGINES, Where
from tests.ranking.gpu.test_exact import factors_of, split_of
from truerank.core.errors import InvalidData
from truerank.core.scorer import Factors
from truerank.ranking.exact import make_queries
from truerank.ranking.gpu.sampled import DeviceFactors
from truerank.ranking.listed import ListComparer, ListedCounts, TargetComparer
from truerank.ranking.listed_factors import SmallFactors
from truerank.ranking.negatives import Negatives, RandomSampler, Rows, row_blocks
from truerank.ranking.sampled import sample_ranks
from truerank.ranking.samplers.registry import SAMPLERS


def drawn(spec: str) -> tuple[Rows, Negatives]:
    split, sampler = split_of(), SAMPLERS.make(spec)
    assert isinstance(sampler, RandomSampler)
    rows = Rows.of(
        make_queries(split, "remove"),
        split,
        per_target=sampler.is_per_target,
        seed=1,
        repeat=0,
        label="",
    )
    return rows, sampler.negatives(split, rows)


def judged(judge: TargetComparer, negatives: Negatives, most: int) -> ListedCounts:
    parts = [
        judge.compare(block, negatives.sample(block.start, block.stop))
        for block in row_blocks(negatives.sizes, most)
    ]
    return ListedCounts.joined(parts)


@pytest.mark.parametrize("where", ENGINES)
@pytest.mark.parametrize(
    "spec", ["uniform(m=30)", "uniform(m=30, per=target)", "popularity(m=9, replace=true)"]
)
@pytest.mark.parametrize("has_bias", [False, True])
def test_equal_to_the_cpu(spec: str, has_bias: bool, where: Where) -> None:
    rows, negatives = drawn(spec)
    factors = factors_of(has_bias=has_bias)
    expected = judged(ListComparer(SmallFactors(factors, rows), rows), negatives, 1 << 20)
    assert expected.n_tied.any() or has_bias
    for most in (200, 1 << 20):
        found = judged(DeviceFactors(factors, rows, **where), negatives, most)
        for name in ("n_above", "n_tied", "n_negatives", "scores"):
            assert (getattr(found, name) == getattr(expected, name)).all()
        assert found.n_scores == expected.n_scores


def test_bad_factors() -> None:
    rows, negatives = drawn("uniform(m=3)")
    with pytest.raises(InvalidData, match=r"a vector for each user, but user \d+ has none"):
        sample_ranks(factors_of(n_users=5), split_of(), "uniform(m=3)", device="cuda")
    with pytest.raises(InvalidData, match="item bias factors must be finite, row 0"):
        DeviceFactors(Factors(np.ones((60, 1)), np.ones((200, 1)), np.full(200, np.nan)), rows, device="cpu")
    broken = Factors(np.full((60, 1), np.inf), np.ones((200, 1)))
    with pytest.raises(InvalidData, match="user factors must be finite, row 0"):
        judged(DeviceFactors(broken, rows, device="cpu"), negatives, 1 << 20)
    huge = Factors(np.full((60, 1), 1e300), np.full((200, 1), 1e300))
    with pytest.raises(InvalidData, match="scores far below the largest float64"):
        judged(DeviceFactors(huge, rows, device="cpu"), negatives, 1 << 20)
