"""Sparse rows count as their dense form does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.ranking.cpu.problems import draw_lists, rows_of
from tests.reference.exact_counts import literal_counts
from truerank.core.errors import InvalidData
from truerank.ranking.cpu.counts import ScoreIsNaN
from truerank.ranking.cpu.rows import count_sparse_rows

PATHS = ["numpy", "compiled"]


def with_stored_zeros(dense: Any, stored: Any) -> csr_array:
    """Store the cells marked, zeros too."""
    indptr = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    return csr_array((dense[stored], np.nonzero(stored)[1], indptr), shape=dense.shape)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 12),
    n_items=st.integers(1, 80),
    density=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    most_targets=st.sampled_from([1, 5, 80]),
    seen=st.sampled_from(["none", "some", "all"]),
    dtype=st.sampled_from([np.float32, np.float64, np.int64]),
)
def test_both_paths_equal_the_definition(
    seed: int, n_rows: int, n_items: int, density: float, most_targets: int, seen: str, dtype: type
) -> None:
    """Negative scores, stored zeros and absent ones, ties everywhere."""
    draw = np.random.default_rng(seed)
    stored = draw.random((n_rows, n_items)) < density
    dense: Any = np.where(stored, np.rint(draw.standard_normal(stored.shape) * 2), 0).astype(dtype)
    lists = draw_lists(draw, n_rows, n_items, most_targets=most_targets, seen=seen)
    values = dense.tolist()
    literal = literal_counts(lambda row, item: values[row][item], lists.targets, lists.seen, n_items)
    for path in PATHS:
        counts = count_sparse_rows(with_stored_zeros(dense, stored), *lists.arguments, path=path)  # type: ignore[arg-type]
        assert rows_of(counts) == literal


@pytest.mark.parametrize("path", PATHS)
def test_unsorted_and_doubled_entries_are_added_up(path: Any) -> None:
    """Row (0, 2 + 1, 0, 3): item 1 ties with item 3, and the matrix of the caller stays as it was."""
    scores = csr_array((np.array([3.0, 2.0, 1.0]), np.array([3, 1, 1]), np.array([0, 3])), shape=(1, 4))
    assert rows_of(count_sparse_rows(scores, [0, 1], [1], [0, 0], [], path=path)) == [(0, 1, 0, 0)]
    assert scores.indices.tolist() == [3, 1, 1]


@pytest.mark.parametrize("path", PATHS)
def test_nan_names_its_row(path: Any) -> None:
    scores = csr_array(np.array([[0.0, 1.0], [0.0, 0.0], [np.nan, 1.0]]))
    with pytest.raises(ScoreIsNaN, match="row 2 holds a NaN") as error:
        count_sparse_rows(scores, [0, 1, 2, 3], [0, 0, 1], [0, 0, 0, 0], [], path=path)
    assert error.value.row == 2


@pytest.mark.parametrize("path", PATHS)
def test_bad_input_is_refused(path: Any) -> None:
    with pytest.raises(InvalidData, match="one row per row of target_indptr, 1, got 2"):
        count_sparse_rows(csr_array((2, 3)), [0, 1], [0], [0, 0], [], path=path)
    with pytest.raises(InvalidData, match="seen_items must ascend"):
        count_sparse_rows(csr_array((1, 3)), [0, 1], [0], [0, 2], [2, 1], path=path)


def test_a_huge_catalogue_is_not_made_dense() -> None:
    """Two billion items, three of them stored."""
    n_items = 2_000_000_000
    scores = csr_array(
        (np.array([1.0, -1.0, 2.0]), np.array([5, 9, 11]), np.array([0, 3])), shape=(1, n_items)
    )
    counts = count_sparse_rows(scores, [0, 3], [5, 9, 100], [0, 1], [11])
    assert rows_of(counts) == [
        (0, 0, 0, 0),
        (n_items - 2, 0, 2, 0),
        (1, n_items - 4, 1, 0),
    ]
