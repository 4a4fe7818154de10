"""Compiled kernels of the bootstrap: resampled users, and new sampled ranks of targets with given ranks.

Users are those that NumPy's ``Generator(Philox).integers`` would draw, counted without storing the draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from truerank.core.jit import compiled, inlined
from truerank.core.types import FloatArray, IntArray

_M_0, _M_1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W_0, _W_1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_ROUNDS = 10
_HALF, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)


Word: TypeAlias = np.uint64


def _product(_: Any, a: Any, b: Any) -> Any:
    """Return type and code of the upper 64 bits of a product."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        first, second = (builder.zext(argument, wide) for argument in arguments)
        product = builder.lshr(builder.mul(first, second), ir.Constant(wide, 64))
        return builder.trunc(product, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), code


_high = cast(Callable[[Word, Word], Word], intrinsic(_product))


@inlined
def _words(counter: int, stream: int, key_0: Word, key_1: Word) -> tuple[Word, Word, Word, Word]:
    """Return four random words: Philox4x64-10 (Salmon et al. 2011)."""
    a, b, c, d = np.uint64(counter), np.uint64(0), np.uint64(0), np.uint64(stream)
    for _ in range(_ROUNDS):
        upper_0, upper_1 = _high(_M_0, a), _high(_M_1, c)
        a, b, c, d = upper_1 ^ b ^ key_0, _M_1 * c, upper_0 ^ d ^ key_1, _M_0 * a
        key_0 += _W_0
        key_1 += _W_1
    return a, b, c, d


@compiled
def fill_resample_counts(key_0: Word, key_1: Word, first: int, out: FloatArray) -> None:
    """Fill row i with how often each of n users is among n draws with replacement from stream ``first + i``.

    Each half of a random word, the lower one first, is mapped to a user by multiplication, and rejected where
    that would favour some users (Lemire 2019).

    Parameters
    ----------
    key_0, key_1 : Philox key of (seed, stage)
    first : stream of the first row
    out : (n_rows, n_users), n_users from 1 to 2**32 - 1
    """
    n = out.shape[1]
    span = np.uint64(n)
    least = (_HALF - span + np.uint64(1)) % span
    words = np.empty(4 * ((n + 7) // 8), np.uint64)
    for row in range(len(out)):
        if n == 1:  # NumPy uses no random numbers here
            out[row] = 1.0
            continue
        counts = out[row]
        counts[:] = 0.0
        left, counter = n, 0
        while left > 0:
            n_blocks = (left + 7) // 8
            for block in range(n_blocks):
                a, b, c, d = _words(counter + block + 1, first + row, key_0, key_1)
                words[4 * block], words[4 * block + 1] = a, b
                words[4 * block + 2], words[4 * block + 3] = c, d
            counter += n_blocks
            for word in words[: 4 * n_blocks]:
                low = (word & _HALF) * span
                if (low & _HALF) >= least and left > 0:
                    counts[np.int64(low >> _SHIFT)] += 1.0
                    left -= 1
                high = (word >> _SHIFT) * span
                if (high & _HALF) >= least and left > 0:
                    counts[np.int64(high >> _SHIFT)] += 1.0
                    left -= 1


@compiled
def add_outcomes(
    uniform: FloatArray,
    user: IntArray,
    weight: FloatArray,
    table: IntArray,
    base: IntArray,
    sums: FloatArray,
    starts: IntArray,
    cells: IntArray,
    out: FloatArray,
) -> None:
    """Draw an outcome for each entry by inversion and add the entry's weight to the cell of that outcome.

    The cumulative probabilities of entry i are sums[starts[t]:starts[t + 1]] with t = table[i]; the k-th
    outcome has the cell cells[base[i] + k]. Entries of one user share the uniform number of that user.
    """
    for i in range(len(user)):
        u = uniform[user[i]]
        first = starts[table[i]]
        low, high = first, starts[table[i] + 1] - 1
        while low < high:
            middle = (low + high) // 2
            if sums[middle] > u:
                high = middle
            else:
                low = middle + 1
        out[cells[base[i] + low - first]] += weight[i]
