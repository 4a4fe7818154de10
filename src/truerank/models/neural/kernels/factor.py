"""Gradients of factor models by mini-batches, and the Adam step.

A side (users or items) is one (n, d + 1) float32 matrix: d factors, then the bias. The score of a pair is
``offset + u[:d] . v[:d] + u[d] + v[d]``.
"""

from __future__ import annotations

import numpy as np

from truerank.core.jit import reassociated
from truerank.core.types import FloatArray, IntArray
from truerank.models.neural.kernels.negative import next_word

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@reassociated
def fill_mask(mask: FloatArray, dropout: float, word: np.uint64) -> None:
    """Fill with 0 (with probability ``dropout``, to 1 / 65536) or 1 / (1 - dropout)."""
    bound = np.uint64(dropout * 65536.0)
    keep = np.float32(1.0 / (1.0 - dropout))
    bits = np.uint64(0)
    for k in range(len(mask)):
        if k % 4 == 0:
            word += _GOLDEN
            bits = next_word(word)
        mask[k] = np.float32(0.0) if (bits & np.uint64(0xFFFF)) < bound else keep
        bits = bits >> np.uint64(16)


@reassociated
def dot(left: FloatArray, right: FloatArray, d: int) -> np.float32:
    """Sum of products over the first d entries."""
    total = np.float32(0.0)
    for k in range(d):
        total += left[k] * right[k]
    return total


@reassociated
def add_pair(
    u: FloatArray,
    v: FloatArray,
    du: FloatArray,
    dv: FloatArray,
    slope: np.float32,
    mu: FloatArray,
    mv: FloatArray,
) -> None:
    """Add the gradient of ``slope`` times the masked score of a pair to both sides."""
    d = len(u) - 1
    for k in range(d):
        weight = slope * mu[k] * mv[k]
        du[k] += weight * v[k]
        dv[k] += weight * u[k]
    du[d] += slope
    dv[d] += slope


@reassociated
def masked_dot(u: FloatArray, v: FloatArray, mu: FloatArray, mv: FloatArray) -> np.float32:
    """Score of a pair under dropout, without the offset."""
    d = len(u) - 1
    total = np.float32(0.0)
    for k in range(d):
        total += u[k] * v[k] * mu[k] * mv[k]
    return total + u[d] + v[d]


@reassociated
def rating_gradients(
    rows: IntArray,
    user: IntArray,
    item: IntArray,
    value: FloatArray,
    offset: FloatArray,
    U: FloatArray,
    V: FloatArray,
    dU: FloatArray,
    dV: FloatArray,
    dropout: float,
    start: np.uint64,
) -> float:
    """Add the gradients of the mean squared error of some events; return the sum of squared errors.

    ``offset`` is (2,): the constant of all scores and its gradient.
    """
    d, scale = U.shape[1] - 1, np.float32(2.0 / len(rows))
    mu, mv = np.ones(d, np.float32), np.ones(d, np.float32)
    total = 0.0
    for e in rows:
        if dropout > 0:
            word = next_word(start + np.uint64(e) * _GOLDEN)
            fill_mask(mu, dropout, word)
            fill_mask(mv, dropout, next_word(word))
        u, v = U[user[e]], V[item[e]]
        error = offset[0] + masked_dot(u, v, mu, mv) - value[e]
        total += error * error
        add_pair(u, v, dU[user[e]], dV[item[e]], scale * error, mu, mv)
        offset[1] += scale * error
    return total


@reassociated
def pair_gradients(
    rows: IntArray,
    user: IntArray,
    item: IntArray,
    negative: IntArray,
    U: FloatArray,
    V: FloatArray,
    dU: FloatArray,
    dV: FloatArray,
    dropout: float,
    start: np.uint64,
) -> float:
    """Add the gradients of the mean of -log sigmoid(score of item - score of negative); return the sum."""
    d, scale = U.shape[1] - 1, np.float32(1.0 / len(rows))
    mu, mi = np.ones(d, np.float32), np.ones(d, np.float32)
    nu, nj = np.ones(d, np.float32), np.ones(d, np.float32)
    total = 0.0
    for e in rows:
        if dropout > 0:
            word = next_word(start + np.uint64(e) * _GOLDEN)
            for mask in (mu, mi, nu, nj):
                word = next_word(word)
                fill_mask(mask, dropout, word)
        u, i, j = U[user[e]], V[item[e]], V[negative[e]]
        gap = masked_dot(u, i, mu, mi) - masked_dot(u, j, nu, nj)
        total += np.log1p(np.exp(-gap)) if gap > -30 else -gap
        slope = -scale / (np.float32(1.0) + np.exp(gap))
        add_pair(u, i, dU[user[e]], dV[item[e]], slope, mu, mi)
        add_pair(u, j, dU[user[e]], dV[negative[e]], -slope, nu, nj)
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
    beta1: float,
    beta2: float,
) -> None:
    """Move flat ``x`` by Adam with coupled weight decay, and clear the gradient."""
    b1, b2 = np.float32(beta1), np.float32(beta2)
    c1, c2 = np.float32(1.0 - beta1), np.float32(1.0 - beta2)
    rate = np.float32(learning_rate / (1.0 - beta1**step))
    root = np.float32(1.0 / np.sqrt(1.0 - beta2**step))
    decay, tiny = np.float32(weight_decay), np.float32(1e-8)
    for k in range(len(x)):
        g = gradient[k] + decay * x[k]
        mean[k] = b1 * mean[k] + c1 * g
        square[k] = b2 * square[k] + c2 * g * g
        x[k] -= rate * mean[k] / (np.sqrt(square[k]) * root + tiny)
        gradient[k] = np.float32(0.0)
