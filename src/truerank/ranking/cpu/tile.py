"""The register tile: score 16 users against a few items and count, without storing a score.

Sixteen users lie side by side in a vector, items are broadcast one coordinate at a time, so the item
matrix is read as it is, and thresholds and counters are vectors as well. The code is vector IR that any
target can lower; only the number of items per tile is chosen for the host, by its registers.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

LANES = 16
UNROLL = 4


def host_features() -> tuple[str, str]:
    """Return the triple and the features numba compiles for; they are part of its cache key."""
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return str(triple), str(features)


def _items_per_tile() -> int:
    # One accumulator per item: a 16-float register with AVX-512, two of eight floats with AVX2,
    # four of four floats with NEON. 14 and 6 were the fastest of those that fit the register file.
    return 14 if HAS_MASKS else 6


def _has_fma(triple: str, features: str) -> bool:
    return "+fma," in features + "," or triple.startswith(("aarch64", "arm64"))


TRIPLE, FEATURES = host_features()
HAS_MASKS = "+avx512f" in FEATURES
ITEMS = _items_per_tile()
HAS_FMA = _has_fma(TRIPLE, FEATURES)

_FLOAT, _I1, _I16, _I32, _I64 = ir.FloatType(), ir.IntType(1), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_FLOATS, _INTS, _FLAGS = (ir.VectorType(t, LANES) for t in (_FLOAT, _I32, _I1))


def _typed_tile(
    typing_context: Any,
    users: Any,
    items: Any,
    item_stride: Any,
    width: Any,
    pool: Any,
    low: Any,
    high: Any,
    spread: Any,
    weight: Any,
    n_targets: Any,
    n_above: Any,
    n_tied: Any,
    near: Any,
) -> Any:
    """Count one tile; all arguments are int64, the first and the arrays are addresses.

    Parameters
    ----------
    users : float32 [width][LANES], width a multiple of UNROLL
    items : float32, ITEMS rows that lie item_stride floats apart; what is read beyond a row's end must be
        finite and meets zeros in ``users``
    pool : uint16 [ITEMS], bit u set when the item competes for user u
    low, high : float32 [n_targets][LANES], ascending in the first axis
    spread, weight : float32 [LANES] and [1]; a score above high + spread weight is above the target, one
        below low - spread weight is not, one between them is near
    n_above : int32 [n_targets][LANES], added to
    n_tied : 0, or int32 [n_targets][LANES], to which near scores are added instead of being written to near
    near : uint16 [n_targets][ITEMS], written for the targets whose bit is set in the result

    Returns
    -------
    int64, bit t set when some score is near target t
    """
    return types.int64(*[types.int64] * 13), _emit


count_tile: Any = intrinsic(_typed_tile)


def _emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    users, items, stride, width, pool, low, high, spread, weight, n_targets, n_above, n_tied, near = args
    scores = _scores(
        builder, _pointer(builder, users, _FLOAT), _pointer(builder, items, _FLOAT), stride, width
    )
    scores = _without_excluded(builder, _pointer(builder, pool, _I16), scores)
    spread = _load(builder, _pointer(builder, spread, _FLOAT), _int(0), _FLOATS)
    margin = builder.fmul(spread, _broadcast(builder, _pointer(builder, weight, _FLOAT), _int(0)))
    return _counted(
        builder,
        scores,
        margin,
        _pointer(builder, low, _FLOAT),
        _pointer(builder, high, _FLOAT),
        n_targets,
        _pointer(builder, n_above, _I32),
        n_tied,
        _pointer(builder, near, _I16),
    )


def _pointer(b: Any, address: Any, element: Any) -> Any:
    return b.inttoptr(address, element.as_pointer())


def _int(value: int) -> Any:
    return ir.Constant(_I64, value)


def _all(vector: Any, value: float) -> Any:
    return ir.Constant(vector, [value] * LANES)


def _load(b: Any, pointer: Any, offset: Any, vector: Any) -> Any:
    return b.load(b.bitcast(b.gep(pointer, [offset]), vector.as_pointer()), align=4)


def _broadcast(b: Any, pointer: Any, offset: Any) -> Any:
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    first = b.insert_element(nothing, b.load(b.gep(pointer, [offset])), ir.Constant(_I32, 0))
    return b.shuffle_vector(first, nothing, _all(_INTS, 0))


def _multiply_add(b: Any, left: Any, right: Any, total: Any) -> Any:
    if not HAS_FMA:
        return b.fadd(b.fmul(left, right), total)
    kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
    fused = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        b.module, kind, f"llvm.fma.v{LANES}f32"
    )
    return b.call(fused, [left, right, total])


def _scores(b: Any, users: Any, items: Any, stride: Any, width: Any) -> list[Any]:
    """Dot products, one vector over users per item, summed in the order of the coordinates."""
    rows = [items]
    for _ in range(ITEMS - 1):
        rows.append(b.gep(rows[-1], [stride]))
    before, loop = b.block, b.append_basic_block("coordinates")
    b.branch(loop)
    b.position_at_end(loop)
    k = b.phi(_I64)
    k.add_incoming(_int(0), before)
    sums = [b.phi(_FLOATS) for _ in rows]
    totals = list(sums)
    for step in range(UNROLL):
        at = b.add(k, _int(step))
        user = _load(b, users, b.mul(at, _int(LANES)), _FLOATS)
        totals = [
            _multiply_add(b, user, _broadcast(b, row, at), total)
            for row, total in zip(rows, totals, strict=True)
        ]
        # An empty barrier: without it the loads of later steps move up and accumulators are spilled.
        b.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)
    following = b.add(k, _int(UNROLL))
    k.add_incoming(following, loop)
    for phi, total in zip(sums, totals, strict=True):
        phi.add_incoming(_all(_FLOATS, 0.0), before)
        phi.add_incoming(total, loop)
    after = b.append_basic_block("scored")
    b.cbranch(b.icmp_signed("<", following, width), loop, after)
    b.position_at_end(after)
    return totals


def _without_excluded(b: Any, pool: Any, scores: list[Any]) -> list[Any]:
    """Scores with -inf where the item does not compete; skipped when all compete."""
    masks = [b.load(b.gep(pool, [_int(item)])) for item in range(ITEMS)]
    everyone = masks[0]
    for mask in masks[1:]:
        everyone = b.and_(everyone, mask)
    before = b.block
    some, after = b.append_basic_block("exclude"), b.append_basic_block("pool")
    b.cbranch(b.icmp_unsigned("==", everyone, ir.Constant(_I16, -1)), after, some)
    b.position_at_end(some)
    lowest = _all(_FLOATS, float("-inf"))
    kept = [b.select(b.bitcast(m, _FLAGS), s, lowest) for m, s in zip(masks, scores, strict=True)]
    b.branch(after)
    b.position_at_end(after)
    merged = [b.phi(_FLOATS) for _ in scores]
    for phi, score, keep in zip(merged, scores, kept, strict=True):
        phi.add_incoming(score, before)
        phi.add_incoming(keep, some)
    return merged


def _counted(
    b: Any,
    scores: list[Any],
    margin: Any,
    low: Any,
    high: Any,
    n_targets: Any,
    n_above: Any,
    n_tied: Any,
    near: Any,
) -> Any:
    """Compare with every target; stop at the first one that no score reaches."""
    before, loop = b.block, b.append_basic_block("target")
    reached, write = b.append_basic_block("reached"), b.append_basic_block("near")
    following, after = b.append_basic_block("next"), b.append_basic_block("counted")
    undecided, tie = b.append_basic_block("undecided"), b.append_basic_block("tie")
    b.branch(loop)

    b.position_at_end(loop)
    t, flags = b.phi(_I64), b.phi(_I64)
    at = b.mul(t, _int(LANES))
    lows = b.fsub(_load(b, low, at, _FLOATS), margin)
    highs = b.fadd(_load(b, high, at, _FLOATS), margin)
    above = not_below = _all(_INTS, 0)
    one = _one(b)
    for score in scores:
        above = _plus(b, above, b.fcmp_ordered(">", score, highs), one)
        not_below = _plus(b, not_below, b.fcmp_unordered(">=", score, lows), one)
    b.cbranch(_any(b, b.icmp_signed("!=", not_below, _all(_INTS, 0))), reached, after)

    b.position_at_end(reached)
    counter = b.bitcast(b.gep(n_above, [at]), _INTS.as_pointer())
    b.store(b.add(b.load(counter, align=4), above), counter, align=4)
    b.cbranch(_any(b, b.icmp_signed("!=", not_below, above)), undecided, following)

    b.position_at_end(undecided)
    b.cbranch(b.icmp_signed("==", n_tied, _int(0)), write, tie)

    b.position_at_end(tie)
    ties = b.bitcast(b.gep(_pointer(b, n_tied, _I32), [at]), _INTS.as_pointer())
    b.store(b.add(b.load(ties, align=4), b.sub(not_below, above)), ties, align=4)
    b.branch(following)

    b.position_at_end(write)
    row = b.mul(t, _int(ITEMS))
    for item, score in enumerate(scores):
        between = b.xor(b.fcmp_ordered(">", score, highs), b.fcmp_unordered(">=", score, lows))
        b.store(b.bitcast(between, _I16), b.gep(near, [b.add(row, _int(item))]))
    flagged = b.or_(flags, b.shl(_int(1), t))
    b.branch(following)

    b.position_at_end(following)
    flags_next = b.phi(_I64)
    t_next = b.add(t, _int(1))
    b.cbranch(b.icmp_signed("<", t_next, n_targets), loop, after)

    b.position_at_end(after)
    result = b.phi(_I64)
    for phi, pairs in (
        (t, ((_int(0), before), (t_next, following))),
        (flags, ((_int(0), before), (flags_next, following))),
        (flags_next, ((flags, reached), (flags, tie), (flagged, write))),
        (result, ((flags, loop), (flags_next, following))),
    ):
        for value, block in pairs:
            phi.add_incoming(value, block)
    return result


def _one(b: Any) -> Any:
    """Return ones that LLVM cannot see through, so that it keeps the masked addition of ``_plus``."""
    kind = ir.FunctionType(_INTS, [_INTS])
    return b.asm(kind, "", "=v,0", [_all(_INTS, 1)], False) if HAS_MASKS else None


def _plus(b: Any, count: Any, flags: Any, one: Any) -> Any:
    """Add 1 where a flag is set: one masked addition with AVX-512, else the mask is subtracted."""
    if HAS_MASKS:
        return b.select(flags, b.add(count, one), count)
    return b.sub(count, b.sext(flags, _INTS))


def _any(b: Any, flags: Any) -> Any:
    return b.icmp_unsigned("!=", b.bitcast(flags, _I16), ir.Constant(_I16, 0))
