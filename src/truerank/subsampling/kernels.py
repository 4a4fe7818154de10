"""Compiled loops of the sub-sampling strategies.

The smallest score that each group keeps; the errors of a factor model at each event, with negatives sampled
from the items a user has not met; the bipartite graph of users and items, half a sweep of PageRank on it,
random walks and forest fires.

Walks and fires write when each node is visited into ``position`` (``len(position)`` stays for nodes not
visited) and stop when the visited nodes have ``n_wanted`` events among them, or when no node is left.
"""

from __future__ import annotations

import numpy as np

from truerank.core.jit import compiled
from truerank.core.random_compiled import next_word
from truerank.core.types import FloatArray, IntArray


@compiled
def list_rows(group: IntArray, free: IntArray, rows: IntArray) -> None:
    """Write the rows of each group one after the other; ``free`` holds where each group begins."""
    for row in range(len(group)):
        slot = free[group[row]]
        rows[slot] = row
        free[group[row]] = slot + 1


@compiled
def cut_groups(
    indptr: IntArray, rows: IntArray, bits: IntArray, quota: IntArray, first: int, last: int, cuts: IntArray
) -> None:
    """Write the quota-th largest word of the groups first..last-1 that have a quota."""
    longest = 0
    for g in range(first, last):
        longest = max(longest, indptr[g + 1] - indptr[g])
    scratch = np.empty(longest, dtype=np.uint64)
    for g in range(first, last):
        if quota[g] > 0:
            size = indptr[g + 1] - indptr[g]
            for k in range(size):
                scratch[k] = bits[rows[indptr[g] + k]]
            words = scratch[:size]
            words.sort()
            cuts[g] = words[size - quota[g]]


@compiled
def link_events(user: IntArray, item: IntArray, n_users: int, indptr: IntArray, neighbours: IntArray) -> None:
    """Fill the sorted neighbours of users 0..n_users-1 and of the items behind them.

    Users' lists are filled in the order of the events, items' lists from them user by user, hence sorted, and
    users' lists again from those item by item.
    """
    free = indptr[:-1].copy()
    for event in range(len(user)):
        neighbours[free[user[event]]] = item[event] + n_users
        free[user[event]] += 1
    for user_node in range(n_users):
        for entry in range(indptr[user_node], indptr[user_node + 1]):
            item_node = neighbours[entry]
            neighbours[free[item_node]] = user_node
            free[item_node] += 1
    for user_node in range(n_users):
        free[user_node] = indptr[user_node]
    for item_node in range(n_users, len(free)):
        for entry in range(indptr[item_node], indptr[item_node + 1]):
            user_node = neighbours[entry]
            neighbours[free[user_node]] = item_node
            free[user_node] += 1


@compiled
def page_rank_sweep(
    indptr: IntArray,
    neighbours: IntArray,
    base: float,
    damping: float,
    first: int,
    last: int,
    flow: FloatArray,
    score: FloatArray,
) -> float:
    """Update the scores of nodes first..last-1 from their neighbours' and return the sum of changes.

    ``flow`` holds score / degree of every node and is updated with the scores. No other call of the same half
    sweep reads these entries, because the neighbours of users are items and vice versa.
    """
    change = 0.0
    for node in range(first, last):
        degree = indptr[node + 1] - indptr[node]
        if degree > 0:
            total = 0.0
            for entry in range(indptr[node], indptr[node + 1]):
                total += flow[neighbours[entry]]
            new = base + damping * total
            change += abs(new - score[node])
            score[node] = new
            flow[node] = new / degree
    return change


_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@compiled
def next_uniform(state: IntArray) -> float:
    """Return a number in [0, 1), a multiple of 2**-53."""
    return float(next_word(state) >> np.uint64(11)) * 2.0**-53


@compiled
def uniform_below(state: IntArray, n: int) -> int:
    """Return an integer in 0..n-1, all equally likely; n is at most 2**32.

    The upper half of a word is scaled to n and rejected where that would favour a number.
    """
    size = np.uint64(n)
    product = (next_word(state) >> _HALF) * size
    if (product & _LOW) < size:
        least = (np.uint64(1 << 32) - size) % size
        while (product & _LOW) < least:
            product = (next_word(state) >> _HALF) * size
    return int(product >> _HALF)


@compiled
def sample_unmet(
    indptr: IntArray,
    met: IntArray,
    n_items: int,
    user: IntArray,
    keys: IntArray,
    word: np.uint64,
    out: IntArray,
) -> None:
    """Fill row e with items that ``user[e]`` has not met, uniformly and with replacement.

    Row e is a function of its key and the word alone. -1 for a user who has met all items.
    """
    state = np.empty(1, np.uint64)
    for e in range(len(user)):
        first, last = indptr[user[e]], indptr[user[e] + 1]
        n_unmet = n_items - (last - first)
        state[0] = keys[e] ^ word
        for k in range(out.shape[1]):
            out[e, k] = -1
            if n_unmet > 0:
                index = uniform_below(state, n_unmet)  # index among the unmet items in their order
                low, high = first, last
                while low < high:  # number of met items before it
                    middle = (low + high) >> 1
                    if met[middle] - (middle - first) <= index:
                        low = middle + 1
                    else:
                        high = middle
                out[e, k] = index + (low - first)


@compiled
def factor_score(U: FloatArray, V: FloatArray, bias: FloatArray, user: int, item: int) -> float:
    """Return the score of a pair, summed in float64 and in the order of the factors."""
    total = 0.0
    for k in range(U.shape[1]):
        total += np.float64(U[user, k]) * np.float64(V[item, k])  # float() would leave it at float32
    return float(total + np.float64(bias[item]))


@compiled
def add_lost(
    user: IntArray,
    item: IntArray,
    negative: IntArray,
    U: FloatArray,
    V: FloatArray,
    bias: FloatArray,
    ties: bool,
    total: FloatArray,
) -> None:
    """Add the number of negatives that score above each event, with ``ties`` also of those that tie."""
    for e in range(len(user)):
        event_score = factor_score(U, V, bias, user[e], item[e])
        for k in range(negative.shape[1]):
            if negative[e, k] >= 0:
                negative_score = factor_score(U, V, bias, user[e], negative[e, k])
                if negative_score > event_score or (ties and negative_score == event_score):
                    total[e] += 1.0
                elif np.isnan(event_score) or np.isnan(negative_score):
                    total[e] = np.nan


@compiled
def add_squared(
    user: IntArray,
    item: IntArray,
    value: FloatArray,
    U: FloatArray,
    V: FloatArray,
    bias: FloatArray,
    total: FloatArray,
) -> None:
    """Add the squared error of each event's rating."""
    for e in range(len(user)):
        error = factor_score(U, V, bias, user[e], item[e]) - value[e]
        total[e] += error * error


BACKLOG = 100  # neighbours that did not burn and are remembered
HOP = 10  # of them, from how many a fire that has died down goes on


@compiled
def mark_visited(indptr: IntArray, neighbours: IntArray, node: int, n_seen: int, position: IntArray) -> int:
    """Mark a node as visited and return how many events it has with nodes visited before."""
    position[node] = n_seen
    count = 0
    for k in range(indptr[node], indptr[node + 1]):
        if position[neighbours[k]] < len(position):
            count += 1
    return count


@compiled
def random_walk(
    indptr: IntArray,
    neighbours: IntArray,
    starts: IntArray,
    restart: float,
    patience: int,
    n_wanted: int,
    most_nodes: int,
    state: IntArray,
    position: IntArray,
) -> None:
    """Walk from each start in turn; a walk ends after ``patience`` steps per node it has found.

    All end when the visited nodes have ``n_wanted`` events among them, or are ``most_nodes``.
    """
    unseen, n_seen, n_events = len(position), 0, 0
    for start in starts:
        if n_events >= n_wanted or n_seen >= most_nodes:
            return
        if position[start] < unseen:
            continue
        n_events += mark_visited(indptr, neighbours, start, n_seen, position)
        n_seen += 1
        at, n_found, steps = start, 1, 0
        while n_events < n_wanted and n_seen < most_nodes and steps < patience * n_found:
            steps += 1
            if next_uniform(state) < restart:
                at = start
                continue
            at = neighbours[indptr[at] + uniform_below(state, indptr[at + 1] - indptr[at])]
            if position[at] == unseen:
                n_events += mark_visited(indptr, neighbours, at, n_seen, position)
                n_seen += 1
                n_found += 1


@compiled
def forest_fire(
    indptr: IntArray,
    neighbours: IntArray,
    starts: IntArray,
    probability: float,
    n_wanted: int,
    most_nodes: int,
    state: IntArray,
    position: IntArray,
) -> None:
    """Let a fire spread from each start in turn until it dies down.

    A burning node ignites a geometric number (support 1, 2, ...) of its neighbours not visited; some of the
    others are remembered, the newest first, and a fire that has died down goes on from them. All end when
    the visited nodes have ``n_wanted`` events among them, or are ``most_nodes``.
    """
    unseen, n_seen, n_events = len(position), 0, 0
    longest = 0
    for node in range(unseen):
        longest = max(longest, indptr[node + 1] - indptr[node])
    fresh = np.empty(longest, dtype=np.int32)
    queue = np.empty(unseen, dtype=np.int32)  # in the order of visits
    backlog = np.empty(BACKLOG, dtype=np.int32)
    for start in starts:
        if n_events >= n_wanted or n_seen >= most_nodes:
            return
        if position[start] < unseen:
            continue
        burning = n_seen
        queue[n_seen] = start
        n_events += mark_visited(indptr, neighbours, start, n_seen, position)
        n_seen += 1
        newest, n_left = 0, 0
        while n_events < n_wanted and n_seen < most_nodes:
            if burning == n_seen:  # died down
                if n_left == 0:
                    break
                for _ in range(min(HOP, n_left)):
                    newest -= 1
                    n_left -= 1
                    node = backlog[newest % BACKLOG]
                    if position[node] == unseen and n_events < n_wanted and n_seen < most_nodes:
                        queue[n_seen] = node
                        n_events += mark_visited(indptr, neighbours, node, n_seen, position)
                        n_seen += 1
                continue
            node = queue[burning]
            burning += 1
            size = 0
            for k in range(indptr[node], indptr[node + 1]):
                # repeated pairs are adjacent entries
                is_new = k == indptr[node] or neighbours[k] != neighbours[k - 1]
                if is_new and position[neighbours[k]] == unseen:
                    fresh[size] = neighbours[k]
                    size += 1
            count = min(1, size)
            while count < size and next_uniform(state) >= probability:
                count += 1
            for k in range(min(size, count + BACKLOG)):
                other = k + uniform_below(state, size - k)
                fresh[k], fresh[other] = fresh[other], fresh[k]
                if k >= count:
                    backlog[newest % BACKLOG] = fresh[k]
                    newest += 1
                    n_left = min(n_left + 1, BACKLOG)
                elif n_events < n_wanted and n_seen < most_nodes:
                    queue[n_seen] = fresh[k]
                    n_events += mark_visited(indptr, neighbours, fresh[k], n_seen, position)
                    n_seen += 1
