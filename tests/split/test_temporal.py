"""One cut in time for all users."""

from __future__ import annotations

import numpy as np
import pytest

from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.split.base import make_split


def events(times: list[float]) -> Interactions:
    return Interactions.from_codes([0] * len(times), list(range(len(times))), time=np.array(times))


def test_share() -> None:
    split = make_split(events([3, 1, 4, 10, 5, 9, 2, 6, 8, 7]), "temporal(test=0.2, valid=0.3)")
    assert split.valid is not None
    assert [sorted(np.asarray(part.time).tolist()) for part in (split.train, split.valid, split.test)] == [
        [1, 2, 3, 4, 5],
        [6, 7, 8],
        [9, 10],
    ]


def test_equal_times_are_not_divided() -> None:
    split = make_split(events([1, 2, 3, 4, 9, 9, 9, 9, 9, 9]), "temporal(test=0.1)")
    assert (len(split.train), len(split.test)) == (4, 6)


def test_all_times_equal() -> None:
    with pytest.raises(InvalidData, match="must give at least one train event"):
        make_split(events([5, 5, 5]), "temporal")


def test_moments() -> None:
    times = events([0, 86_399, 86_400, 90_000])
    assert len(make_split(times, "temporal(at=86400)").test) == 2
    assert len(make_split(times, "temporal(at='1970-01-02')").test) == 2
    assert len(make_split(times, "temporal(at='1970-01-02T01:00:00+00:00')").test) == 1
    with pytest.raises(InvalidData, match="must give at least one test event"):
        make_split(times, "temporal(at='2030-01-01')")


def test_new_users_are_counted() -> None:
    later = Interactions.from_codes([0, 1, 1], [0, 0, 5], time=np.array([1, 2, 3]))
    split = make_split(later, "temporal(at=2)")
    assert split.counts["users_without_history"] == 1
    assert split.counts["items_without_history"] == 1
    assert split.counts["users_without_targets"] == 1
