"""Visits of nodes by random walks and by forest fires.

Both write the number of each node's visit into ``place`` (``len(place)`` stays for those not visited) and
stop when the visited nodes have ``n_wanted`` events among them, or when there is nothing left to visit.
"""

from __future__ import annotations

import numpy as np

from truerank.core.jit import compiled
from truerank.core.types import IntArray
from truerank.subsample.kernels.word import below, uniform

BACKLOG = 100  # neighbours that did not burn and are remembered
HOP = 10  # of them, how many a fire that died down goes on from


@compiled
def visit(indptr: IntArray, neighbours: IntArray, node: int, n_seen: int, place: IntArray) -> int:
    """Mark a node as visited and return how many events it has with nodes visited before."""
    place[node] = n_seen
    count = 0
    for k in range(indptr[node], indptr[node + 1]):
        if place[neighbours[k]] < len(place):
            count += 1
    return count


@compiled
def walk(
    indptr: IntArray,
    neighbours: IntArray,
    starts: IntArray,
    restart: float,
    patience: int,
    n_wanted: int,
    state: IntArray,
    place: IntArray,
) -> None:
    """Walk from each start in turn; a walk is given up after ``patience`` steps per node it found."""
    unseen, n_seen, n_events = len(place), 0, 0
    for start in starts:
        if n_events >= n_wanted:
            return
        if place[start] < unseen:
            continue
        n_events += visit(indptr, neighbours, start, n_seen, place)
        n_seen += 1
        at, found, steps = start, 1, 0
        while n_events < n_wanted and steps < patience * found:
            steps += 1
            if uniform(state) < restart:
                at = start
                continue
            at = neighbours[indptr[at] + below(state, indptr[at + 1] - indptr[at])]
            if place[at] == unseen:
                n_events += visit(indptr, neighbours, at, n_seen, place)
                n_seen += 1
                found += 1


@compiled
def burn(
    indptr: IntArray,
    neighbours: IntArray,
    starts: IntArray,
    chance: float,
    n_wanted: int,
    state: IntArray,
    place: IntArray,
) -> None:
    """Let a fire spread from each start in turn until it dies down.

    A burning node sets fire to a geometric number (support 1, 2, ...) of its neighbours not visited; some of
    the others are remembered, the newest first, and a fire that has died down goes on from them.
    """
    unseen, n_seen, n_events = len(place), 0, 0
    longest = 0
    for node in range(unseen):
        longest = max(longest, indptr[node + 1] - indptr[node])
    fresh = np.empty(longest, dtype=np.int32)
    queue = np.empty(unseen, dtype=np.int32)  # in the order of visits
    backlog = np.empty(BACKLOG, dtype=np.int32)
    for start in starts:
        if n_events >= n_wanted:
            return
        if place[start] < unseen:
            continue
        burning = n_seen
        queue[n_seen] = start
        n_events += visit(indptr, neighbours, start, n_seen, place)
        n_seen += 1
        newest, n_left = 0, 0
        while n_events < n_wanted:
            if burning == n_seen:  # died down
                if n_left == 0:
                    break
                for _ in range(min(HOP, n_left)):
                    newest -= 1
                    n_left -= 1
                    node = backlog[newest % BACKLOG]
                    if place[node] == unseen and n_events < n_wanted:
                        queue[n_seen] = node
                        n_events += visit(indptr, neighbours, node, n_seen, place)
                        n_seen += 1
                continue
            node = queue[burning]
            burning += 1
            size = 0
            for k in range(indptr[node], indptr[node + 1]):
                # a repeated pair stands in neighbouring places
                is_new = k == indptr[node] or neighbours[k] != neighbours[k - 1]
                if is_new and place[neighbours[k]] == unseen:
                    fresh[size] = neighbours[k]
                    size += 1
            count = min(1, size)
            while count < size and uniform(state) >= chance:
                count += 1
            for k in range(min(size, count + BACKLOG)):
                other = k + below(state, size - k)
                fresh[k], fresh[other] = fresh[other], fresh[k]
                if k >= count:
                    backlog[newest % BACKLOG] = fresh[k]
                    newest += 1
                    n_left = min(n_left + 1, BACKLOG)
                elif n_events < n_wanted:
                    queue[n_seen] = fresh[k]
                    n_events += visit(indptr, neighbours, fresh[k], n_seen, place)
                    n_seen += 1
