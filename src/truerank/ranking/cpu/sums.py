"""Dot products in float64, eight side by side, each summed in the order of its own coordinates.

A sum whose order is fixed waits for each of its additions. Eight of them fill a vector, once their products
are turned from rows into columns, and two such vectors take turns.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from truerank.ranking.cpu.vectors import FLOAT, I1, I32, I64, integer, pointer_to, repeat_while

WIDE = 8  # sums of a vector, and coordinates that are turned at once
SUMS = 2 * WIDE
DOUBLE = ir.DoubleType()
DOUBLES = ir.VectorType(DOUBLE, WIDE)


def _typed_sums(
    typing_context: Any, users: Any, items: Any, user_rows: Any, item_rows: Any, width: Any, out: Any
) -> Any:
    """Write the dot products of SUMS pairs of rows, one rounding per product and one per addition.

    Parameters
    ----------
    users, items : arrays, float32 or float64, that hold the rows
    user_rows, item_rows : addresses of int64 [SUMS], the addresses of the rows
    width : coordinates, a multiple of WIDE
    out : address of float64 [SUMS]
    """
    return types.void(users, items, *[types.int64] * 4), _emit_sums


def _typed_lowest(typing_context: Any, bits: Any) -> Any:
    """Return the place of the lowest bit that is set; there must be one."""
    return types.int64(types.int64), _emit_lowest


sum_products: Any = intrinsic(_typed_sums)
lowest_bit: Any = intrinsic(_typed_lowest)


def _emit_lowest(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.cttz(args[0], ir.Constant(I1, 1))


def _emit_sums(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    b = builder
    user_rows, item_rows, width, out = args[2:]
    kinds = [FLOAT if array.dtype == types.float32 else DOUBLE for array in signature.args[:2]]
    rows = [
        [
            pointer_to(b, b.load(b.gep(pointer_to(b, addresses, I64), [integer(at)])), kind)
            for at in range(SUMS)
        ]
        for addresses, kind in zip((user_rows, item_rows), kinds, strict=True)
    ]

    def has_columns(state: list[Any]) -> Any:
        return b.icmp_signed("<", state[0], width)

    def add(state: list[Any]) -> list[Any]:
        k, *totals = state
        for part in range(SUMS // WIDE):
            here = slice(part * WIDE, (part + 1) * WIDE)
            products = [
                b.fmul(_doubles(b, user, k), _doubles(b, item, k))
                for user, item in zip(rows[0][here], rows[1][here], strict=True)
            ]
            for column in _transposed(b, products):
                totals[part] = b.fadd(totals[part], column)
        return [b.add(k, integer(WIDE)), *totals]

    start = [integer(0), *[ir.Constant(DOUBLES, [0.0] * WIDE)] * (SUMS // WIDE)]
    _, *totals = repeat_while(b, "columns", start, has_columns, add)
    for part, total in enumerate(totals):
        place = b.gep(pointer_to(b, out, DOUBLE), [integer(part * WIDE)])
        b.store(total, b.bitcast(place, DOUBLES.as_pointer()), align=8)
    return context.get_dummy_value()


def _doubles(b: Any, row: Any, k: Any) -> Any:
    """Load WIDE coordinates from k on."""
    kind = row.type.pointee
    vector = b.load(b.bitcast(b.gep(row, [k]), ir.VectorType(kind, WIDE).as_pointer()), align=4)
    return vector if kind == DOUBLE else b.fpext(vector, DOUBLES)


def _transposed(b: Any, rows: list[Any]) -> list[Any]:
    """Return the columns of a square: entries change places, then pairs of them, then halves of rows."""
    for size in (1, 2, 4):
        left = [at if at & size == 0 else WIDE + at - size for at in range(WIDE)]
        right = [at + size if at & size == 0 else WIDE + at for at in range(WIDE)]
        turned = [*rows]
        for at in range(WIDE):
            if at & size == 0:
                turned[at] = _shuffled(b, rows[at], rows[at + size], left)
                turned[at + size] = _shuffled(b, rows[at], rows[at + size], right)
        rows = turned
    return rows


def _shuffled(b: Any, left: Any, right: Any, places: list[int]) -> Any:
    return b.shuffle_vector(left, right, ir.Constant(ir.VectorType(I32, WIDE), places))
