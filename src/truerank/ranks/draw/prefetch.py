"""Asking the processor to bring a vector closer; imported on first use because it imports numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from truerank.core.jit import inlined

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
def fetch(base: Any, stride: Any, item: Any) -> None:
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
    """Prefetch one entry of a flat array; places beyond its end do no harm."""
    prefetch(np.uint64(array.ctypes.data) + np.uint64(array.itemsize * place))
