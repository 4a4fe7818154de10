"""Compiled loops of the models.

Item-item models: co-occurrence counts, nearest items, and sums of matrix rows over a user's history. Every
score is the sum over the user's items in ascending order, whichever kernel computes it and in whatever batch:
scores are a function of the pair, bit for bit.

Alternating least squares: the least-squares problem of each row.

Factor models: gradients of a batch and the Adam step. A side (users or items) is one (n, d + 1) float32
matrix: d factors, then the bias. The score of a pair is ``offset + u[:d] . v[:d] + u[d] + v[d]``. Dropout of
entries of both vectors drops the products of entries: a product is kept with probability ``keep``, the square
of the probability that an entry is kept, and divided by it.

Negatives: items a user has not met. NeuMF: scores of pairs through a perceptron, in a fixed order of
operations.
"""

from __future__ import annotations

import numpy as np

from truerank.core.jit import compiled, fused, reassociated
from truerank.core.random import GOLDEN
from truerank.core.random_compiled import mix64
from truerank.core.types import FloatArray, IntArray


@compiled
def count_lower(
    item_ptr: IntArray,
    item_users: IntArray,
    user_ptr: IntArray,
    user_items: IntArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """Add rows first..last of the lower triangle of X^T X to ``out``, (n_items, n_items)."""
    for item in range(first, last):
        for p in range(item_ptr[item], item_ptr[item + 1]):
            user = item_users[p]
            for q in range(user_ptr[user], user_ptr[user + 1]):
                other = user_items[q]
                if other > item:
                    break
                out[item, other] += 1.0


@compiled
def largest(values: FloatArray, heap: FloatArray) -> float:
    """Return the k-th largest value, with k the length of ``heap``, the scratch space."""
    k = len(heap)
    heap[:] = -np.inf
    for value in values:
        if value <= heap[0]:
            continue
        node, child = 0, 1  # the smallest of the k largest so far leaves the heap
        while child < k:
            if child + 1 < k and heap[child + 1] < heap[child]:
                child += 1
            if value <= heap[child]:
                break
            heap[node] = heap[child]
            node, child = child, 2 * child + 1
        heap[node] = value
    return float(heap[0])


@compiled
def nearest(
    item_ptr: IntArray,
    item_users: IntArray,
    user_ptr: IntArray,
    user_items: IntArray,
    first: int,
    last: int,
    shrink: float,
    include_self: bool,
    index: IntArray,
    value: FloatArray,
    length: IntArray,
) -> None:
    """Write each item's most similar items, ascending by code, into rows first..last.

    ``index`` and ``value`` are (n_items, k), ``length`` (n_items,) says how many of them are filled. Among
    equal similarities the lower code is taken.
    """
    n_items, k = len(length), index.shape[1]
    counts = np.zeros(n_items, np.int32)
    touched = np.empty(n_items, np.int32)
    heap = np.empty(k)
    for item in range(first, last):
        n_touched = 0
        for p in range(item_ptr[item], item_ptr[item + 1]):
            user = item_users[p]
            for q in range(user_ptr[user], user_ptr[user + 1]):
                other = user_items[q]
                if counts[other] == 0:
                    touched[n_touched] = other
                    n_touched += 1
                counts[other] += 1
        codes = touched[:n_touched]
        if 16 * n_touched < n_items:
            codes.sort()
        else:
            codes[:] = np.flatnonzero(counts)
        similarity = np.empty(n_touched)
        n_users = item_ptr[item + 1] - item_ptr[item]
        for n in range(n_touched):
            other = codes[n]
            both = float(counts[other])
            counts[other] = 0
            product = float(n_users) * float(item_ptr[other + 1] - item_ptr[other])
            if shrink > 0.0:
                similarity[n] = both / (np.sqrt(product) + shrink)
            else:  # the quotient of two exact integers: equal cosines get equal bits
                similarity[n] = np.sqrt(both * both / product)
            if other == item and not include_self:
                similarity[n] = 0.0
        least, room = 0.0, 0
        if n_touched > k:
            least = largest(similarity, heap)
            room = k - np.sum(similarity > least)
        filled = 0
        for n in range(n_touched):
            wanted = similarity[n] > least
            if similarity[n] == least and room > 0 and least > 0.0:
                wanted, room = True, room - 1
            if wanted:
                index[item, filled] = codes[n]
                value[item, filled] = similarity[n]
                filled += 1
        length[item] = filled


TILE = 512  # columns: a tile of the accumulators stays in the first-level cache


@compiled
def sum_rows(
    indptr: IntArray, history: IntArray, users: IntArray, weights: FloatArray, out: FloatArray
) -> None:
    """Write the scores of all items into ``out``, (len(users), n_items)."""
    n_items = weights.shape[1]
    for start in range(0, n_items, TILE):
        stop = min(start + TILE, n_items)
        for row in range(len(users)):
            scores = out[row, start:stop]
            scores[:] = 0.0
            p, end = indptr[users[row]], indptr[users[row] + 1]
            while p + 4 <= end:
                a = weights[history[p], start:stop]
                b = weights[history[p + 1], start:stop]
                c = weights[history[p + 2], start:stop]
                d = weights[history[p + 3], start:stop]
                for i in range(len(scores)):
                    scores[i] = (((scores[i] + a[i]) + b[i]) + c[i]) + d[i]
                p += 4
            while p < end:
                a = weights[history[p], start:stop]
                for i in range(len(scores)):
                    scores[i] += a[i]
                p += 1


@compiled
def sum_entries(
    indptr: IntArray,
    history: IntArray,
    users: IntArray,
    candidates: IntArray,
    weights: FloatArray,
    out: FloatArray,
) -> None:
    """Write the scores of the candidates, (1, n) for all users or (len(users), n), into ``out``."""
    for row in range(len(users)):
        wanted = candidates[min(row, len(candidates) - 1)]
        scores = out[row]
        scores[:] = 0.0
        for p in range(indptr[users[row]], indptr[users[row] + 1]):
            entries = weights[history[p]]
            for n in range(len(wanted)):
                scores[n] += entries[wanted[n]]


CHUNK = 128  # vectors gathered for one product: fixed, so that a row's sums depend on the row alone


@fused
def solve_cholesky(system: FloatArray, right: FloatArray) -> None:
    """Solve U^T U x = right in place, with U the Cholesky factor of the upper triangle of ``system``."""
    d = len(right)
    for start in range(
        0, d, 4
    ):  # four rows of U at a time: the rows below are read and written once for four
        stop = min(start + 4, d)
        for k in range(start, stop):
            line = system[k]
            pivot = 1.0 / np.sqrt(line[k])
            for c in range(k, d):
                line[c] *= pivot
            for r in range(k + 1, stop):
                below, factor = system[r], line[r]
                for c in range(r, d):
                    below[c] -= factor * line[c]
            right[k] *= pivot
            for c in range(k + 1, d):
                right[c] -= line[c] * right[k]
        if stop < d:
            u0, u1, u2, u3 = system[start], system[start + 1], system[start + 2], system[start + 3]
            for r in range(stop, d):
                below = system[r]
                f0, f1, f2, f3 = u0[r], u1[r], u2[r], u3[r]
                for c in range(r, d):
                    below[c] = below[c] - f0 * u0[c] - f1 * u1[c] - f2 * u2[c] - f3 * u3[c]
    for k in range(d - 1, -1, -1):
        total = right[k]
        for c in range(k + 1, d):
            total -= system[k, c] * right[c]
        right[k] = total / system[k, k]


@fused
def solve_rows(
    indptr: IntArray,
    indices: IntArray,
    fixed: FloatArray,
    base: FloatArray,
    reg: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """Solve (base + sum v v^T + reg I) x = sum v for rows first..last.

    The sums run over the row's entries in stored order, chunk by chunk; ``base`` is (d, d), ``reg``
    (n_rows,). A row without entries gets zeros.
    """
    d = fixed.shape[1]
    system, product, right = np.empty((d, d)), np.empty((d, d)), np.empty(d)
    gathered = np.empty((CHUNK, d))
    for row in range(first, last):
        start, end = indptr[row], indptr[row + 1]
        if start == end:
            out[row] = 0.0
            continue
        system[:] = base
        right[:] = 0.0
        for r in range(d):
            system[r, r] += reg[row]
        while start < end:
            n = min(CHUNK, end - start)
            for k in range(n):
                gathered[k] = fixed[indices[start + k]]
                right += gathered[k]
            chunk = gathered[:n]
            np.dot(chunk.T, chunk, product)
            system += product
            start += n
        solve_cholesky(system, right)
        out[row] = right


@compiled
def has_met(indptr: IntArray, items: IntArray, user: int, item: int) -> bool:
    """Whether the item is in the user's sorted list."""
    low, high = indptr[user], indptr[user + 1]
    while low < high:
        middle = (low + high) >> 1
        if items[middle] < item:
            low = middle + 1
        else:
            high = middle
    return bool(low < indptr[user + 1] and items[low] == item)


@compiled
def fill_negatives(
    indptr: IntArray,
    items: IntArray,
    n_items: int,
    user: IntArray,
    start: np.uint64,
    first: int,
    out: IntArray,
) -> None:
    """Fill row e of ``out`` with items that ``user[e]`` has not met, uniformly and with replacement.

    A row is a function of ``start`` and its number (``first`` + e) alone. A user who has met everything gets
    any items.
    """
    for e in range(len(user)):
        code = user[e]
        counter = mix64(start + np.uint64(first + e) * GOLDEN)
        has_all = indptr[code + 1] - indptr[code] == n_items
        for k in range(out.shape[1]):
            while True:
                counter += GOLDEN
                # 32 random bits times n_items, shifted: uniform up to n_items / 2**32
                item = int(((mix64(counter) >> np.uint64(32)) * np.uint64(n_items)) >> np.uint64(32))
                if has_all or not has_met(indptr, items, code, item):
                    break
            out[e, k] = item


@reassociated
def fill_mask(mask: FloatArray, keep: float, word: np.uint64) -> None:
    """Fill with 1 / keep, with probability ``keep`` (to 1 / 65536), or 0."""
    bound = np.uint64(keep * 65536.0)
    weight = np.float32(1.0 / keep)
    bits = np.uint64(0)
    for k in range(len(mask)):
        if k % 4 == 0:  # sixteen bits decide
            word += GOLDEN
            bits = mix64(word)
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
            fill_mask(mask, keep, mix64(start + np.uint64(e) * GOLDEN))
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
            word = mix64(start + np.uint64(e) * GOLDEN)
            fill_mask(plus, keep, word)
            fill_mask(minus, keep, mix64(word))
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


@fused
def score_tower_pairs(
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
        candidates = items[row if len(items) > 1 else 0]
        for column in range(len(candidates)):
            i = candidates[column]
            total = user_bias[u] + item_bias[i]
            for k in range(user_product.shape[1]):
                total += user_product[u, k] * item_product[i, k]
            if n_layers > 0:
                for k in range(sizes[0]):
                    x = user_hidden[u, k] + item_hidden[i, k]
                    below[k] = x if x > zero or (is_last_linear and n_layers == 1) else zero
                offset = 0
                for layer in range(1, n_layers):
                    n_in, n_out = sizes[layer - 1], sizes[layer]
                    bias = offset + n_in * n_out
                    for o in range(n_out):
                        above[o] = weights[bias + o]
                    for k in range(n_in):
                        x = below[k]
                        if x != zero:
                            start = offset + k * n_out
                            for o in range(n_out):
                                above[o] += x * weights[start + o]
                    is_linear = is_last_linear and layer == n_layers - 1
                    for o in range(n_out):
                        below[o] = above[o] if above[o] > zero or is_linear else zero
                    offset = bias + n_out
                for k in range(sizes[n_layers - 1]):
                    total += below[k] * weights[offset + k]
            out[row, column] = total
