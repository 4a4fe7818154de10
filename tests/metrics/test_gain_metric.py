"""A metric that is only a gain at a rank has the values of the built-in one, whatever the ties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import metrics as twin
from truerank.core.errors import InvalidParameter
from truerank.core.ranks import Ranks, TiePolicy
from truerank.core.types import FloatArray, IntArray
from truerank.metrics import ties
from truerank.metrics.base import GainMetric
from truerank.metrics.registry import METRICS, values

Function = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Written(GainMetric):
    """A metric from a function, as an author of another package would write it."""

    function: Function = lambda rank, above: 1.0
    divisor: float | None = None
    key = "written"

    def gain_at(self, rank: IntArray, n_relevant_above: IntArray) -> FloatArray:
        return cast(FloatArray, self.function(rank, n_relevant_above))

    def normaliser(self, n_relevant: IntArray) -> FloatArray:
        return super().normaliser(n_relevant) if self.divisor is None else np.asarray(self.divisor)


TWINS: list[tuple[str, Function]] = [
    ("ndcg", lambda rank, above: 1 / np.log2(rank + 1)),
    ("ap", lambda rank, above: (above + 1) / rank),
    ("hit", lambda rank, above: above == 0),
    ("mrr", lambda rank, above: (above == 0) / rank),
    ("recall(norm=min)", lambda rank, above: 1.0),
]
USERS = st.lists(
    st.integers(2, 9).flatmap(
        lambda size: st.tuples(
            st.lists(st.integers(0, 2).map(float), min_size=size, max_size=size),
            st.lists(st.booleans(), min_size=size, max_size=size).filter(any),
        )
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "function"), TWINS)
@given(
    users=USERS, cutoff=st.none() | st.integers(1, 2), policy=st.sampled_from(["expected", "best", "worst"])
)
def test_twins_of_built_in_metrics(
    name: str, function: Function, users: list[twin.User], cutoff: int | None, policy: TiePolicy
) -> None:
    ranks = twin.counts(users)
    own = Written(cutoff, function)
    built_in = METRICS.make(name if cutoff is None else f"{name}@{cutoff}")
    expected = values([built_in], ranks, ties=policy)
    assert values([own], ranks, ties=policy) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(("name", "function"), TWINS)
def test_large_blocks_are_summed_in_parts(
    name: str, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block of 3,000 items with 40 targets, and one with a single target deep in the list."""
    monkeypatch.setattr(ties, "_MOST_CELLS", 500)
    n, s = 3_000, 40
    many = {"n_above": 7, "n_tied": n - 1, "n_relevant": s, "n_relevant_above": 0, "n_relevant_tied": s - 1}
    one = {"n_above": 11, "n_tied": n, "n_relevant": 1, "n_relevant_above": 0, "n_relevant_tied": 0}
    columns = {key: np.array([many[key]] * s + [one[key]]) for key in many}
    ranks = Ranks(
        user=np.array([0] * s + [1]), item=np.arange(s + 1), n_pool=np.full(s + 1, 4_000), **columns
    )
    for cutoff in (None, 50):
        built_in = METRICS.make(name if cutoff is None else f"{name}@{cutoff}")
        found = values([Written(cutoff, function)], ranks)
        assert found == pytest.approx(values([built_in], ranks), rel=1e-11)


def test_the_divisor_can_be_another() -> None:
    ranks = Ranks.single([0, 1, 9], n_pool=20)
    assert Written(5, lambda rank, above: 6 - rank, 10.0).per_user(ranks).tolist() == [0.5, 0.4, 0.0]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda rank, above: np.ones(7), r"one finite number for each rank, got shape \(7,\) for ranks of"),
        (lambda rank, above: 1 / (rank - 1), "one finite number for each rank, got NaN or infinity"),
        (lambda rank, above: 0.0, "must add up to more than 0 for an ideal list, got 0"),
    ],
)
def test_gains_are_checked(function: Function, said: str) -> None:
    metric = Written(3, function)
    with np.errstate(divide="ignore"), pytest.raises(InvalidParameter, match=said):
        metric.per_user(Ranks.single([0, 1, 9], n_pool=20))
