"""Score rows are counted as they are, however many targets a row has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ranking.cpu.problems import draw_lists, rows_of
from tests.reference.exact_counts import literal_counts
from truerank.core.errors import InvalidData
from truerank.ranking.cpu.counts import ScoreIsNaN
from truerank.ranking.cpu.rows import count_dense_rows

PATHS = ["numpy", "compiled"]


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 12),
    n_items=st.integers(1, 200),
    most_targets=st.sampled_from([1, 5, 200]),
    seen=st.sampled_from(["none", "some", "all"]),
    kind=st.sampled_from(["float32", "float64", "integers", "infinities"]),
)
def test_both_paths_equal_the_definition(
    seed: int, n_rows: int, n_items: int, most_targets: int, seen: str, kind: str
) -> None:
    draw = np.random.default_rng(seed)
    scores: Any = draw.standard_normal((n_rows, n_items))
    if kind == "integers":
        scores = np.rint(scores).astype(np.int32)
    elif kind == "infinities":
        scores[draw.random(scores.shape) < 0.3] = np.inf
        scores[draw.random(scores.shape) < 0.3] = -np.inf
    else:
        scores = scores.astype(kind)
    lists = draw_lists(draw, n_rows, n_items, most_targets=most_targets, seen=seen)
    values = scores.tolist()
    literal = literal_counts(lambda row, item: values[row][item], lists.targets, lists.seen, n_items)
    for path in PATHS:
        assert rows_of(count_dense_rows(scores, *lists.arguments, path=path)) == literal  # type: ignore[arg-type]


@pytest.mark.parametrize("most_targets", [1, 100, 900])
def test_long_rows(most_targets: int) -> None:
    """More items than one chunk of the compiled loop, on both sides of its choice of method."""
    draw = np.random.default_rng(0)
    scores = np.rint(draw.standard_normal((7, 9001)) * 50).astype(np.float32)
    arguments = draw_lists(draw, 7, 9001, most_targets=most_targets, seen="some").arguments
    assert most_targets < 900 or np.diff(arguments[0]).max() > 128
    compiled = count_dense_rows(scores, *arguments, path="compiled")
    assert rows_of(compiled) == rows_of(count_dense_rows(scores, *arguments, path="numpy"))


def test_memmaps_and_other_orders_count_the_same(tmp_path: Any) -> None:
    draw = np.random.default_rng(0)
    scores = draw.standard_normal((9, 50)).astype(np.float32)
    arguments = draw_lists(draw, 9, 50, most_targets=3, seen="some").arguments
    counts = rows_of(count_dense_rows(scores, *arguments, path="compiled"))
    stored = np.memmap(tmp_path / "scores", np.float32, "w+", shape=(11, 50))
    stored[1:10] = scores
    for view in (stored[1:10], np.asfortranarray(scores), np.repeat(scores, 2, axis=1)[:, ::2]):
        assert rows_of(count_dense_rows(view, *arguments, path="compiled")) == counts


def test_scores_are_not_changed() -> None:
    scores = np.arange(12.0).reshape(2, 6)
    scores.flags.writeable = False
    count_dense_rows(scores, [0, 1, 2], [0, 1], [0, 1, 2], [2, 2], path="compiled")
    assert (scores == np.arange(12.0).reshape(2, 6)).all()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("targets", [[4], list(range(30)), [*range(31), *range(40, 240)]])
@pytest.mark.parametrize("place", [4, 31, 33])
def test_nan_names_its_row(path: str, targets: list[int], place: int) -> None:
    """In a target, a seen item or any other."""
    scores = np.zeros((3, 240), np.float32)
    scores[1, place] = np.nan
    indptr = np.arange(4) * len(targets)
    with pytest.raises(ScoreIsNaN, match="row 1 holds a NaN") as error:
        count_dense_rows(scores, indptr, targets * 3, [0, 1, 2, 3], [33] * 3, path=path)  # type: ignore[arg-type]
    assert error.value.row == 1


@pytest.mark.parametrize("path", PATHS)
def test_bad_input_is_refused(path: Any) -> None:
    with pytest.raises(InvalidData, match="one row per row of target_indptr, 1, got 2"):
        count_dense_rows(np.zeros((2, 3)), [0, 1], [0], [0, 0], [], path=path)
    with pytest.raises(InvalidData, match="must be a matrix of numbers"):
        count_dense_rows(np.zeros(3), [0, 1], [0], [0, 0], [], path=path)
    for seen in ([1, 3], [2, 1], [1, 1], [-1, 1]):
        with pytest.raises(InvalidData, match=r"seen_items must ascend within 0\.\.2 in every row, row 0"):
            count_dense_rows(np.zeros((1, 3)), [0, 1], [0], [0, 2], seen, path=path)
