"""The rule of adaptive samples."""

from __future__ import annotations

import pytest

from truerank.core.errors import InvalidParameter
from truerank.core.ranks import Stopping


@pytest.mark.parametrize(
    ("n_candidates", "sizes"),
    [
        (50, (50,)),
        (99, (99,)),
        (100, (99, 100)),
        (199, (99, 199)),
        (250, (99, 199, 250)),
        (900, (99, 199, 399)),
    ],
)
def test_a_small_pool_ends_at_all_of_it(n_candidates: int, sizes: tuple[int, ...]) -> None:
    assert Stopping((99, 199, 399)).sizes_in(n_candidates) == sizes


@pytest.mark.parametrize("sizes", [(), (0, 3), (3, 3), (5, 4)])
def test_sizes_must_grow(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InvalidParameter, match="sizes must be numbers of negatives >= 1 that grow"):
        Stopping(sizes)


def test_the_rank_is_checked() -> None:
    with pytest.raises(InvalidParameter, match="rank must be an integer >= 1, got 0"):
        Stopping((3,), rank=0)
