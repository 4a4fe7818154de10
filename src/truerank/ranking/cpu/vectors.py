"""Vector IR for sixteen users side by side: what the register tile is written in.

The vectors are those of LLVM, which lowers them to any processor; how many items share a tile depends on the
registers of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.registry import cpu_target

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

FLOAT, I1, I16, I32, I64 = ir.FloatType(), ir.IntType(1), ir.IntType(16), ir.IntType(32), ir.IntType(64)
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


def fence(b: Any) -> None:
    """Keep loads of later steps from moving up, which would spill accumulators; costs no instruction."""
    b.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)


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
    kind = left.type
    suffix = f"v{LANES}f32" if kind == FLOATS else "f32"
    fused = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        b.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fma.{suffix}"
    )
    return b.call(fused, [left, right, total])


def is_any(b: Any, flags: Any) -> Any:
    """Return whether a flag is set."""
    return b.icmp_unsigned("!=", b.bitcast(flags, I16), ir.Constant(I16, 0))
