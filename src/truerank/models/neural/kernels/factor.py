"""Gradients of factor models over a batch, and the Adam step.

A side (users or items) is one (n, d + 1) float32 matrix: d factors, then the bias. The score of a pair is
``offset + u[:d] . v[:d] + u[d] + v[d]``. Dropout of entries of both vectors drops the products of entries:
one of them is kept with probability ``keep``, the square of what is kept of a vector, and divided by it.
"""

from __future__ import annotations

import numpy as np

from truerank.core.jit import reassociated
from truerank.core.types import FloatArray, IntArray
from truerank.models.neural.kernels.negative import next_word

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@reassociated
def fill_mask(mask: FloatArray, keep: float, word: np.uint64) -> None:
    """Fill with 1 / keep, with probability ``keep`` (to 1 / 65536), or 0."""
    bound = np.uint64(keep * 65536.0)
    weight = np.float32(1.0 / keep)
    bits = np.uint64(0)
    for k in range(len(mask)):
        if k % 4 == 0:  # sixteen bits decide
            word += _GOLDEN
            bits = next_word(word)
        mask[k] = weight if (bits & np.uint64(0xFFFF)) < bound else np.float32(0.0)
        bits = bits >> np.uint64(16)


@reassociated
def rating_gradients(
    user: IntArray,
    item: IntArray,
    value: FloatArray,
    offset: FloatArray,
    U: FloatArray,
    V: FloatArray,
    dU: FloatArray,
    dV: FloatArray,
    keep: float,
    start: np.uint64,
) -> float:
    """Add the gradients of the mean squared error of a batch; return the sum of squared errors.

    ``offset`` is (2,): the constant of all scores and its gradient.
    """
    d, scale = U.shape[1] - 1, np.float32(2.0 / len(user))
    mask = np.ones(d, np.float32)
    total = 0.0
    for e in range(len(user)):
        if keep < 1.0:
            fill_mask(mask, keep, next_word(start + np.uint64(e) * _GOLDEN))
        u, i = user[e], item[e]
        score = np.float32(0.0)
        for k in range(d):
            score += mask[k] * U[u, k] * V[i, k]
        error = offset[0] + U[u, d] + V[i, d] + score - value[e]
        total += float(error) * float(error)
        slope = scale * error
        for k in range(d):
            weight = slope * mask[k]
            dU[u, k] += weight * V[i, k]
            dV[i, k] += weight * U[u, k]
        dU[u, d] += slope
        dV[i, d] += slope
        offset[1] += slope
    return total


@reassociated
def pair_gradients(
    user: IntArray,
    item: IntArray,
    negative: IntArray,
    U: FloatArray,
    V: FloatArray,
    dU: FloatArray,
    dV: FloatArray,
    keep: float,
    start: np.uint64,
) -> float:
    """Add the gradients of the mean of -log sigmoid(score of item - score of negative); return the sum."""
    d, scale, one = U.shape[1] - 1, np.float32(1.0 / len(user)), np.float32(1.0)
    plus, minus = np.ones(d, np.float32), np.ones(d, np.float32)
    total = 0.0
    for e in range(len(user)):
        if keep < 1.0:
            word = next_word(start + np.uint64(e) * _GOLDEN)
            fill_mask(plus, keep, word)
            fill_mask(minus, keep, next_word(word))
        u, i, j = user[e], item[e], negative[e]
        gap = np.float32(0.0)
        for k in range(d):
            gap += U[u, k] * (plus[k] * V[i, k] - minus[k] * V[j, k])
        gap += V[i, d] - V[j, d]
        small = np.exp(-abs(gap))  # in (0, 1]: no overflow on either side
        total += float(np.log1p(small)) + max(-float(gap), 0.0)
        slope = -scale * (small if gap > 0 else one) / (one + small)
        for k in range(d):
            dU[u, k] += slope * (plus[k] * V[i, k] - minus[k] * V[j, k])
            weight = slope * U[u, k]
            dV[i, k] += weight * plus[k]
            dV[j, k] -= weight * minus[k]
        dV[i, d] += slope
        dV[j, d] -= slope
    return total


@reassociated
def adam_step(
    x: FloatArray,
    gradient: FloatArray,
    mean: FloatArray,
    square: FloatArray,
    step: int,
    learning_rate: float,
    weight_decay: float,
    beta2: float,
) -> None:
    """Move flat ``x`` by Adam (beta1 = 0.9) with coupled weight decay, and clear the gradient."""
    b1, b2 = np.float32(0.9), np.float32(beta2)
    c1, c2 = np.float32(0.1), np.float32(1.0 - beta2)
    rate = np.float32(learning_rate / (1.0 - 0.9**step))
    root = np.float32(1.0 / np.sqrt(1.0 - beta2**step))
    decay, tiny = np.float32(weight_decay), np.float32(1e-8)
    for k in range(len(x)):
        g = gradient[k] + decay * x[k]
        mean[k] = b1 * mean[k] + c1 * g
        square[k] = b2 * square[k] + c2 * g * g
        x[k] -= rate * mean[k] / (np.sqrt(square[k]) * root + tiny)
        gradient[k] = np.float32(0.0)
