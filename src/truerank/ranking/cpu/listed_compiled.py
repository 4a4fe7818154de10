"""Compiled comparison of targets with listed items; imported on first use because it imports numba.

Float32 scores are computed as four dot products at a time, which share the loads of the user's vector and one
reduction at the end, while the vectors of later items are prefetched. The code is vector IR that any target
can lower. The order of its sums is its own: the rounding bound of ``counts`` holds for any order.

The float64 sum of a pair runs in the order of its coordinates, one addition waiting for the other. Four pairs
side by side hide that latency; each has the bits it would have alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from truerank.core.jit import compiled, inlined
from truerank.ranking.cpu.exact_compiled import score_pair

LANES = 16
ROWS = 4

_FLOAT, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_FLOATS, _FLAGS = ir.VectorType(_FLOAT, LANES), ir.VectorType(ir.IntType(1), LANES)


def _typed_dots(
    typing_context: Any, user: Any, first: Any, second: Any, third: Any, fourth: Any, width: Any, out: Any
) -> Any:
    """Write user . first, ..., user . fourth to ``out``; all are addresses of float32 but for the width."""
    return types.void(*[types.uint64] * 7), _emit


write_dots: Any = intrinsic(_typed_dots)


def _emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    user, *rows, width, out = args
    pointers = [builder.inttoptr(address, _FLOAT.as_pointer()) for address in (user, *rows)]
    zeros = [ir.Constant(_FLOATS, [0.0] * LANES)] * ROWS
    rest = builder.urem(width, _I64(LANES))
    sums = _whole_vectors(builder, pointers, builder.sub(width, rest), zeros)
    before = builder.block
    with builder.if_then(builder.icmp_unsigned("!=", rest, _I64(0))):
        added = _last_vector(builder, pointers, builder.sub(width, rest), rest, sums)
        inside = builder.block
    totals = []
    for old, new in zip(sums, added, strict=True):
        total = builder.phi(_FLOATS)
        total.add_incoming(old, before)
        total.add_incoming(new, inside)
        totals.append(total)
    target = builder.inttoptr(out, ir.VectorType(_FLOAT, ROWS).as_pointer())
    builder.store(_reduced(builder, totals), target, align=4)
    return context.get_dummy_value()


def _whole_vectors(b: Any, pointers: list[Any], stop: Any, zeros: list[Any]) -> list[Any]:
    """Add up the products of the coordinates below ``stop``, a multiple of the lanes."""
    entry = b.block
    head, body, done = (b.append_basic_block(name) for name in ("dots.head", "dots.body", "dots.done"))
    b.branch(head)
    b.position_at_end(head)
    at = b.phi(_I64)
    at.add_incoming(_I64(0), entry)
    sums = [b.phi(_FLOATS) for _ in zeros]
    b.cbranch(b.icmp_unsigned("<", at, stop), body, done)
    b.position_at_end(body)
    loaded = [b.load(b.bitcast(b.gep(pointer, [at]), _FLOATS.as_pointer()), align=4) for pointer in pointers]
    for total, zero, row in zip(sums, zeros, loaded[1:], strict=True):
        total.add_incoming(zero, entry)
        total.add_incoming(_multiply_add(b, loaded[0], row, total), body)
    at.add_incoming(b.add(at, _I64(LANES)), body)
    b.branch(head)
    b.position_at_end(done)
    return sums


def _last_vector(b: Any, pointers: list[Any], at: Any, rest: Any, sums: list[Any]) -> list[Any]:
    """Add the products of the last ``rest`` coordinates; nothing is read beyond them."""
    numbers = ir.Constant(ir.VectorType(_I64, LANES), list(range(LANES)))
    nothing = ir.Constant(ir.VectorType(_I64, LANES), ir.Undefined)
    first = b.insert_element(nothing, rest, _I32(0))
    limit = b.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))
    mask = b.icmp_unsigned("<", numbers, limit)
    kind = ir.FunctionType(_FLOATS, [_FLOATS.as_pointer(), _I32, _FLAGS, _FLOATS])
    load = _declared(b.module, f"llvm.masked.load.v{LANES}f32.p0", kind)
    loaded = [
        b.call(
            load,
            [
                b.bitcast(b.gep(pointer, [at]), _FLOATS.as_pointer()),
                _I32(4),
                mask,
                ir.Constant(_FLOATS, [0.0] * LANES),
            ],
        )
        for pointer in pointers
    ]
    return [_multiply_add(b, loaded[0], row, total) for total, row in zip(sums, loaded[1:], strict=True)]


def _multiply_add(b: Any, left: Any, right: Any, total: Any) -> Any:
    kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
    return b.call(_declared(b.module, f"llvm.fmuladd.v{LANES}f32", kind), [left, right, total])


def _reduced(b: Any, totals: list[Any]) -> Any:
    """Return the sums over the lanes of the four vectors as one vector."""
    quarters = [_folded(b, _folded(b, total, 8), 4) for total in totals]
    first, second = (
        b.fadd(_chosen(b, left, right, [0, 4, 2, 6]), _chosen(b, left, right, [1, 5, 3, 7]))
        for left, right in (quarters[:2], quarters[2:])
    )
    return b.fadd(_chosen(b, first, second, [0, 1, 4, 5]), _chosen(b, first, second, [2, 3, 6, 7]))


def _folded(b: Any, vector: Any, half: int) -> Any:
    low = _chosen(b, vector, vector, list(range(half)))
    return b.fadd(low, _chosen(b, vector, vector, list(range(half, 2 * half))))


def _chosen(b: Any, left: Any, right: Any, lanes: list[int]) -> Any:
    return b.shuffle_vector(left, right, ir.Constant(ir.VectorType(_I32, len(lanes)), lanes))


def _declared(module: Any, name: str, kind: Any) -> Any:
    return module.globals.get(name) or ir.Function(module, kind, name)


LINE = np.uint64(64)


def _typed_prefetch(typing_context: Any, address: Any) -> Any:
    """Prefetch the line at an address for reading; a hint that can never fail."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        read, keep, data = word(0), word(3), word(1)
        builder.call(function, [builder.inttoptr(arguments[0], pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.uint64), generate


prefetch: Any = intrinsic(_typed_prefetch)


@inlined
def prefetch_vector(base: Any, stride: Any, item: Any) -> None:
    """Prefetch all lines of one item's vector; the first five, enough for 64 factors, without a loop."""
    address = base + np.uint64(item) * stride
    last = stride - np.uint64(1)
    prefetch(address)
    prefetch(address + min(LINE, last))
    prefetch(address + min(np.uint64(2) * LINE, last))
    prefetch(address + min(np.uint64(3) * LINE, last))
    prefetch(address + min(np.uint64(4) * LINE, last))
    offset = np.uint64(5) * LINE
    while offset < stride + LINE:
        prefetch(address + min(offset, last))
        offset += LINE


@inlined
def fetch_entry(array: Any, place: Any) -> None:
    """Prefetch one entry of a flat array; an index beyond its end does no harm."""
    prefetch(np.uint64(array.ctypes.data) + np.uint64(array.itemsize * place))


Array = Any

# How many item vectors, and rows, ahead of their use are prefetched.
AHEAD = 24
ROWS_AHEAD = 16


@inlined
def score_listed(
    users: Array, user: int, items: Array, listed: Array, first: int, last: int, out: Array
) -> None:
    """Write the float32 scores of listed[first:last], and up to three more numbers behind them.

    Vectors are prefetched some items ahead, beyond ``last`` too: those of the next row.
    """
    base, width = np.uint64(items.ctypes.data), np.uint64(items.shape[1])
    stride, end = np.uint64(4) * width, listed.shape[0] - 1
    user_address = np.uint64(users.ctypes.data) + np.uint64(user) * stride
    out_address = np.uint64(out.ctypes.data)
    for at in range(first, last, ROWS):
        write_dots(
            user_address,
            base + np.uint64(listed[at]) * stride,
            base + np.uint64(listed[min(at + 1, last - 1)]) * stride,
            base + np.uint64(listed[min(at + 2, last - 1)]) * stride,
            base + np.uint64(listed[min(at + 3, last - 1)]) * stride,
            width,
            out_address + np.uint64(4 * (at - first)),
        )
        for ahead in range(at + AHEAD, at + AHEAD + ROWS):
            prefetch_vector(base, stride, listed[min(ahead, end)])


@compiled
def count_scores(scores: Array, n: int, low: Any, high: Any) -> tuple[int, int]:
    """Return how many of the first n scores exceed ``high``, and how many are at least ``low``."""
    above, reached = 0, 0
    for at in range(n):
        above += scores[at] > high
        reached += scores[at] >= low
    return above, reached


@compiled
def scan_listed(
    start: int,
    stop: int,
    owner: Array,
    pairs: Array,
    indptr: Array,
    listed: Array,
    users: Array,
    items: Array,
    low: Array,
    high: Array,
    scores: Array,
    n_above: Array,
    n_near: Array,
) -> None:
    """Count, for every target of the rows, the listed items that float32 finds above it or cannot decide.

    Row r of the block lists ``listed[indptr[r - start]:indptr[r - start + 1]]``; ``low`` and ``high`` enclose
    the float32 scores that could tie with the target of a pair (see ``counts``).
    """
    base, stride = np.uint64(users.ctypes.data), np.uint64(4 * users.shape[1])
    for row in range(start, stop):
        prefetch_vector(base, stride, owner[min(row + 1, stop - 1)])
        for array in (owner, pairs):
            fetch_entry(array, row + ROWS_AHEAD)
        fetch_entry(indptr, row - start + ROWS_AHEAD)
        for array in (low, high):
            fetch_entry(array, pairs[row] + ROWS_AHEAD)
        first, last = indptr[row - start], indptr[row - start + 1]
        score_listed(users, owner[row], items, listed, first, last, scores)
        for pair in range(pairs[row], pairs[row + 1]):
            above, reached = count_scores(scores, last - first, low[pair], high[pair])
            n_above[pair - pairs[start]] = above
            n_near[pair - pairs[start]] = reached - above


@compiled
def decide_pair(
    users: Array,
    user: int,
    items: Array,
    bias: Array,
    user_norms: Array,
    item_norms: Array,
    listed: Array,
    first: int,
    last: int,
    scores: Array,
    low: Any,
    high: Any,
    target_score: Any,
) -> tuple[int, int]:
    """Return how many of listed[first:last] are above and tied by float64, where float32 cannot tell.

    A user without a vector, where no item has a bias, scores everything 0: all tie, none is above.
    """
    if user_norms[user] == 0.0 and bias.shape[0] == 0:
        return 0, last - first
    above, tied = 0, 0
    for at in range(last - first):
        if scores[at] >= low and not scores[at] > high:
            item = listed[first + at]
            score = 0.0
            if item_norms[item] != 0.0 and user_norms[user] != 0.0:
                score = score_pair(users, user, items, item, bias)
            above += score > target_score
            tied += score == target_score
    return above, tied


@compiled
def decide_near_listed(
    start: int,
    stop: int,
    owner: Array,
    pairs: Array,
    indptr: Array,
    listed: Array,
    fast_users: Array,
    fast_items: Array,
    users: Array,
    items: Array,
    bias: Array,
    user_norms: Array,
    item_norms: Array,
    target_score: Array,
    low: Array,
    high: Array,
    scores: Array,
    n_above: Array,
    n_tied: Array,
) -> None:
    """Decide by the float64 sum what ``scan_listed`` could not: n_tied holds how many these are.

    Few rows have any, unless items tie; their scores are computed again.
    """
    for row in range(start, stop):
        user, first, last = owner[row], indptr[row - start], indptr[row - start + 1]
        is_scored = False
        for pair in range(pairs[row], pairs[row + 1]):
            at_pair = pair - pairs[start]
            if n_tied[at_pair] == 0:
                continue
            if not is_scored and (user_norms[user] != 0.0 or bias.shape[0] > 0):
                score_listed(fast_users, user, fast_items, listed, first, last, scores)
                is_scored = True
            above, n_tied[at_pair] = decide_pair(
                users,
                user,
                items,
                bias,
                user_norms,
                item_norms,
                listed,
                first,
                last,
                scores,
                low[pair],
                high[pair],
                target_score[pair],
            )
            n_above[at_pair] += above


TARGET_LANES = 4
TARGETS_AHEAD = 16


@compiled
def score_listed_pairs(
    users: Array, items: Array, bias: Array, rows: Array, codes: Array, out: Array
) -> None:
    """Write the scores of the pairs (rows[p], codes[p]) (see ``ranking.cpu.counts``)."""
    base, stride = np.uint64(items.ctypes.data), np.uint64(items.itemsize * items.shape[1])
    last = rows.shape[0] - 1
    for first in range(0, rows.shape[0], TARGET_LANES):
        for ahead in range(first + TARGETS_AHEAD, first + TARGETS_AHEAD + TARGET_LANES):
            prefetch_vector(base, stride, codes[min(ahead, last)])
        p0, p1, p2, p3 = first, min(first + 1, last), min(first + 2, last), min(first + 3, last)
        u0, u1, u2, u3 = rows[p0], rows[p1], rows[p2], rows[p3]
        v0, v1, v2, v3 = codes[p0], codes[p1], codes[p2], codes[p3]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for k in range(users.shape[1]):
            s0 += np.float64(users[u0, k]) * np.float64(items[v0, k])
            s1 += np.float64(users[u1, k]) * np.float64(items[v1, k])
            s2 += np.float64(users[u2, k]) * np.float64(items[v2, k])
            s3 += np.float64(users[u3, k]) * np.float64(items[v3, k])
        out[p3], out[p2], out[p1], out[p0] = s3, s2, s1, s0
    if bias.shape[0] > 0:
        for pair in range(rows.shape[0]):
            out[pair] += bias[codes[pair]]
