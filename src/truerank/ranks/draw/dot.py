"""Four dot products at a time, as vector code; imported on first use because it imports numba.

The four share the loads of the user's vector and one reduction at the end. The code is vector IR that any
target can lower. Sums run in an order of their own: the rounding bound of ``kernels.rounding`` holds for all.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

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
