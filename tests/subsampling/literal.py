"""Every strategy again, written slowly and straight from its definition, for data without repeated pairs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.random import pair_keys, stage_key
from truerank.core.types import FloatArray
from truerank.subsampling.base import largest_count

Event = tuple[int, int]
Node = tuple[int, int]
MASK = (1 << 64) - 1


def events_of(train: Interactions) -> list[Event]:
    return list(zip(train.user.tolist(), train.item.tolist(), strict=True))


def key_of(seed: int, stage: str, event: Event) -> int:
    return int(pair_keys(seed, f"subsample/{stage}", np.array(event[0]), np.array(event[1])))


def unit_key(seed: int, stage: str, node: Node) -> int:
    return key_of(seed, f"{stage}/unit", node)


def random(train: Interactions, n_keep: int, seed: int) -> set[Event]:
    ordered = sorted(events_of(train), key=lambda event: key_of(seed, "random", event))
    return set(ordered[len(ordered) - n_keep :])


def quotas(lengths: dict[int, int], fraction: Fraction, n_keep: int, seed: int, stage: str) -> dict[int, int]:
    quota = {user: math.floor(fraction * length) for user, length in lengths.items()}
    by_rest = sorted(
        lengths,
        key=lambda user: (fraction * lengths[user] % 1, unit_key(seed, stage, (0, user))),
        reverse=True,
    )
    for user in by_rest[: n_keep - sum(quota.values())]:
        quota[user] += 1
    return quota


def per_user(train: Interactions, quota: dict[int, int], seed: int, stage: str) -> set[Event]:
    """Keep the last events of each user by (time, key); stratified has no times."""
    assert train.time is not None
    time = dict(zip(events_of(train), train.time.tolist(), strict=True))
    kept = set()
    for user, n in quota.items():
        own = [event for event in events_of(train) if event[0] == user]
        own.sort(key=lambda e: (time[e] if stage == "temporal" else 0, key_of(seed, stage, e)))
        kept |= set(own[len(own) - n :])
    return kept


def units(
    train: Interactions, side: int, *, is_head: bool, n_keep: int, seed: int, stage: str, exact: bool
) -> set[Event]:
    """Take whole users (side 0) or items (side 1), then a part of the next."""
    groups: dict[int, list[Event]] = {}
    for event in events_of(train):
        groups.setdefault(event[side], []).append(event)
    order = sorted(
        groups,
        key=lambda unit: (len(groups[unit]) if is_head else 0, unit_key(seed, stage, (side, unit))),
        reverse=True,
    )
    return fill([groups[unit] for unit in order], n_keep, seed, stage, exact=exact)


def fill(batches: list[list[Event]], n_keep: int, seed: int, stage: str, *, exact: bool) -> set[Event]:
    """Take whole batches while they fit, then the events of largest key of the next."""
    kept: list[Event] = []
    for batch in batches:
        if len(kept) + len(batch) > n_keep:
            if exact:
                batch = sorted(batch, key=lambda event: key_of(seed, stage, event))
                kept += batch[len(batch) - (n_keep - len(kept)) :]
            break
        kept += batch
    return set(kept)


def dense_page_rank(train: Interactions, damping: float) -> FloatArray:
    """Solve for the stationary distribution over the nodes that have events; 0 elsewhere."""
    n = train.n_users + train.n_items
    links = np.zeros((n, n))
    np.add.at(links, (train.user, train.n_users + train.item), 1.0)
    links += links.T
    degree = links.sum(axis=0)
    linked = np.flatnonzero(degree)
    step = links[np.ix_(linked, linked)] / degree[linked]
    scores = np.zeros(n)
    jump = np.full(len(linked), (1 - damping) / len(linked))
    scores[linked] = np.linalg.solve(np.eye(len(linked)) - damping * step, jump)
    return scores


def central(
    train: Interactions, scores: FloatArray, *, edges: str, n_keep: int, seed: int, exact: bool
) -> set[Event]:
    """Take nodes from the top; each brings its events (any), or those with nodes taken before (both)."""
    nodes = [(0, user) for user in range(train.n_users)] + [(1, item) for item in range(train.n_items)]
    score = {node: float(np.float32(value)) for node, value in zip(nodes, scores.tolist(), strict=True)}
    order = sorted(nodes, key=lambda node: (score[node], unit_key(seed, "centrality", node)), reverse=True)
    return fill(brought(train, order, edges), n_keep, seed, "centrality", exact=exact)


def brought(train: Interactions, order: list[Node], edges: str) -> list[list[Event]]:
    """Return the events that each node adds."""
    taken: set[Node] = set()
    done: set[Event] = set()
    batches = []
    for node in order:
        taken.add(node)
        batch = []
        for user, item in events_of(train):
            ends = ((0, user) in taken, (1, item) in taken)
            if (user, item) not in done and (any(ends) if edges == "any" else all(ends)):
                batch.append((user, item))
        done |= set(batch)
        batches.append(batch)
    return batches


class Words:
    """SplitMix64, in Python's integers."""

    def __init__(self, seed: int, stage: str) -> None:
        self.state = stage_key(seed, f"subsample/{stage}")[0]

    def word(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        word = ((self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
        return word ^ (word >> 31)

    def uniform(self) -> float:
        return (self.word() >> 11) / 2**53

    def below(self, n: int) -> int:
        while True:
            number = self.word() >> 32
            if (number * n) % 2**32 >= 2**32 % n:
                return number * n // 2**32


class Visits:
    """The graph and the nodes visited so far, in order."""

    def __init__(self, train: Interactions, seed: int, stage: str) -> None:
        self.neighbours: dict[Node, list[Node]] = {}
        for user, item in sorted(events_of(train)):
            self.neighbours.setdefault((0, user), []).append((1, item))
        for item, user in sorted((item, user) for user, item in events_of(train)):
            self.neighbours.setdefault((1, item), []).append((0, user))
        self.order: list[Node] = []
        self.n_events = 0
        starts = sorted(self.neighbours, key=lambda node: unit_key(seed, stage, node))
        self.starts = deque(starts)

    def visit(self, node: Node) -> None:
        self.n_events += sum(other in self.order for other in self.neighbours[node])
        self.order.append(node)

    def next_start(self) -> Node:
        while self.starts[0] in self.order:
            self.starts.popleft()
        return self.starts.popleft()


class WantedEvents:
    """Visits are enough when the visited nodes have so many events among them."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, visits: Visits) -> bool:
        return visits.n_events >= self.n


class WantedNodes(WantedEvents):
    """Visits are enough when so many nodes are visited."""

    def __call__(self, visits: Visits) -> bool:
        return len(visits.order) >= self.n


def walked(train: Interactions, n_keep: int, seed: int, restart: float, patience: int) -> list[Node]:
    visits = Visits(train, seed, "random-walk")
    walk(visits, WantedEvents(n_keep), Words(seed, "random-walk"), restart, patience)
    return visits.order


def walk(visits: Visits, is_enough: WantedEvents, words: Words, restart: float, patience: int) -> None:
    while not is_enough(visits):
        start = visits.next_start()
        visits.visit(start)
        at, found, steps = start, 1, 0
        while not is_enough(visits) and steps < patience * found:
            steps += 1
            if words.uniform() < restart:
                at = start
            else:
                around = visits.neighbours[at]
                at = around[words.below(len(around))]
                if at not in visits.order:
                    visits.visit(at)
                    found += 1


def burned(train: Interactions, n_keep: int, seed: int, chance: float) -> list[Node]:
    visits = Visits(train, seed, "forest-fire")
    burn(visits, WantedEvents(n_keep), Words(seed, "forest-fire"), chance)
    return visits.order


def burn(visits: Visits, is_enough: WantedEvents, words: Words, chance: float) -> None:
    while not is_enough(visits):
        queue = deque([visits.next_start()])
        visits.visit(queue[0])
        remembered: deque[Node] = deque(maxlen=100)
        while not is_enough(visits):
            if not queue:
                if not remembered:
                    break
                for _ in range(min(10, len(remembered))):
                    node = remembered.pop()
                    if node not in visits.order and not is_enough(visits):
                        visits.visit(node)
                        queue.append(node)
                continue
            node = queue.popleft()
            fresh = [other for other in visits.neighbours[node] if other not in visits.order]
            count = min(1, len(fresh))
            while count < len(fresh) and words.uniform() >= chance:
                count += 1
            for k in range(min(len(fresh), count + 100)):
                other = k + words.below(len(fresh) - k)
                fresh[k], fresh[other] = fresh[other], fresh[k]
                if k >= count:
                    remembered.append(fresh[k])
                elif not is_enough(visits):
                    visits.visit(fresh[k])
                    queue.append(fresh[k])


def unvisited_removed(
    train: Interactions,
    fraction: float,
    seed: int,
    stage: str,
    visit: Callable[[Visits, WantedNodes, Words], None],
) -> set[Event]:
    """Visit the fraction of the nodes, remove the others one by one, users first; start again if need be.

    The node with which too many events would be gone is removed too, as a whole.
    """
    events, words = events_of(train), Words(seed, stage)
    while len(events) > largest_count(fraction, len(train)):
        codes = np.array(events).reshape(-1, 2)
        visits = Visits(Interactions.from_codes(*codes.T), seed, stage)
        nodes = sorted(visits.neighbours)
        wanted = max(1, min(round(fraction * len(nodes)), len(nodes) - 1))
        visit(visits, WantedNodes(wanted), words)
        for side, code in nodes:
            if len(events) <= largest_count(fraction, len(train)):
                break
            if (side, code) not in visits.order:
                events = [event for event in events if event[side] != code]
    return set(events)
