"""Scores of pairs through a perceptron, each in a fixed order of operations."""

from __future__ import annotations

import numpy as np

from truerank.core.jit import fused
from truerank.core.types import FloatArray, IntArray


@fused
def score_pairs(
    users: IntArray,
    items: IntArray,
    user_hidden: FloatArray,
    item_hidden: FloatArray,
    user_product: FloatArray,
    item_product: FloatArray,
    user_bias: FloatArray,
    item_bias: FloatArray,
    weights: FloatArray,
    sizes: IntArray,
    is_last_linear: bool,
    out: FloatArray,
) -> None:
    """Write the score of each pair; ``items`` has one row for all users or one per user.

    Parameters are those of ``TowerScorer``. Inner loops run over the outputs of a layer, which do not depend
    on each other, so that they vectorise without changing the order of any sum.
    """
    n_layers, zero = len(sizes), np.float32(0.0)
    widest = 1
    for size in sizes:
        widest = max(widest, size)
    below, above = np.empty(widest, np.float32), np.empty(widest, np.float32)
    for row in range(len(users)):
        u = users[row]
        mine = items[row if len(items) > 1 else 0]
        for column in range(len(mine)):
            i = mine[column]
            total = user_bias[u] + item_bias[i]
            for k in range(user_product.shape[1]):
                total += user_product[u, k] * item_product[i, k]
            if n_layers > 0:
                for k in range(sizes[0]):
                    x = user_hidden[u, k] + item_hidden[i, k]
                    below[k] = x if x > zero or (is_last_linear and n_layers == 1) else zero
                place = 0
                for layer in range(1, n_layers):
                    n_in, n_out = sizes[layer - 1], sizes[layer]
                    bias = place + n_in * n_out
                    for o in range(n_out):
                        above[o] = weights[bias + o]
                    for k in range(n_in):
                        x = below[k]
                        if x != zero:
                            start = place + k * n_out
                            for o in range(n_out):
                                above[o] += x * weights[start + o]
                    is_linear = is_last_linear and layer == n_layers - 1
                    for o in range(n_out):
                        below[o] = above[o] if above[o] > zero or is_linear else zero
                    place = bias + n_out
                for k in range(sizes[n_layers - 1]):
                    total += below[k] * weights[place + k]
            out[row, column] = total
