"""Strategies on the bipartite graph of users and items: PageRank, random walks and forest fires.

Users and items are nodes, events are edges (`EventGraph`). Each strategy puts the nodes into an order, by
centrality or by when they are visited, and keeps the events of the first nodes until there are enough.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from truerank.core.errors import InvalidParameter, NotConverged, check_above, check_at_least, check_choice
from truerank.core.interactions import Interactions
from truerank.core.parallel import available_threads, ordered_map
from truerank.core.plugin import Source
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.random import stage_key
from truerank.core.types import BoolArray, FloatArray, IntArray, frozen
from truerank.subsampling.base import Strategy, largest_count, nearest_count
from truerank.subsampling.selection import EventKeys, Keys, descending_order, keep_in_order, unit_keys


@dataclass(frozen=True, eq=False)
class EventGraph:
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
    >>> graph = EventGraph.of(Interactions.from_codes([1, 0, 0], [0, 1, 0]))
    >>> graph.indptr.tolist(), graph.neighbours.tolist()
    ([0, 2, 3, 5, 6], [2, 3, 2, 0, 1, 0])
    """

    indptr: IntArray
    neighbours: IntArray
    n_users: int

    @classmethod
    def of(cls, train: Interactions) -> EventGraph:
        """Build the graph; 8 bytes per event and three passes over the events in compiled code."""
        from truerank.subsampling.kernels import link_events

        n_users, n_nodes = train.n_users, train.n_users + train.n_items
        indptr = np.zeros(n_nodes + 1, dtype=np.int64)
        indptr[1:] = np.cumsum(np.concatenate([train.user_counts(), train.item_counts()]))
        neighbours = np.empty(2 * len(train), dtype=np.int32)
        user, item = (frozen(codes.astype(np.int32, copy=False)) for codes in (train.user, train.item))
        link_events(user, item, n_users, indptr, neighbours)
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
    train: Interactions, position: IntArray, fraction: float, keys: EventKeys, *, edges: str, exact: bool
) -> BoolArray:
    """Keep the events of the first nodes in an order.

    ``position`` holds the positions of the users in that order, then those of the items; a node at position
    ``len(position)`` is not part of it and its events are not kept.
    """
    n, of_user, of_item = len(train), position[: train.n_users], position[train.n_users :]
    later = np.minimum if edges == "any" else np.maximum

    def position_of(block: slice) -> IntArray:
        joint: IntArray = later(of_user[train.user[block]], of_item[train.item[block]])
        return joint

    n_keep = nearest_count(fraction, n) if exact else largest_count(fraction, n)
    return keep_in_order(position_of, len(position), n, n_keep, keys if exact else None)


_LEGACY_DAMPING = 1e-6
_MOST_SWEEPS = 10_000
THREADED_FROM = 1 << 17  # events; below, handing work to threads costs more than it saves


@dataclass(frozen=True)
class Centrality(Strategy):
    """Events of the users and items of highest PageRank.

    Nodes are taken in descending order of PageRank, each with its events, until there are enough events.

    Parameters
    ----------
    damping : probability to follow an event rather than to jump, 0 <= damping < 1
    tolerance : largest sum of the errors of the scores, relative to the damping, which is the part of the
        scores that comes along events (all scores add up to 1)
    edges : which events belong to a set of nodes: ``any`` event of one of them, as the paper says (retain all
        the events of the top nodes), or those whose user and item are ``both`` among them, as the code does
        (remove the lowest nodes with all their events)
    exact : keep exactly the wanted number of events by keeping a random part of the last node's events;
        otherwise that node is left out as a whole
    legacy : what the published code computes: damping 1e-6, because it gives its tolerance as damping, and
        ``edges=both``; use it with ``exact=false``

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 2, 3], [0, 1, 0, 0, 2])
    >>> events.item[Centrality().keep(events, 0.6)].tolist()
    [0, 0, 0]
    """

    key: ClassVar[str] = "centrality"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.2, centrality-based")
    damping: float = 0.85
    tolerance: float = 1e-9
    edges: Literal["any", "both"] = "any"
    exact: bool = True
    legacy: bool = False

    def __post_init__(self) -> None:
        check_choice("edges", self.edges, ("any", "both"))
        check_above("tolerance", self.tolerance, 0)
        if not 0 <= self.damping < 1:
            raise InvalidParameter(f"damping must be at least 0 and less than 1, got {self.damping!r}.")
        if self.legacy and (self.damping != Centrality.damping or self.edges != Centrality.edges):
            raise InvalidParameter(
                "legacy fixes damping and edges. Leave them out or leave legacy out of centrality(...)."
            )

    def choose(self, train: Interactions, fraction: float, seed: int, progress: Progress) -> BoolArray:
        """Keep the events of the nodes with the highest scores."""
        stage = "subsample/centrality"
        graph = EventGraph.of(train)
        damping = _LEGACY_DAMPING if self.legacy else self.damping
        scores = page_rank(graph, damping=damping, tolerance=self.tolerance, progress=progress)
        # nodes differ by what comes along events; in float32 those that differ by rounding only are tied
        along_events = scores - (1 - damping) / int((graph.degrees() > 0).sum())
        position = descending_order(along_events.astype(np.float32), graph.keys(seed, stage))
        edges = "both" if self.legacy else self.edges
        keys = EventKeys(train, seed, stage)
        return keep_nodes(train, position, fraction, keys, edges=edges, exact=self.exact)


def page_rank(
    graph: EventGraph, *, damping: float = 0.85, tolerance: float = 1e-9, progress: Progress = SILENT
) -> FloatArray:
    """Return the PageRank of every node, 0 for nodes without events; the others add up to 1.

    Users are updated from items, then items from the updated users, which takes half the sweeps of updating
    all nodes at once. The first scores are proportional to the degrees, and those of users and those of items
    have the sums that they have in the solution.

    Raises
    ------
    NotConverged
        When the error bound is above the tolerance after 10,000 sweeps, for a damping very near to 1.

    Notes
    -----
    A sweep shrinks the error by damping squared, so the last change bounds what is left. Sums run over sorted
    neighbours: the number of threads does not change a bit.

    Examples
    --------
    >>> graph = EventGraph.of(Interactions.from_codes([0, 1], [0, 1]))
    >>> page_rank(graph).round(6).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    from truerank.subsampling.kernels import page_rank_sweep

    degrees, n_users = graph.degrees(), graph.n_users
    n_linked = np.array([(degrees[:n_users] > 0).sum(), (degrees[n_users:] > 0).sum()])
    base = (1 - damping) / max(int(n_linked.sum()), 1)
    # at the solution: sum over users = base * n_users + damping * sum over items, and vice versa
    sums = base * (n_linked + damping * n_linked[::-1]) / (1 - damping**2)
    n_events = max(len(graph.neighbours) // 2, 1)
    flow = np.repeat(sums / n_events, [n_users, graph.n_nodes - n_users])
    score = flow * degrees
    n_threads = available_threads() if n_events >= THREADED_FROM else 1
    sides = [_spans(graph.indptr, *side, n_threads) for side in ((0, n_users), (n_users, graph.n_nodes))]

    def update(span: tuple[int, int]) -> float:
        return page_rank_sweep(graph.indptr, graph.neighbours, base, damping, *span, flow, score)

    remaining = damping**2 / (1 - damping**2)
    with tracked(progress, "computing PageRank") as task:
        for _ in range(_MOST_SWEEPS):
            change = sum(
                change for side in sides for change in ordered_map(update, side, n_threads=n_threads)
            )
            task.advance()
            if change * remaining <= tolerance * damping:
                return score
    raise NotConverged(
        f"PageRank must reach the tolerance {tolerance}, but its error may still be "
        f"{change * remaining / damping:.2g} after {_MOST_SWEEPS} sweeps. "
        "Lower the damping or raise the tolerance.",
        score,
    )


def _spans(indptr: IntArray, first: int, last: int, n_threads: int) -> list[tuple[int, int]]:
    """Divide nodes first..last-1 into parts of about equally many events."""
    marks = np.linspace(indptr[first], indptr[last], 4 * n_threads + 1)[1:-1]
    cuts = [first, *np.clip(np.searchsorted(indptr, marks), first, last).tolist(), last]
    return [span for span in itertools.pairwise(cuts) if span[0] < span[1]]


@dataclass(frozen=True)
class VisitStrategy(Strategy):
    """A strategy that visits nodes one after the other and keeps the events among those visited.

    Parameters
    ----------
    exact : keep exactly the wanted number of events by keeping a random part of the last node's events;
        otherwise that node is left out as a whole
    legacy : what the published code does: visit the fraction of the *nodes*, then remove the nodes that were
        not visited with all their events, users before items and each in the order of their codes, until
        enough events are gone; where all of them are gone before that, visit the same fraction of the
        nodes that are left, and so on. Use it with ``exact=false``
    """

    exact: bool = True
    legacy: bool = False

    def choose(self, train: Interactions, fraction: float, seed: int, progress: Progress) -> BoolArray:
        """Visit nodes until there are enough events, from another random start whenever one ends early."""
        stage = f"subsample/{self.key}"
        state = np.array([stage_key(seed, stage)[0]], dtype=np.uint64)
        if self.legacy:
            position = self._last_removed_first(train, fraction, seed, state, progress)
        else:
            with tracked(progress, "building the graph"):
                graph = EventGraph.of(train)
            with tracked(progress, "visiting users and items"):
                position = self._visited(graph, seed, state, nearest_count(fraction, len(train)))
        keys = EventKeys(train, seed, stage)
        return keep_nodes(train, position, fraction, keys, edges="both", exact=self.exact)

    def _visited(
        self, graph: EventGraph, seed: int, state: IntArray, n_wanted: int, most_nodes: int | None = None
    ) -> IntArray:
        """Return when each node is visited, n_nodes for those that are not."""
        starts = np.argsort(graph.keys(seed, f"subsample/{self.key}"))
        starts = frozen(starts[graph.degrees()[starts] > 0].astype(np.int32))
        position = np.full(graph.n_nodes, graph.n_nodes, dtype=np.int32)
        most = graph.n_nodes if most_nodes is None else most_nodes
        self.visit(graph, starts, n_wanted, most, state, position)
        return position

    def _last_removed_first(
        self, train: Interactions, fraction: float, seed: int, state: IntArray, progress: Progress
    ) -> IntArray:
        """Return the position of each node: 0 where it stays, and later the sooner it is removed."""
        n_nodes = train.n_users + train.n_items
        n_keep = (nearest_count if self.exact else largest_count)(fraction, len(train))
        position, is_gone, left = np.zeros(n_nodes, dtype=np.int32), np.zeros(n_nodes, dtype=np.bool_), train
        with tracked(progress, "visiting users and items") as task:
            while len(left) > n_keep:
                graph = EventGraph.of(left)
                is_linked = graph.degrees() > 0
                n_linked = int(is_linked.sum())
                most = max(1, min(nearest_count(fraction, n_linked), n_linked - 1))
                visited = self._visited(graph, seed, state, len(left) + 1, most) < n_nodes
                removed = np.flatnonzero(is_linked & ~visited)
                position[removed] = n_nodes - 1 - int(is_gone.sum()) - np.arange(len(removed))
                is_gone[removed] = True
                of_item = is_gone[train.n_users :]
                left = left.where(~(is_gone[left.user] | of_item[left.item]))
                task.advance()
        return position

    @abstractmethod
    def visit(
        self,
        graph: EventGraph,
        starts: IntArray,
        n_wanted: int,
        most_nodes: int,
        state: IntArray,
        position: IntArray,
    ) -> None:
        """Write when each node is visited into ``position`` until the visited nodes have ``n_wanted`` events.

        Parameters
        ----------
        graph : users and items
        starts : nodes with events in random order; visits begin at the first that is not visited yet
        n_wanted : events
        most_nodes : nodes; visits end when that many are visited, however few events they have
        state : (1,) uint64, state of the random number generator
        position : (n_nodes,) filled with n_nodes
        """


@dataclass(frozen=True)
class RandomWalk(VisitStrategy):
    """Events among the users and items that a random walk with restarts visits.

    The walk starts at a random node and goes on to a random neighbour, or back to its start. It ends after
    ``patience`` steps per node it has found, and another one starts at a random node not visited yet: at most
    ``patience`` steps per node in all, on every graph.

    Parameters
    ----------
    exact, legacy : see `VisitStrategy`
    restart : probability of going back to the start, 0 <= restart <= 1
    patience : steps per node found after which a walk ends

    Notes
    -----
    The paper expands walks until enough events are retained, which this does. The published code (``legacy``)
    walks until a fraction of the *nodes* is visited, always with the seed 42, from one node, and never ends
    where that node lies in a small component; here the seed counts and another walk starts.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 0])
    >>> int(RandomWalk().keep(events, 0.5).sum())
    3
    """

    key: ClassVar[str] = "random-walk"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.2, random-walk")
    restart: float = 0.1
    patience: int = 100

    def __post_init__(self) -> None:
        check_at_least("patience", self.patience, 1)
        if not 0 <= self.restart <= 1:
            raise InvalidParameter(f"restart must be a probability from 0 to 1, got {self.restart!r}.")

    def visit(
        self,
        graph: EventGraph,
        starts: IntArray,
        n_wanted: int,
        most_nodes: int,
        state: IntArray,
        position: IntArray,
    ) -> None:
        """Walk in compiled code."""
        from truerank.subsampling.kernels import random_walk

        random_walk(
            graph.indptr,
            graph.neighbours,
            starts,
            float(self.restart),
            int(self.patience),
            n_wanted,
            most_nodes,
            state,
            position,
        )


@dataclass(frozen=True)
class ForestFire(VisitStrategy):
    """Events among the users and items that a spreading fire burns.

    A burning node ignites a geometric number of random neighbours that have not burned (mean 1 / burn, at
    least one). Up to 100 of those it did not ignite are remembered; a fire that has died down goes on from
    the ten newest of them, or else starts again at a random node. Every node burns at most once.

    Parameters
    ----------
    exact, legacy : see `VisitStrategy`
    burn : parameter of the geometric number, 0 < burn <= 1; with 1 each node ignites one neighbour

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 0])
    >>> int(ForestFire().keep(events, 0.5).sum())
    3
    """

    key: ClassVar[str] = "forest-fire"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.2, forest-fire")
    burn: float = 0.4

    def __post_init__(self) -> None:
        if not 0 < self.burn <= 1:
            raise InvalidParameter(f"burn must be greater than 0 and at most 1, got {self.burn!r}.")

    def visit(
        self,
        graph: EventGraph,
        starts: IntArray,
        n_wanted: int,
        most_nodes: int,
        state: IntArray,
        position: IntArray,
    ) -> None:
        """Let the fire spread in compiled code."""
        from truerank.subsampling.kernels import forest_fire

        forest_fire(
            graph.indptr,
            graph.neighbours,
            starts,
            float(self.burn),
            n_wanted,
            most_nodes,
            state,
            position,
        )
