"""The bipartite graph of users and items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.strategy import at_most, wanted
from truerank.core.types import BoolArray, IntArray, frozen
from truerank.subsample.key import EventKeys, Keys, unit_keys
from truerank.subsample.selection import keep_in_order


@dataclass(frozen=True, eq=False)
class Graph:
    """Users and items as nodes, events as edges; a repeated pair is a repeated edge.

    Nodes are numbered users first, then items. Neighbours stand in ascending order, so that the graph does
    not depend on the order of the events.

    Parameters
    ----------
    indptr : (n_nodes + 1,) int64, node v's neighbours lie at ``indptr[v]:indptr[v + 1]``
    neighbours : (2 n_events,) int32 nodes
    n_users : nodes that are users

    Examples
    --------
    >>> graph = Graph.of(Interactions.from_codes([1, 0, 0], [0, 1, 0]))
    >>> graph.indptr.tolist(), graph.neighbours.tolist()
    ([0, 2, 3, 5, 6], [2, 3, 2, 0, 1, 0])
    """

    indptr: IntArray
    neighbours: IntArray
    n_users: int

    @classmethod
    def of(cls, train: Interactions) -> Graph:
        """Build the graph; 8 bytes per event and three passes over the events in compiled code."""
        from truerank.subsample.kernels.graph import link

        n_users, n_nodes = train.n_users, train.n_users + train.n_items
        indptr = np.zeros(n_nodes + 1, dtype=np.int64)
        indptr[1:] = np.cumsum(np.concatenate([train.user_counts(), train.item_counts()]))
        neighbours = np.empty(2 * len(train), dtype=np.int32)
        user, item = (frozen(codes.astype(np.int32, copy=False)) for codes in (train.user, train.item))
        link(user, item, n_users, indptr, neighbours)
        return cls(frozen(indptr), frozen(neighbours), n_users)

    @property
    def n_nodes(self) -> int:
        """Users and items, with and without events."""
        return len(self.indptr) - 1

    def degrees(self) -> IntArray:
        """Return the number of events of each node."""
        return np.diff(self.indptr)

    def keys(self, seed: int, stage: str) -> Keys:
        """Return one random key per node."""
        n_items = self.n_nodes - self.n_users
        return np.concatenate([unit_keys(seed, stage, self.n_users), unit_keys(seed, stage, n_items, side=1)])


def keep_nodes(
    train: Interactions, place: IntArray, fraction: float, keys: EventKeys, *, edges: str, exact: bool
) -> BoolArray:
    """Keep the events that the nodes of smallest place bring.

    ``place`` holds the users' places, then the items'; a node of place ``len(place)`` brings nothing.
    """
    n, of_user, of_item = len(train), place[: train.n_users], place[train.n_users :]
    later = np.minimum if edges == "any" else np.maximum

    def place_of(block: slice) -> IntArray:
        joint: IntArray = later(of_user[train.user[block]], of_item[train.item[block]])
        return joint

    n_keep = wanted(fraction, n) if exact else at_most(fraction, n)
    return keep_in_order(place_of, len(place), n, n_keep, keys if exact else None)
