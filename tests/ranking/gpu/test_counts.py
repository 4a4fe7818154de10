"""Counts on a device equal the float64 definition, whatever the factors, the lists and the chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.ranking.cpu.problems import (
    KINDS,
    Lists,
    Problem,
    draw_factors,
    draw_lists,
    gaussian_problem,
    problems,
    rows_of,
)
from tests.ranking.gpu.engines import ENGINES, Where
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.ranking.cpu.factors import count_factors
from truerank.ranking.gpu import batches
from truerank.ranking.gpu import device as limit
from truerank.ranking.gpu import torch_blocks as blocks
from truerank.ranking.gpu import triton_count as fused
from truerank.ranking.gpu.exact import DeviceCounter, count_on_device


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small problems go the way of large ones."""
    monkeypatch.setattr(blocks, "WHOLE_WORK", 0)
    monkeypatch.setattr(fused, "WHOLE_WORK", 0)
    monkeypatch.setattr(fused, "FEW_ITEMS", 0)


@pytest.mark.parametrize("where", ENGINES)
def test_small_problems_in_float64_alone(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "WHOLE_WORK", 1 << 40)
    monkeypatch.setattr(fused, "WHOLE_WORK", 1 << 40)

    @settings(max_examples=40, deadline=None)
    @given(problem=problems())
    def check(problem: Problem) -> None:
        counts = count_on_device(*problem.arguments, **where)
        assert rows_of(counts) == problem.literal()
        assert counts.n_recomputed == len(problem.arguments[4]) * len(problem.items)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("where", ENGINES)
def test_equals_the_definition(where: Where) -> None:
    @settings(max_examples=80, deadline=None)
    @given(problem=problems())
    def check(problem: Problem) -> None:
        assert rows_of(count_on_device(*problem.arguments, **where)) == problem.literal()

    check()


@pytest.mark.slow
@pytest.mark.parametrize("where", ENGINES)
@pytest.mark.parametrize("user_kind", KINDS)
@pytest.mark.parametrize("item_kind", KINDS)
def test_every_pair_of_kinds(user_kind: str, item_kind: str, where: Where) -> None:
    draw = np.random.default_rng(3)
    for dtype, has_bias in ((np.float32, False), (np.float64, True)):
        users = draw_factors(draw, (37, 19), user_kind, dtype)
        items = draw_factors(draw, (301, 19), item_kind, dtype)
        bias = draw.standard_normal(301).astype(dtype) if has_bias else None
        problem = Problem(users, items, bias, draw_lists(draw, 37, 301, most_targets=4, seen="some"))
        expected = count_factors(*problem.arguments, path="numpy")
        assert rows_of(count_on_device(*problem.arguments, **where)) == rows_of(expected)


@pytest.mark.skipif(Where(device="cuda", engine="triton") not in ENGINES, reason="needs a GPU and triton")
@pytest.mark.parametrize("share", [0.0, 2.0])
@pytest.mark.parametrize(("open_rows", "near_pairs"), [(100, 1 << 20), (1 << 20, 70), (100, 70)])
def test_lists_in_parts(
    open_rows: int, near_pairs: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More open rows and undecided pairs than a list holds; with share 0 float64 counts such rows."""
    monkeypatch.setattr(fused, "OPEN_BYTES", open_rows * fused.BYTES_PER_OPEN)
    monkeypatch.setattr(fused, "NEAR_BYTES", near_pairs * fused.BYTES_PER_NEAR)
    monkeypatch.setattr(fused, "DENSE_SHARE", share)
    for kind in ("integers", "last bit", "gaussian"):
        draw = np.random.default_rng(6)
        users, items = (draw_factors(draw, (n, 30), kind, np.float32) for n in (600, 900))
        users *= np.float32(1.001)  # not small integers, whose scores leave nothing open
        problem = Problem(users, items, None, draw_lists(draw, 600, 900, most_targets=2, seen="some"))
        expected = count_factors(*problem.arguments, path="numpy")
        assert rows_of(count_on_device(*problem.arguments)) == rows_of(expected)


def hostile_items(draw: Any, kind: str) -> Any:
    """Return items on which float16 products alone would leave much open."""
    items = draw.standard_normal((500, 24)).astype(np.float32)
    if kind == "copies":
        items[100:300] = items[0]
    elif kind == "long":
        items[7] *= 100
    elif kind == "offset":
        items[:, 3] += 100
    elif kind == "ternary":
        items = np.sign(np.rint(0.7 * items))
    else:
        items = np.sign(np.rint(0.7 * items))
        items[:200] = items[0]
    return items


@pytest.mark.parametrize("where", ENGINES)
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("kind", ["copies", "long", "offset", "ternary", "ternary copies"])
def test_hostile_items_leave_little_to_float64(kind: str, has_bias: bool, where: Where) -> None:
    """Copies are counted once, a common vector is taken off, and scores of small integers are exact."""
    draw = np.random.default_rng(12)
    items = hostile_items(draw, kind)
    for users in (draw.standard_normal((60, 24)).astype(np.float32), np.sign(draw.standard_normal((60, 24)))):
        bias = draw.standard_normal(500) + 50 if has_bias else None
        problem = Problem(users, items, bias, draw_lists(draw, 60, 500, most_targets=3, seen="some"))
        counts = count_on_device(*problem.arguments, **where)
        assert rows_of(counts) == rows_of(count_factors(*problem.arguments, path="numpy"))
        is_exact = "ternary" in kind and users.dtype == np.float64 and not has_bias
        assert counts.n_recomputed <= (0 if is_exact else 5 * len(problem.arguments[4]))


@pytest.mark.parametrize("where", ENGINES)
@pytest.mark.parametrize("width", [1, 15, 64, 100, 130, 300])
def test_widths(width: int, where: Where) -> None:
    problem = gaussian_problem(150, 500, width, seed=width)
    assert rows_of(count_on_device(*problem.arguments, **where)) == rows_of(
        count_factors(*problem.arguments, path="numpy")
    )


@pytest.mark.parametrize("where", ENGINES)
def test_chunks_do_not_matter(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items and rows that do not fit at once: the same counts, and every row is reported once."""
    problem = gaussian_problem(50, 200, 12, most_targets=5)
    expected = rows_of(count_factors(*problem.arguments, path="numpy"))
    monkeypatch.setattr(limit, "SEEN_ITEMS", 900)
    monkeypatch.setattr(limit, "ROW_CELLS", 16 * 30)
    for item_cells in (1 << 20, 16 * 70, 16 * 9):
        monkeypatch.setattr(limit, "ITEM_CELLS", item_cells)
        if item_cells == 16 * 9:
            problem = Problem(problem.users[:4], problem.items, None, problem.lists.rows([0, 1, 2, 3]))
            expected = expected[: len(problem.arguments[4])]
        done: list[int] = []
        found = count_on_device(*problem.arguments, **where, on_rows=done.append)
        assert rows_of(found) == expected
        assert sum(done) == len(problem.users)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 3)
    monkeypatch.setattr(blocks, "BLOCK_ITEMS", 7)
    monkeypatch.setattr(blocks, "PAIRS", 5)
    assert rows_of(count_on_device(*problem.arguments, **where)) == expected


@pytest.mark.parametrize("where", ENGINES)
@pytest.mark.parametrize("has_bias", [False, True])
def test_the_order_of_the_first_chunk_serves_all(
    has_bias: bool, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are sorted once; chunks whose items lie elsewhere, or are much shorter, would sort otherwise."""
    problem = gaussian_problem(300, 900, 12, most_targets=3)
    items, bias = problem.items.copy(), np.linspace(-1, 1, 900) if has_bias else None
    items[300:600] += 30 * problem.users[0]
    items[600:] *= np.float32(1e-3)
    problem = Problem(problem.users, items, bias, problem.lists)
    expected = rows_of(count_factors(*problem.arguments, path="numpy"))
    monkeypatch.setattr(limit, "ITEM_CELLS", 16 * 300)
    monkeypatch.setattr(limit, "ROW_CELLS", 16 * 200)
    assert rows_of(count_on_device(*problem.arguments, **where)) == expected
    monkeypatch.setattr(batches, "PINNED_BYTES", 0)  # orders are not kept
    assert rows_of(count_on_device(*problem.arguments, **where)) == expected


@pytest.mark.parametrize("where", ENGINES)
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("most_targets", [1, 3])
def test_seen_items_of_a_chunk(
    most_targets: int, has_bias: bool, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of no item, of few, and of so many that a chunk has several looks at them; read or sent."""
    draw, n_rows, n_items = np.random.default_rng(9), 50, 400
    users, items = (draw_factors(draw, (n, 12), "integers", np.float32) for n in (n_rows, n_items))
    bias = np.rint(draw.standard_normal(n_items)) if has_bias else None
    targets, seen = [], []
    for row in range(n_rows):
        order = draw.permutation(n_items)
        targets.append(order[: 1 + row % most_targets].tolist())
        n_seen = (0, 5, 90, n_items - most_targets)[row % 4]
        seen.append(np.sort(order[most_targets : most_targets + n_seen]).tolist())
    problem = Problem(users, items, bias, Lists(targets, seen))
    expected = rows_of(count_factors(*problem.arguments, path="numpy"))
    monkeypatch.setattr(limit, "ITEM_CELLS", 16 * 150)
    monkeypatch.setattr(limit, "ROW_CELLS", 16 * 30)
    assert rows_of(count_on_device(*problem.arguments, **where)) == expected
    monkeypatch.setattr(fused, "LONGEST_SEEN", n_items - most_targets - 1)
    assert rows_of(count_on_device(*problem.arguments, **where)) == expected


@pytest.mark.parametrize("where", ENGINES)
@pytest.mark.parametrize("before", [[], list(range(20, 80))])
@pytest.mark.parametrize(
    "wrong", [[83, 81], [83, 83], [-1, 83], [250, 100], [100, 250, 250], [85, 250, 100, 280], [300], [90, -4]]
)
def test_wrong_seen_items_are_found_in_any_chunk(
    wrong: list[int], before: list[int], where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(9)
    users, items = (draw.standard_normal((n, 12)).astype(np.float32) for n in (20, 300))
    monkeypatch.setattr(limit, "ITEM_CELLS", 16 * 80)
    lists = Lists([[299]] * 20, [[7, 8, 200]] * 19 + [[*before, *wrong]])
    with pytest.raises(InvalidData, match=r"seen_items must ascend within 0..299 in every row, row 19"):
        count_on_device(users, items, None, *lists.arguments, **where)


@pytest.mark.parametrize("name", sorted({where["device"] for where in ENGINES}))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_arrive_as_they_are(dtype: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through pinned memory piece by piece, some rows alone, and one array while another is worked with."""
    draw, device = np.random.default_rng(8), limit.open_device(name)
    values = draw.standard_normal((1000, 70)).astype(dtype)
    values.flags.writeable = False
    index = draw.integers(0, 1000, 5000)
    monkeypatch.setattr(limit, "STAGED_BYTES", 7000)
    assert (limit.to_host(limit.to_device(values, device)) == values).all()
    assert (limit.to_host(limit.rows_to_device(values, index, device)) == values[index]).all()
    assert (limit.to_host(limit.rows_to_device(values[:, 0].copy(), index, device)) == values[index, 0]).all()
    there = limit.to_device(values, device)
    assert (limit.to_host(limit.rows_to_device(there, index, device)) == values[index]).all()
    assert limit.rows_to_device(values, index[:0], device).shape == (0, 70)
    parts = [values[start : start + 130] for start in range(0, 1000, 130)]
    for most in (0, 1 << 26):
        monkeypatch.setattr(limit, "AHEAD_BYTES", most)
        for part, ready in zip(parts, limit.pinned_ahead(parts, device), strict=True):
            assert (limit.to_host(limit.to_device(ready, device)) == part).all()
    assert limit.is_tensor(ready) == (name == "cuda"), "the last ones come from pinned memory"


@pytest.mark.slow
@pytest.mark.parametrize("where", ENGINES)
def test_within_a_memory_that_holds_neither_side(where: Where) -> None:
    problem = gaussian_problem(300, 3300, 40, most_targets=3)
    counter = DeviceCounter(problem.items, **where, memory=1 << 20)
    assert not counter.is_resident
    assert len(list(counter.chunks())) > 3
    done: list[int] = []
    found = counter.count(problem.users, *problem.lists.arguments, on_rows=done.append)
    assert rows_of(found) == rows_of(count_factors(*problem.arguments, path="numpy"))
    assert len(done) > 1
    assert sum(done) == 300
    with pytest.raises(InvalidParameter, match="memory must be at least 1048576, got 9"):
        count_on_device(*problem.arguments, **where, memory=9)


@pytest.mark.parametrize("where", [where for where in ENGINES if where["engine"] == "triton"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_lists_that_turn_out_too_short_are_made_again(
    is_kept: bool, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little memory nobody waits for the lengths of lists; rows that need longer ones are left out."""
    draw, left = np.random.default_rng(6), []
    users, items = (draw_factors(draw, (n, 30), "gaussian", np.float32) for n in (140, 4000))
    # Every item has a neighbour: more pairs are close than a list holds.
    items[1::2] = np.nextafter(items[::2], np.float32(np.inf))
    problem = Problem(users, items, None, draw_lists(draw, 140, 4000, most_targets=2, seen="some"))
    counted = fused.count_rows

    def spy(*given: Any, starts: Any = None, **options: Any) -> int:
        left.append(starts)
        return counted(*given, starts=starts, **options)

    monkeypatch.setattr(fused, "count_rows", spy)
    monkeypatch.setattr(fused, "LIST_PARTS", (28, 0.1, 0.1))
    monkeypatch.setattr(limit, "KEPT_SHARE", 0.05 if is_kept else 0.0)
    found = count_on_device(*problem.arguments, **where, memory=1 << 20)
    assert rows_of(found) == rows_of(count_factors(*problem.arguments, path="numpy"))
    assert left[0], "the first chunk was counted ahead, and some of it again"
    assert None in left, "what comes after was not counted ahead"


@pytest.mark.skipif(Where(device="cuda", engine="triton") not in ENGINES, reason="needs a GPU and triton")
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("there", ["neither side", "items", "both sides"])
@pytest.mark.parametrize(("dtype", "width"), [(np.float32, 64), (np.float64, 64), (np.float32, 256)])
def test_the_memory_is_kept(dtype: Any, width: int, there: str, has_bias: bool) -> None:
    """Items of 26 to 102 MB, users of 8 to 31 MB, 5 MB of seen items: 16 MB of the GPU are enough."""
    import torch

    draw, memory = np.random.default_rng(7), 16 << 20
    users, items, bias = (
        draw.standard_normal((n, k)).astype(dtype)
        for n, k in ((30_000, width), (100_000, width), (100_000, 1))
    )
    n_seen, number = 40, np.arange(30_001)
    seen = (
        np.sort(draw.integers(0, 100_000 // n_seen, (30_000, 1)), axis=1) * n_seen + np.arange(n_seen)
    ).ravel()
    targets = (seen[::n_seen] + n_seen) % 100_000
    factors: list[Any] = [users, items, bias[:, 0] if has_bias else None]
    for side in {"neither side": (), "items": (1, 2), "both sides": (0, 1, 2)}[there]:
        factors[side] = None if factors[side] is None else torch.from_numpy(factors[side]).cuda()
    arguments = (*factors, number, targets, number * n_seen, seen.astype(np.int32))
    usual = count_on_device(*arguments)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    few = count_on_device(*arguments, memory=memory)
    assert torch.cuda.max_memory_allocated() - before <= memory
    assert rows_of(few) == rows_of(usual)


@pytest.mark.parametrize("where", ENGINES)
def test_near_ties_and_copies(where: Where) -> None:
    """Items that differ from the target by one last bit in one coordinate, and copies of the target."""
    draw = np.random.default_rng(5)
    users = draw.standard_normal((40, 64)).astype(np.float32)
    base = draw.standard_normal(64).astype(np.float32)
    items = np.repeat(base[None], 300, axis=0)
    moved = draw.integers(0, 64, 200)
    items[np.arange(200), moved] = np.nextafter(
        items[np.arange(200), moved], np.float32(np.inf) * draw.choice([-1, 1], 200).astype(np.float32)
    )
    lists = Lists([[250]] * 40, [[]] * 40)
    problem = Problem(users, items, None, lists)
    counts = count_on_device(*problem.arguments, **where)
    assert rows_of(counts) == rows_of(count_factors(*problem.arguments, path="numpy"))
    assert counts.n_tied.min() >= 99
    assert counts.n_recomputed <= 128 * 102  # rows are filled up, copies counted once


@pytest.mark.parametrize("where", ENGINES)
def test_zero_rows_and_zero_items(where: Where) -> None:
    """Users and items a model has not seen tie without a score being computed."""
    users, items = np.zeros((3, 4), np.float32), np.zeros((50, 4), np.float32)
    users[1], items[:20] = 1.0, np.arange(-9.5, 10.5)[:, None]
    lists = Lists([[30], [30], [3]], [[1, 31], [0, 19, 40], []])
    problem = Problem(users, items, None, lists)
    counts = count_on_device(*problem.arguments, **where)
    assert counts.n_above.tolist() == [0, 9, 0]
    assert counts.n_tied.tolist() == [47, 28, 49]
    assert counts.n_recomputed < 50


def test_batches_share_the_items() -> None:
    problem = gaussian_problem()
    counter = DeviceCounter(problem.items, device="cpu")
    whole = rows_of(count_factors(*problem.arguments, path="numpy"))
    parts = []
    for rows in (range(30), range(30, 70)):
        mine = problem.lists.rows(list(rows))
        parts += rows_of(counter.count(problem.users[rows.start : rows.stop], *mine.arguments))
    assert parts == whole


def test_tensors_are_taken_as_they_are() -> None:
    import torch

    problem, lists = gaussian_problem(), gaussian_problem().lists.arguments
    users, items = torch.from_numpy(problem.users), torch.from_numpy(problem.items)
    found = count_on_device(users, items, None, *lists, device="cpu")
    assert rows_of(found) == rows_of(count_factors(*problem.arguments, path="numpy"))
    found = count_on_device(users.half(), items.half(), None, *lists, device="cpu")
    rounded = (part.astype(np.float16).astype(np.float32) for part in (problem.users, problem.items))
    assert rows_of(found) == rows_of(count_factors(next(rounded), next(rounded), None, *lists, path="numpy"))


def test_few_items_need_a_score_where_targets_stand_out() -> None:
    """Norms that fall off: most items are decided by Cauchy's inequality alone."""
    draw = np.random.default_rng(2)
    items = (draw.standard_normal((4000, 16)) / (1 + np.arange(4000)[:, None] / 40)).astype(np.float32)
    users = items[:60] + 0.1 * draw.standard_normal((60, 16)).astype(np.float32)
    problem = Problem(users, items, None, Lists([[row] for row in range(60)], [[]] * 60))
    counter = DeviceCounter(items, device="cpu")
    needed: list[int] = []
    whole = blocks.count_rows

    def spy(rows: Any, *rest: Any, **options: Any) -> int:
        needed.extend(rows.n_needed.tolist())
        return whole(rows, *rest, **options)

    counter.engine = type("Spy", (), {**vars(blocks), "count_rows": staticmethod(spy)})  # type: ignore[assignment]
    found = counter.count(users, *problem.lists.arguments)
    assert rows_of(found) == rows_of(count_factors(*problem.arguments, path="numpy"))
    assert np.mean(needed) < 400


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"users": np.full((1, 2), np.nan)}, "user factors must be finite, row 0"),
        ({"items": np.full((3, 2), np.inf)}, "item factors must be finite, row 0"),
        ({"bias": np.array([0.0, np.nan, 0.0])}, "item bias factors must be finite, row 1"),
        ({"bias": np.zeros(2)}, "item_bias must have one entry per item, 3"),
        ({"users": np.zeros((2, 2))}, r"user factors must have shape \(1, 2\)"),
        ({"users": np.zeros(2)}, "user factors must be a matrix of numbers"),
        ({"users": np.full((1, 2), 1e300), "items": np.full((3, 2), 1e300)}, "scores far below the largest"),
        ({"seen": ([0, 2], [2, 1])}, "seen_items must ascend within 0..2 in every row, row 0"),
        ({"seen": ([0, 1], [3])}, "seen_items must ascend"),
        ({"seen": ([0, 1], [0.5])}, "seen_items must be a list of integers"),
        ({"targets": ([0, 1], [5])}, "target_items must lie in 0..2, got 5"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    given = {
        "users": np.ones((1, 2)),
        "items": np.ones((3, 2)),
        "bias": None,
        "targets": ([0, 1], [0]),
        "seen": ([0, 0], []),
        **change,
    }
    with pytest.raises(InvalidData, match=message):
        count_on_device(
            given["users"], given["items"], given["bias"], *given["targets"], *given["seen"], device="cpu"
        )
