"""Events of the most central users and items."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from truerank.core.check import check_above, check_choice
from truerank.core.errors import InvalidParameter, NotConverged
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.source import Source
from truerank.core.strategy import Strategy
from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.subsample.graph import Graph, keep_nodes
from truerank.subsample.key import EventKeys
from truerank.subsample.selection import places

_LEGACY_DAMPING = 1e-6
_MOST_SWEEPS = 10_000
THREADED_FROM = 1 << 17  # events; below, handing work to threads costs more than it saves


@dataclass(frozen=True)
class Centrality(Strategy):
    """Events of the users and items of highest PageRank.

    Nodes are taken from the top, and each brings its events, until there are enough.

    Parameters
    ----------
    damping : probability to follow an event rather than to jump, 0 <= damping < 1
    tolerance : largest sum of errors of the scores, as a share of what comes along events; the scores add up
        to 1 and this to the damping
    edges : which events a set of nodes brings: ``any`` of theirs, as the paper says (retain all the events of
        the top nodes), or those with ``both`` ends among them, as the code does (remove the lowest nodes with
        all their events)
    exact : keep exactly the asked number of events by keeping a random part of those the last node brings;
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
        """Order the nodes by score."""
        stage = "subsample/centrality"
        graph = Graph.of(train)
        damping = _LEGACY_DAMPING if self.legacy else self.damping
        scores = page_rank(graph, damping=damping, tolerance=self.tolerance, progress=progress)
        # nodes differ by what came along events; in single precision those that differ by rounding only tie
        came = scores - (1 - damping) / int((graph.degrees() > 0).sum())
        place = places(came.astype(np.float32), graph.keys(seed, stage))
        edges = "both" if self.legacy else self.edges
        keys = EventKeys(train, seed, stage)
        return keep_nodes(train, place, fraction, keys, edges=edges, exact=self.exact)


def page_rank(
    graph: Graph, *, damping: float = 0.85, tolerance: float = 1e-9, progress: Progress = SILENT
) -> FloatArray:
    """Return the PageRank of every node, 0 for nodes without events; the others add up to 1.

    Users are renewed from items, then items from the new users, which takes half the sweeps of renewing all
    at once. It begins with scores in proportion to the degrees, each side with the sum it has in the end.

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
    >>> graph = Graph.of(Interactions.from_codes([0, 1], [0, 1]))
    >>> page_rank(graph).round(6).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    from truerank.subsample.kernels.page_rank import spread

    degrees, n_users = graph.degrees(), graph.n_users
    n_linked = np.array([(degrees[:n_users] > 0).sum(), (degrees[n_users:] > 0).sum()])
    base = (1 - damping) / max(int(n_linked.sum()), 1)
    # sums of the two sides: own = base * own nodes + damping * other
    sums = base * (n_linked + damping * n_linked[::-1]) / (1 - damping**2)
    n_events = max(len(graph.neighbours) // 2, 1)
    flow = np.repeat(sums / n_events, [n_users, graph.n_nodes - n_users])
    score = flow * degrees
    n_threads = available_threads() if n_events >= THREADED_FROM else 1
    sides = [_spans(graph.indptr, *side, n_threads) for side in ((0, n_users), (n_users, graph.n_nodes))]

    def renew(span: tuple[int, int]) -> float:
        return spread(graph.indptr, graph.neighbours, base, damping, *span, flow, score)

    remaining = damping**2 / (1 - damping**2)
    with tracked(progress, "computing PageRank") as task:
        for _ in range(_MOST_SWEEPS):
            change = sum(change for side in sides for change in ordered_map(renew, side, n_threads=n_threads))
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
