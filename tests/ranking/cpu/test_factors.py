"""The factor kernel counts exactly what the float64 definition counts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ranking.cpu.problems import (
    KINDS,
    Problem,
    draw_factors,
    draw_lists,
    gaussian_problem,
    problems,
    rows_of,
)
from truerank.core.errors import InvalidData
from truerank.ranking.cpu import factor_job
from truerank.ranking.cpu import factor_job as lanes
from truerank.ranking.cpu.counts import MOST_COORDINATES
from truerank.ranking.cpu.factor_job import TARGETS_PER_LANE, Scratch, panels_per_block
from truerank.ranking.cpu.factors import FactorCounter, count_factors


@settings(max_examples=120, deadline=None)
@given(problem=problems())
def test_both_paths_equal_the_definition(problem: Problem) -> None:
    """Whatever the shape, magnitude, dtype, bias, ties, targets and seen items."""
    literal = problem.literal()
    assert rows_of(count_factors(*problem.arguments, path="numpy")) == literal
    assert rows_of(count_factors(*problem.arguments, path="compiled")) == literal


@pytest.mark.parametrize("user_kind", KINDS)
@pytest.mark.parametrize("item_kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_pair_of_kinds(user_kind: str, item_kind: str, dtype: type) -> None:
    """More items than a tile, more rows than a panel, and every kind of factor against every other."""
    draw = np.random.default_rng(3)
    users = draw_factors(draw, (37, 19), user_kind, dtype)
    items = draw_factors(draw, (701, 19), item_kind, dtype)
    chosen = draw_lists(draw, 37, 701, most_targets=4, seen="some")
    problem = Problem(users, items, None, chosen)
    compiled = count_factors(*problem.arguments, path="compiled")
    assert rows_of(compiled) == rows_of(count_factors(*problem.arguments, path="numpy"))


@settings(max_examples=25, deadline=None)
@given(problem=problems(), n_threads=st.integers(1, 3), seed=st.integers(0, 99))
def test_order_batch_and_threads_do_not_matter(problem: Problem, n_threads: int, seed: int) -> None:
    """Permuted items, permuted rows, one row at a time, several threads: the same counts."""
    counts = rows_of(count_factors(*problem.arguments, path="compiled"))
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(problem.items))
    bias = None if problem.bias is None else problem.bias[order]
    moved = Problem(problem.users, problem.items[order], bias, problem.lists.moved(order))
    assert rows_of(count_factors(*moved.arguments, path="compiled", n_threads=n_threads)) == counts

    counter, start = FactorCounter(problem.items, problem.bias), 0
    for row in range(len(problem.users)):
        stop = start + len(problem.lists.targets[row])
        alone = problem.lists.rows([row]).arguments
        assert (
            rows_of(counter.count(problem.users[row : row + 1], *alone, path="compiled"))
            == counts[start:stop]
        )
        start = stop


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("user_bytes", "item_bytes", "work"), [(1, 1, 1), (8000, 9000, 1), (1, 1 << 17, 1 << 31)]
)
def test_block_sizes_do_not_matter(
    n_threads: int, user_bytes: int, item_bytes: int, work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One panel, one tile and one call at a time, or all of them at once."""
    problem = gaussian_problem(most_targets=40)
    whole = rows_of(count_factors(*problem.arguments, path="numpy"))
    monkeypatch.setattr(lanes, "USER_BYTES", user_bytes)
    monkeypatch.setattr(lanes, "ITEM_BYTES", item_bytes)
    monkeypatch.setattr(factor_job, "CALL_WORK", work)
    assert rows_of(count_factors(*problem.arguments, path="compiled", n_threads=n_threads)) == whole


def test_hand_made() -> None:
    """Scores 3, 2, 2, 9, 1 for u = 1: of the targets 1 and 4, item 3 is seen, 0 is above, 2 is tied."""
    users, items = np.ones((1, 1), np.float32), np.array([[3], [2], [2], [9], [1]], np.float32)
    for path in ("numpy", "compiled"):
        counts = count_factors(users, items, None, [0, 2], [1, 4], [0, 1], [3], path=path)
        assert rows_of(counts) == [(1, 1, 0, 0), (3, 0, 1, 0)]


def test_users_without_a_vector_tie_with_everything() -> None:
    """A row of zeros costs no float64 work: 6 items, 2 seen, 1 other target leave 2 + 1 ties."""
    users, items = np.zeros((20, 3), np.float32), np.ones((6, 3), np.float32)
    one = ([0, 2], [1, 4], [0, 2], [0, 5])
    many = [np.concatenate([part[0] * np.arange(21), []]).astype(int) for part in (([2],), ([2],))]
    counts = count_factors(
        users, items, None, many[0], np.tile(one[1], 20), many[1], np.tile(one[3], 20), path="compiled"
    )
    assert rows_of(counts) == [(0, 3, 0, 1)] * 40
    assert counts.n_recomputed == 0


def test_close_calls_are_few() -> None:
    """The float64 path decides a handful of pairs, not all of them."""
    draw = np.random.default_rng(0)
    users, items = (draw.standard_normal((n, 64), dtype=np.float32) for n in (200, 5000))
    zeros = np.zeros(201, dtype=int)
    counts = count_factors(users, items, None, np.arange(201), np.arange(200), zeros, [], path="compiled")
    assert 0 < counts.n_recomputed < 2 * 200


def test_float32_scores_cannot_do_this() -> None:
    """Negative control: matrix product and einsum in float32 disagree on ranks, and with the definition."""
    draw = np.random.default_rng(1)
    users = draw.standard_normal((50, 64), dtype=np.float32)
    items = draw_factors(draw, (400, 64), "last bit", np.float32)
    targets, zeros = draw.integers(0, 400, 50), np.zeros(51, dtype=int)
    exact = count_factors(users, items, None, np.arange(51), targets, zeros, [], path="compiled")

    def n_above(scores: Any) -> Any:
        return (scores > scores[np.arange(50), targets][:, None]).sum(axis=1)

    product, sums = n_above(users @ items.T), n_above(np.einsum("ud,id->ui", users, items))
    assert (product != sums).any()
    assert (product != exact.n_above).any()
    assert (sums != exact.n_above).any()


def test_progress_is_reported_in_the_calling_thread() -> None:
    problem = gaussian_problem()
    for path in ("numpy", "compiled"):
        for n_threads in (1, 2):
            seen: list[int] = []
            count_factors(*problem.arguments, path=path, n_threads=n_threads, on_rows=seen.append)
            assert sum(seen) == len(problem.users)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_interrupt_stops_the_work(n_threads: int) -> None:
    def interrupt(rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        count_factors(*gaussian_problem().arguments, path="compiled", n_threads=n_threads, on_rows=interrupt)


@pytest.mark.parametrize("width", [1, 3, 64, 500, MOST_COORDINATES + 1])
@pytest.mark.parametrize("n_targets", [1, TARGETS_PER_LANE])
def test_a_thread_holds_less_than_a_megabyte(width: int, n_targets: int) -> None:
    n_panels = panels_per_block(10**7, n_coordinates=width, n_targets=n_targets, n_threads=2)
    scratch = Scratch.allocate(n_coordinates=width, n_targets=n_targets, n_panels=n_panels)
    assert scratch.nbytes < 1 << 20


def test_very_wide_factors_take_the_plain_path() -> None:
    draw = np.random.default_rng(0)
    users, items = (draw.standard_normal((n, MOST_COORDINATES + 1)) for n in (2, 9))
    arguments: tuple[Any, ...] = (users, items, None, [0, 1, 2], [0, 1], [0, 0, 0], [])
    assert rows_of(count_factors(*arguments, path="compiled")) == rows_of(
        count_factors(*arguments, path="numpy")
    )


def broken(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    arguments = {
        "user_factors": np.ones((2, 2), np.float32),
        "item_factors": np.ones((4, 2), np.float32),
        "item_bias": None,
        "target_indptr": [0, 1, 2],
        "target_items": [0, 1],
        "seen_indptr": [0, 1, 2],
        "seen_items": [1, 2],
    }
    change(arguments)
    return arguments


BAD: list[tuple[dict[str, Any], str]] = [
    ({"user_factors": np.array([[1, 2], [np.nan, 1]], np.float32)}, "user factors must be finite, row 1"),
    ({"item_factors": np.full((4, 2), np.inf)}, "item factors must be finite, row 0"),
    ({"item_bias": np.array([0, 0, np.nan, 0])}, "item bias factors must be finite, row 2"),
    ({"item_bias": np.zeros(3)}, "item_bias must have one entry per item, 4"),
    ({"user_factors": np.ones((2, 3))}, r"user factors must have shape \(2, 2\)"),
    ({"user_factors": np.ones(2)}, "user factors must be a matrix"),
    ({"target_items": [0, 4]}, r"target_items must lie in 0..3, got 4"),
    ({"target_items": [0.0, 1.0]}, "target_items must be a list of integers"),
    ({"target_indptr": [0, 2, 2]}, "every row must have a target, row 1 has none"),
    ({"target_indptr": [0, 1, 3]}, "target_indptr must rise from 0 to the 2 entries"),
    ({"seen_indptr": [0, 2]}, "must describe the same rows, got 1 and 2"),
    ({"seen_items": [1, 4]}, r"seen_items must ascend within 0..3 in every row, row 1 does not"),
    ({"seen_items": [-1, 2]}, r"seen_items must ascend within 0..3 in every row, row 0 does not"),
    ({"seen_indptr": [0, 0, 2], "seen_items": [2, 1]}, "row 1 does not"),
    (
        {"user_factors": np.full((2, 2), 1e200), "item_factors": np.full((4, 2), 1e200)},
        "Divide them by a constant",
    ),
]


@pytest.mark.parametrize("path", ["numpy", "compiled"])
@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_refused(change: dict[str, Any], message: str, path: str) -> None:
    with pytest.raises(InvalidData, match=message):
        count_factors(**broken(lambda arguments: arguments.update(change)), path=path)  # type: ignore[arg-type]


CHECK_ON_ANOTHER_HOST = """
from tests.ranking.cpu.problems import gaussian_problem, rows_of
from truerank.ranking.cpu import vectors
from truerank.ranking.cpu.factors import count_factors
problem = gaussian_problem(most_targets=20)
for users, items in ((problem.users, problem.items), (problem.users.round(), problem.items.round())):
    arguments = (users, items, None, *problem.lists.arguments)
    expected = rows_of(count_factors(*arguments, path="numpy"))
    assert rows_of(count_factors(*arguments, path="compiled")) == expected
print(vectors.LANES, vectors.ITEMS, vectors.HAS_FMA, vectors.HAS_BITS)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpu", "features", "expected"),
    [
        ("x86-64", "+sse2", "16 6 False False"),
        ("haswell", "+avx2,+fma", "16 6 True False"),
        ("knl", "+avx2,+fma,+avx512f", "32 12 True False"),
        ("skylake-avx512", "+avx2,+fma,+avx512f,+avx512bw,+avx512dq,+avx512vl", "32 12 True False"),
    ],
)
def test_other_hosts_count_the_same(cpu: str, features: str, expected: str, tmp_path: Path) -> None:
    """The same IR compiled for x86-64 without FMA, with AVX2 only, and with fewer parts of AVX-512."""
    from truerank.ranking.cpu.vectors import FEATURES, TRIPLE

    if not TRIPLE.startswith("x86_64"):
        pytest.skip("needs an x86-64 host")
    if missing := set(features.split(",")) - set(FEATURES.split(",")):
        pytest.skip(f"needs a host with {', '.join(sorted(missing))}")
    run = subprocess.run(
        [sys.executable, "-c", CHECK_ON_ANOTHER_HOST],
        env={
            **os.environ,
            "NUMBA_CPU_NAME": cpu,
            "NUMBA_CPU_FEATURES": features,
            "NUMBA_CACHE_DIR": str(tmp_path),
        },
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout.strip(), run.stderr) == (expected, "")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 2.0**-7, 2.0**90])
def test_small_integers_tie_in_float32(dtype: Any, scale: float) -> None:
    """Scores of multiples of a power of two are exact, so that no float64 sum is needed for their ties."""
    draw = np.random.default_rng(4)
    users, items = (np.rint(draw.standard_normal((n, 30))).astype(dtype) for n in (40, 300))
    users[:3] = 0
    lists = draw_lists(draw, 40, 300, most_targets=3, seen="some")
    problem = Problem(users, items * dtype(scale), None, lists)
    counts = count_factors(*problem.arguments, path="compiled")
    assert rows_of(counts) == rows_of(count_factors(*problem.arguments, path="numpy"))
    assert counts.n_recomputed == 0
    problem = Problem(users, (items + dtype(0.1)) * dtype(scale), None, lists)
    counts = count_factors(*problem.arguments, path="compiled")
    assert rows_of(counts) == rows_of(count_factors(*problem.arguments, path="numpy"))


@pytest.mark.parametrize("largest", [1, 20, 200, 3000])
def test_integers_of_every_size_tie(largest: int) -> None:
    """Scores that are words, that are too large for words, and that float32 rounds."""
    draw = np.random.default_rng(6)
    users, items = (draw.integers(-largest, largest + 1, (n, 12)).astype(np.float32) for n in (40, 900))
    items[::3] = items[1]
    problem = Problem(users, items, None, draw_lists(draw, 40, 900, most_targets=5, seen="some"))
    counts = count_factors(*problem.arguments, path="compiled")
    assert rows_of(counts) == rows_of(count_factors(*problem.arguments, path="numpy"))
    assert counts.n_recomputed == 0 or largest == 3000


@pytest.mark.parametrize("most_targets", [1, 30])
@pytest.mark.parametrize("kind", ["one long", "long tail", "offset", "copies", "zeros", "close"])
def test_hostile_items_are_few_close_calls(kind: str, most_targets: int) -> None:
    """Long items, an offset and mass ties send few pairs to float64; scores within 1e-4, a part of them."""
    draw = np.random.default_rng(7)
    users, items = (draw.standard_normal((n, 24)).astype(np.float32) for n in (60, 2000))
    if kind == "one long":
        items[5] *= 1000
    elif kind == "long tail":
        items *= np.exp(2 * draw.standard_normal((2000, 1))).astype(np.float32)
    elif kind == "offset":
        items[:, 0] += 100
    elif kind == "copies":
        items[draw.random(2000) < 0.4] = items[3]
        items[draw.random(2000) < 0.2] = -items[3]
    elif kind == "zeros":
        items[draw.random(2000) < 0.4] = 0
    else:
        items[1:] = items[0] + np.float32(1e-4) * items[1:]
    lists = draw_lists(draw, 60, 2000, most_targets=most_targets, seen="some")
    problem = Problem(users, items, None, lists)
    counts = count_factors(*problem.arguments, path="compiled")
    assert rows_of(counts) == rows_of(count_factors(*problem.arguments, path="numpy"))
    assert counts.n_recomputed < (100 if kind == "close" else 1) * len(counts.n_above)


@pytest.mark.parametrize("width", [30, 31])
@pytest.mark.parametrize("has_bias", [False, True])
def test_copies_of_a_target_need_no_score(width: int, has_bias: bool) -> None:
    draw = np.random.default_rng(5)
    users, items = (draw.standard_normal((n, width)).astype(np.float32) for n in (40, 300))
    items[20:150] = items[0]
    bias = np.zeros(300) if has_bias else None
    lists = draw_lists(draw, 40, 300, most_targets=2, seen="some")
    problem = Problem(users, items, bias, lists)
    counts = count_factors(*problem.arguments, path="compiled")
    assert rows_of(counts) == rows_of(count_factors(*problem.arguments, path="numpy"))
    assert counts.n_tied.max() > 20
    assert counts.n_recomputed < 40
