"""Events among the users and items that a walk or a fire comes to."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.check import check_at_least
from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.progress import Progress, tracked
from truerank.core.source import Source
from truerank.core.strategy import Strategy, wanted
from truerank.core.stream import stage_key
from truerank.core.types import BoolArray, IntArray, frozen
from truerank.subsample.graph import Graph, keep_nodes
from truerank.subsample.key import EventKeys


@dataclass(frozen=True)
class VisitStrategy(Strategy):
    """A strategy that visits nodes one after the other and keeps the events among those visited.

    Parameters
    ----------
    exact : keep exactly the asked number of events by keeping a random part of those the last node brings;
        otherwise that node is left out as a whole
    """

    exact: bool = True

    def choose(self, train: Interactions, fraction: float, seed: int, progress: Progress) -> BoolArray:
        """Visit until there are enough events, beginning anew at random nodes where it ends too early."""
        stage = f"subsample/{self.key}"
        with tracked(progress, "building the graph"):
            graph = Graph.of(train)
        starts = np.argsort(graph.keys(seed, stage))
        starts = frozen(starts[graph.degrees()[starts] > 0].astype(np.int32))
        state = np.array([stage_key(seed, stage)[0]], dtype=np.uint64)
        place = np.full(graph.n_nodes, graph.n_nodes, dtype=np.int32)
        with tracked(progress, "visiting users and items"):
            self.visit(graph, starts, wanted(fraction, len(train)), state, place)
        keys = EventKeys(train, seed, stage)
        return keep_nodes(train, place, fraction, keys, edges="both", exact=self.exact)

    @abstractmethod
    def visit(self, graph: Graph, starts: IntArray, n_wanted: int, state: IntArray, place: IntArray) -> None:
        """Write the number of each node's visit into ``place`` until ``n_wanted`` events are among them.

        Parameters
        ----------
        graph : users and items
        starts : nodes with events in random order; visits begin at the first that is not visited yet
        n_wanted : events
        state : (1,) uint64, of the random words
        place : (n_nodes,) filled with n_nodes
        """


@dataclass(frozen=True)
class RandomWalk(VisitStrategy):
    """Events among the users and items that a random walk with restarts visits.

    The walk begins at a random node and goes on to a random neighbour, or back to where it began. It is given
    up after ``patience`` steps per node it has found, and another begins at a random node not visited yet: at
    most ``patience`` steps per node in all, on every graph.

    Parameters
    ----------
    exact : see `VisitStrategy`
    restart : probability of going back, 0 <= restart <= 1
    patience : steps per node found

    Notes
    -----
    The paper expands walks until enough events are retained, which this does. The published code walks until
    a share of the *nodes* is visited, from one node and forever where that lies in a small component.

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

    def visit(self, graph: Graph, starts: IntArray, n_wanted: int, state: IntArray, place: IntArray) -> None:
        """Walk."""
        from truerank.subsample.kernels.walk import walk

        walk(
            graph.indptr,
            graph.neighbours,
            starts,
            float(self.restart),
            int(self.patience),
            n_wanted,
            state,
            place,
        )


@dataclass(frozen=True)
class ForestFire(VisitStrategy):
    """Events among the users and items that a spreading fire burns.

    A burning node sets fire to a geometric number of random neighbours that have not burned (mean 1 / burn,
    at least one). Up to 100 of those that did not catch fire are remembered; a fire that has died down goes
    on from the ten newest of them, or else begins anew at a random node. Every node burns at most once.

    Parameters
    ----------
    exact : see `VisitStrategy`
    burn : parameter of the geometric number, 0 < burn <= 1; 1 sets fire to one neighbour each

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

    def visit(self, graph: Graph, starts: IntArray, n_wanted: int, state: IntArray, place: IntArray) -> None:
        """Burn."""
        from truerank.subsample.kernels.walk import burn

        burn(graph.indptr, graph.neighbours, starts, float(self.burn), n_wanted, state, place)
