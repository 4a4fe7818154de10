"""Build and search the bipartite graph."""

from __future__ import annotations

from truerank.core.jit import compiled
from truerank.core.types import IntArray


@compiled
def link(user: IntArray, item: IntArray, n_users: int, indptr: IntArray, neighbours: IntArray) -> None:
    """Fill the sorted neighbours of users 0..n_users-1 and of the items behind them.

    Users' lists are filled in the order of the events, items' lists from them user by user, hence sorted, and
    users' lists again from those item by item.
    """
    free = indptr[:-1].copy()
    for event in range(len(user)):
        neighbours[free[user[event]]] = item[event] + n_users
        free[user[event]] += 1
    for who in range(n_users):
        for place in range(indptr[who], indptr[who + 1]):
            what = neighbours[place]
            neighbours[free[what]] = who
            free[what] += 1
    for who in range(n_users):
        free[who] = indptr[who]
    for what in range(n_users, len(free)):
        for place in range(indptr[what], indptr[what + 1]):
            who = neighbours[place]
            neighbours[free[who]] = what
            free[who] += 1
