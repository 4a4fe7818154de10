"""What becomes of repeated pairs under each policy."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.data import clean as duplicate
from truerank.data.clean import POLICIES, merge_duplicates


def events() -> Interactions:
    """User 0 meets item 1 three times, twice at time 9; user 1 meets item 0 twice at one time."""
    return Interactions.from_codes(
        [0, 0, 1, 0, 1, 0],
        [1, 1, 0, 1, 0, 2],
        value=np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        time=np.array([9, 9, 5, 2, 5, 1]),
    )


@pytest.mark.parametrize(
    ("policy", "values", "times"),
    [
        ("last", [2.0, 5.0, 6.0], [9, 5, 1]),
        ("first", [3.0, 4.0, 6.0], [5, 2, 1]),
        ("sum", [7.0, 8.0, 6.0], [9, 5, 1]),
        ("max", [4.0, 5.0, 6.0], [9, 5, 1]),
    ],
)
def test_policies(policy: str, values: list[float], times: list[int]) -> None:
    """Largest (smallest) time wins, then the last (first) row; rows keep their order."""
    merged = merge_duplicates(events(), policy)
    assert merged.value is not None and merged.value.tolist() == values
    assert merged.time is not None and merged.time.tolist() == times
    assert merged.origin["duplicate_rows"] == 3


def test_keep_only_counts() -> None:
    kept = merge_duplicates(events(), "keep")
    assert len(kept) == 6
    assert kept.origin == {"duplicate_rows_kept": 3}
    assert merge_duplicates(kept, "last").origin == {"duplicate_rows": 3}


def test_without_times_the_file_order_decides() -> None:
    plain = Interactions.from_codes([0, 0], [1, 1], value=np.array([1.0, 2.0]))
    assert merge_duplicates(plain, "last").value == [2.0]
    assert merge_duplicates(plain, "first").value == [1.0]


def test_sum_without_values_counts_events() -> None:
    merged = merge_duplicates(Interactions.from_codes([0, 0, 1], [1, 1, 0]), "sum")
    assert merged.value is not None and merged.value.tolist() == [2.0, 1.0]
    single = merge_duplicates(Interactions.from_codes([0, 1], [1, 1]), "sum")
    assert single.value is not None and single.value.tolist() == [1.0, 1.0]


def test_max_without_values_is_last() -> None:
    assert merge_duplicates(Interactions.from_codes([0, 0], [1, 1]), "max").value is None


def test_error_names_a_pair() -> None:
    with pytest.raises(
        InvalidData, match=r"each pair must occur once, but 3 rows repeat one, such as user 0 and item 1"
    ):
        merge_duplicates(events(), "error")
    clean = Interactions.from_codes([0, 1], [1, 1])
    assert merge_duplicates(clean, "error").origin == {"duplicate_rows": 0}


def test_unknown_policy() -> None:
    with pytest.raises(
        InvalidParameter, match=r"duplicates must be one of last, first, sum, max, error, keep, got 'any'"
    ):
        merge_duplicates(events(), "any")


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)), min_size=1
    )
)
def test_agrees_with_a_literal_loop(rows: list[tuple[int, int, int, int]]) -> None:
    user, item, time, value = (np.array(column) for column in zip(*rows, strict=True))
    drawn = Interactions.from_codes(user, item, n_users=4, n_items=4, time=time, value=value.astype(float))
    numbered = sorted((row[0], row[1], row[2], number) for number, row in enumerate(rows))
    groups = [list(group) for _, group in groupby(numbered, key=lambda row: row[:2])]
    for policy in POLICIES:
        if policy in ("error", "keep"):
            continue
        merged = merge_duplicates(drawn, policy)
        chosen = sorted(group[0 if policy == "first" else -1][3] for group in groups)
        assert merged.time is not None and merged.time.tolist() == time[chosen].tolist()
        assert merged.origin["duplicate_rows"] == len(rows) - len(groups)
        if policy in ("sum", "max"):
            combine = sum if policy == "sum" else max
            wanted = {group[-1][3]: combine(int(value[row[3]]) for row in group) for group in groups}
            assert merged.value is not None and merged.value.tolist() == [wanted[row] for row in chosen]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), min_size=1), st.booleans())
def test_blocks_do_not_matter(rows: list[tuple[int, int]], is_sorted: bool) -> None:
    user, item = np.array(sorted(rows) if is_sorted else rows).T
    drawn = Interactions.from_codes(user, item)
    whole = merge_duplicates(drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicate, "CHUNK", 3)
        pieces = merge_duplicates(drawn)
    assert (pieces.user.tolist(), pieces.item.tolist()) == (whole.user.tolist(), whole.item.tolist())
    assert pieces.origin == whole.origin
