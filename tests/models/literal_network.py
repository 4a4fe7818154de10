"""Slow, literal twins of the networks of sasrec, svae and ngcf, in float64, from their definitions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from truerank.core.types import FloatArray as Matrix

Weights = Mapping[str, Matrix]


def layer_norm(x: Matrix, weights: Weights, name: str) -> Matrix:
    """Over one vector."""
    centred = x - x.mean()
    scaled = centred / np.sqrt((centred**2).mean() + 1e-8)
    return np.asarray(weights[f"{name}.weight"] * scaled + weights[f"{name}.bias"])


def linear(x: Matrix, weights: Weights, name: str) -> Matrix:
    """W x + b."""
    return np.asarray(weights[f"{name}.weight"] @ x + weights[f"{name}.bias"])


def sigmoid(x: Matrix) -> Matrix:
    return np.asarray(1 / (1 + np.exp(-x)))


def attention_states(history: list[int], weights: Weights, *, blocks: int, heads: int) -> Matrix:
    """States of one history under SASRec, padded at the FRONT to full length, with a mask, step by step.

    The start token, the last row of the item vectors, has no position.
    """
    length, d = weights["position.weight"].shape
    padded = [None] * (length - len(history)) + history
    x = [np.zeros(d) if item is None else weights["item.weight"][item] * np.sqrt(d) for item in padded]
    for place, item in enumerate(padded):
        if item is not None and item < len(weights["item.weight"]) - 1:
            x[place] = x[place] + weights["position.weight"][place]
    width = d // heads
    for block in range(blocks):
        name = f"blocks.{block}"
        after = []
        for now in range(length):
            q = layer_norm(x[now], weights, f"{name}.norm_attention")
            query = linear(q, weights, f"{name}.query")
            seen = [then for then in range(now + 1) if padded[then] is not None]
            joined = []
            for head in range(heads):
                mine = slice(head * width, (head + 1) * width)
                logits = [
                    query[mine] @ linear(x[then], weights, f"{name}.key")[mine] / np.sqrt(width)
                    for then in seen
                ]
                share = np.exp(np.array(logits) - max(logits, default=0.0))
                values = [linear(x[then], weights, f"{name}.value")[mine] for then in seen]
                share /= share.sum()
                joined.append(sum((s * v for s, v in zip(share, values, strict=True)), np.zeros(width)))
            n = layer_norm(q + np.concatenate(joined), weights, f"{name}.norm_forward")
            inner = np.maximum(linear(n, weights, f"{name}.wide"), 0)
            after.append(n + linear(inner, weights, f"{name}.narrow"))
        x = [vector if item is not None else np.zeros(d) for vector, item in zip(after, padded, strict=True)]
    states = [layer_norm(vector, weights, "norm") for vector in x]
    return np.array(states[length - len(history) :])


def attention_loss(
    histories: list[list[int]], negatives: list[list[int]], weights: Weights, *, blocks: int, heads: int
) -> float:
    """Binary cross-entropy per step; ``negatives`` holds a list per step, user after user."""
    item = weights["item.weight"]
    total, steps = 0.0, 0
    for history in histories:
        states = attention_states(history[:-1], weights, blocks=blocks, heads=heads)
        for state, following in zip(states, history[1:], strict=True):
            total -= float(np.log(sigmoid(state @ item[following])))
            for other in negatives[steps]:
                total -= float(np.log(1 - sigmoid(state @ item[other])))
            steps += 1
    return float(total / steps)


def recurrent_states(history: list[int], weights: Weights) -> Matrix:
    """States of a GRU (Cho et al. 2014, reset after the product as in cuDNN), one step at a time."""
    size = weights["gru.weight_hh_l0"].shape[1]
    h, states = np.zeros(size), []
    for item in history:
        x = weights["item.weight"][item]
        into = weights["gru.weight_ih_l0"] @ x + weights["gru.bias_ih_l0"]
        back = weights["gru.weight_hh_l0"] @ h + weights["gru.bias_hh_l0"]
        reset = sigmoid(into[:size] + back[:size])
        update = sigmoid(into[size : 2 * size] + back[size : 2 * size])
        new = np.tanh(into[2 * size :] + reset * back[2 * size :])
        h = (1 - update) * new + update * h
        states.append(h)
    return np.array(states)


def moments(state: Matrix, weights: Weights) -> tuple[Matrix, Matrix]:
    """Mean and log-variance of z."""
    both = linear(np.tanh(linear(state, weights, "encode")), weights, "moments")
    return both[: len(both) // 2], both[len(both) // 2 :]


def logits(z: Matrix, weights: Weights) -> Matrix:
    """Scores of all items."""
    return linear(np.tanh(linear(z, weights, "decode")), weights, "output")


def recurrent_loss(
    histories: list[list[int]], noise: Matrix, weights: Weights, *, next_items: int, beta: float
) -> float:
    """Multinomial loss of the following items plus beta KL, per step; ``noise`` holds a row per step."""
    total, steps = 0.0, 0
    for history in histories:
        for now, state in enumerate(recurrent_states(history[:-1], weights)):
            mean, log_variance = moments(state, weights)
            scores = logits(mean + noise[steps] * np.exp(log_variance / 2), weights)
            for following in history[now + 1 : now + 1 + next_items]:
                total += (np.log(np.exp(scores).sum()) - scores[following]) / next_items
            for m, v in zip(mean, log_variance, strict=True):
                total += beta * (m * m + np.exp(v) - 1 - v) / 2
            steps += 1
    return float(total / steps)


def graph_vectors(matrix: Matrix, weights: Weights, layers: int) -> Matrix:
    """All layers of NGCF for the users x items matrix of zeros and ones, by dense products, row by row."""
    n_users, n_items = matrix.shape
    adjacency = np.zeros((n_users + n_items,) * 2)
    adjacency[:n_users, n_users:], adjacency[n_users:, :n_users] = matrix, matrix.T
    degree = adjacency.sum(axis=1)
    L = np.zeros_like(adjacency)
    for a, b in zip(*np.nonzero(adjacency), strict=True):
        L[a, b] = 1 / np.sqrt(degree[a] * degree[b])
    x = weights["node.weight"]
    beside = [x]
    for layer in range(layers):
        near = L @ x
        rows = []
        for own, around in zip(x, near, strict=True):
            y = linear(own + around, weights, f"sums.{layer}") + linear(
                own * around, weights, f"products.{layer}"
            )
            rows.append(np.where(y > 0, y, 0.2 * y))
        x = np.array(rows)
        beside.append(np.array([row / max(np.linalg.norm(row), 1e-12) for row in x]))
    return np.concatenate(beside, axis=1)
