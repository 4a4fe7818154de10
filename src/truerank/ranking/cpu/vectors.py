"""Vector IR for users side by side: what the register tile is written in.

The vectors are those of LLVM, which lowers them to any processor; how many users and items share a tile
depends on the registers of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.registry import cpu_target

UNROLL = 4


def host_features() -> tuple[str, str]:
    """Return the triple and the features numba compiles for; they are part of its cache key."""
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return str(triple), str(features)


def _has_fma(triple: str, features: str) -> bool:
    return "+fma," in features + "," or triple.startswith(("aarch64", "arm64"))


TRIPLE, FEATURES = host_features()
HAS_MASKS = "+avx512f" in FEATURES
# Registers of 32 words.
HAS_WORDS = "+avx512bw" in FEATURES
HAS_FMA = _has_fma(TRIPLE, FEATURES)
# Shifts over two words and counts of the bits of a word.
HAS_BITS = "+avx512vbmi2" in FEATURES and "+avx512bitalg" in FEATURES
# Users and items of a tile. Each item has an accumulator of as many floats as there are users: two registers
# of 16 floats with AVX-512, two of eight with AVX2, four of four with NEON. So a coordinate of an item, once
# loaded, is used at least twice, and the registers that are left hold a target and its counts.
LANES, ITEMS = (32, 12) if HAS_MASKS else (16, 6)
# Items that are multiplied between two fences: with more of them loaded at once the compiler spills.
AT_ONCE = 4 if HAS_MASKS else ITEMS

FLOAT, I1, I16, I32, I64 = ir.FloatType(), ir.IntType(1), ir.IntType(16), ir.IntType(32), ir.IntType(64)
# One bit per user.
MASK = ir.IntType(LANES)
MASK_TYPE = np.uint32 if LANES == 32 else np.uint16
FLOATS, INTS, WORDS, FLAGS = (ir.VectorType(t, LANES) for t in (FLOAT, I32, I16, I1))


def repeat_while(
    b: Any,
    name: str,
    state: list[Any],
    condition: Callable[[list[Any]], Any],
    body: Callable[[list[Any]], list[Any]],
) -> list[Any]:
    """Repeat ``body`` on the state as long as ``condition`` holds; return the last state."""
    before, head = b.block, b.append_basic_block(name)
    inside, after = b.append_basic_block(f"{name}_body"), b.append_basic_block(f"{name}_end")
    b.branch(head)
    b.position_at_end(head)
    phis = [b.phi(value.type) for value in state]
    b.cbranch(condition(phis), inside, after)
    b.position_at_end(inside)
    following = body(phis)
    end = b.block
    b.branch(head)
    for phi, first, again in zip(phis, state, following, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(again, end)
    b.position_at_end(after)
    return phis


def fence(b: Any, values: list[Any]) -> list[Any]:
    """Return the values, computed before anything that follows is loaded; costs no instruction.

    Otherwise loads of later steps move up, or products of earlier ones down, which spills accumulators.
    """
    if not HAS_MASKS:
        b.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)
        return values
    places = [constant_range(start, start + LANES // 2) for start in (0, LANES // 2)]
    registers = []
    for value in values:
        is_long = value.type == FLOATS
        registers += [b.shuffle_vector(value, value, part) for part in places] if is_long else [value]
    types = [register.type for register in registers]
    constraints = ["=v"] * len(types) + [str(at) for at in range(len(types))] + ["~{memory}"]
    kind = ir.FunctionType(ir.LiteralStructType(types), types)
    done = b.asm(kind, "", ",".join(constraints), registers, True)
    results = iter([b.extract_value(done, at) for at in range(len(types))])
    whole = constant_range(0, LANES)
    return [
        b.shuffle_vector(next(results), next(results), whole) if value.type == FLOATS else next(results)
        for value in values
    ]


def constant_range(start: int, stop: int) -> Any:
    """Return a constant vector of the int32 numbers start..stop-1."""
    return ir.Constant(ir.VectorType(I32, stop - start), list(range(start, stop)))


def pointer_to(b: Any, address: Any, element: Any) -> Any:
    """Return an address as a pointer."""
    return b.inttoptr(address, element.as_pointer())


def integer(value: int) -> Any:
    """Return a constant int64."""
    return ir.Constant(I64, value)


def vector_of(vector: Any, value: float) -> Any:
    """Return a constant vector of equal values."""
    return ir.Constant(vector, [value] * LANES)


def load_vector(b: Any, pointer: Any, offset: Any, vector: Any, align: int = 4) -> Any:
    """Load a vector that begins ``offset`` elements after the pointer."""
    return b.load(b.bitcast(b.gep(pointer, [offset]), vector.as_pointer()), align=align)


def broadcast(b: Any, pointer: Any, offset: Any) -> Any:
    """Load one element into all lanes."""
    value = b.load(b.gep(pointer, [offset]))
    nothing = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = b.insert_element(nothing, value, ir.Constant(I32, 0))
    return b.shuffle_vector(first, nothing, vector_of(INTS, 0))


def multiply_add(b: Any, left: Any, right: Any, total: Any) -> Any:
    """Return left right + total of floats or vectors, rounded once where the host can."""
    if not HAS_FMA:
        return b.fadd(b.fmul(left, right), total)
    return call_llvm(b, "fma", left, right, total)


def call_llvm(b: Any, name: str, *values: Any) -> Any:
    """Call an intrinsic of LLVM whose result has the type of its arguments, floats or vectors."""
    kind = values[0].type
    is_vector = isinstance(kind, ir.VectorType)
    element = kind.element if is_vector else kind
    suffix = (f"v{kind.count}" if is_vector else "") + ("f32" if element == FLOAT else f"i{element.width}")
    function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        b.module, ir.FunctionType(kind, [kind] * len(values)), f"llvm.{name}.{suffix}"
    )
    return b.call(function, values)


def as_words(b: Any, numbers: Any) -> Any:
    """Return int32 numbers as int16 words, saturated."""
    if HAS_WORDS:
        halves = [
            b.shuffle_vector(numbers, numbers, constant_range(start, start + LANES // 2))
            for start in (0, LANES // 2)
        ]
        kind = ir.FunctionType(WORDS, [half.type for half in halves])
        pack = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            b.module, kind, "llvm.x86.avx512.packssdw.512"
        )
        packed = b.call(pack, halves)
        # It packs four numbers of one half, then four of the other, and so on.
        places = [8 * (at % 16 // 4) + 4 * (at // 16) + at % 4 for at in range(LANES)]
        return b.shuffle_vector(packed, packed, ir.Constant(INTS, places))
    for name, limit in (("smax", -0x8000), ("smin", 0x7FFF)):
        numbers = call_llvm(b, name, numbers, vector_of(INTS, limit))
    return b.trunc(numbers, WORDS)


def is_any(b: Any, flags: Any) -> Any:
    """Return whether a flag is set."""
    return b.icmp_unsigned("!=", b.bitcast(flags, MASK), ir.Constant(MASK, 0))
