"""Counting problems to draw: shapes, magnitudes and ties chosen to break a careless kernel."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.reference.exact_counts import Row, literal_counts, literal_score
from truerank.ranking.cpu.counts import Counts

Array = np.ndarray[Any, Any]

KINDS = ("gaussian", "integers", "zeros", "last bit", "huge", "tiny", "subnormal", "mixed")


@dataclass(frozen=True)
class Lists:
    """Targets and seen items of every row."""

    targets: list[list[int]]
    seen: list[list[int]]

    @property
    def arguments(self) -> tuple[Array, Array, Array, Array]:
        """What every kernel takes."""
        return (*as_csr(self.targets), *as_csr(self.seen))

    def moved(self, order: Array) -> Lists:
        """Rename item order[i] to i."""
        place = np.argsort(order)
        return Lists(
            [place[row].tolist() for row in self.targets],
            [sorted(place[np.array(row, dtype=int)].tolist()) for row in self.seen],
        )

    def rows(self, rows: Array | list[int]) -> Lists:
        """Pick rows."""
        return Lists([self.targets[row] for row in rows], [self.seen[row] for row in rows])


def as_csr(lists: list[list[int]]) -> tuple[Array, Array]:
    indptr = np.cumsum([0, *map(len, lists)])
    return indptr, np.array([item for row in lists for item in row], dtype=np.int64)


def draw_lists(
    draw: np.random.Generator, n_rows: int, n_items: int, *, most_targets: int, seen: str
) -> Lists:
    """Draw disjoint targets and seen items; ``seen`` is none, some or all (but the targets)."""
    targets, known = [], []
    for _ in range(n_rows):
        items = draw.permutation(n_items)
        n_targets = int(draw.integers(1, min(most_targets, n_items) + 1))
        left = n_items - n_targets
        n_seen = {"none": 0, "some": int(draw.integers(0, left + 1)), "all": left}[seen]
        targets.append(items[:n_targets].tolist())
        known.append(sorted(items[n_targets : n_targets + n_seen].tolist()))
    return Lists(targets, known)


@dataclass(frozen=True)
class Problem:
    """Factors with targets and seen items."""

    users: Array
    items: Array
    bias: Array | None
    lists: Lists

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (self.users, self.items, self.bias, *self.lists.arguments)

    def literal(self) -> list[Row]:
        """Return the counts by the slow twin."""
        users, items = self.users.astype(float).tolist(), self.items.astype(float).tolist()
        bias = [None] * len(items) if self.bias is None else self.bias.astype(float).tolist()
        return literal_counts(
            lambda row, item: literal_score(users[row], items[item], bias[item]),
            self.lists.targets,
            self.lists.seen,
            len(items),
        )


def draw_factors(draw: np.random.Generator, shape: tuple[int, int], kind: str, dtype: type) -> Array:
    """Draw a factor matrix; about a third of its rows are copies of others, so ties are everywhere."""
    normal = draw.standard_normal(shape)
    factors: Array = {
        "gaussian": normal,
        "integers": np.rint(normal),
        "zeros": normal * (draw.random((shape[0], 1)) < 0.5),
        "last bit": np.repeat(normal[:1], shape[0], axis=0),
        "huge": normal * 1e30,
        "tiny": normal * 1e-30,
        "subnormal": normal * (1e-42 if dtype is np.float32 else 1e-310),
        "mixed": normal * 10.0 ** draw.integers(-12, 12, (shape[0], 1)),
    }[kind].astype(dtype)
    if kind == "last bit":
        rows, columns = np.arange(shape[0]), draw.integers(0, shape[1], shape[0])
        factors[rows, columns] = np.nextafter(factors[rows, columns], dtype(np.inf))
    copies = np.flatnonzero(draw.random(shape[0]) < 0.3)
    factors[copies] = factors[draw.integers(0, shape[0], len(copies))]
    return factors


@st.composite
def problems(draw: st.DrawFn, most_rows: int = 20, most_items: int = 90, most_width: int = 70) -> Problem:
    """Draw a factor problem."""
    stream = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    n_rows, n_items = draw(st.integers(1, most_rows)), draw(st.integers(1, most_items))
    width = draw(st.integers(1, most_width))
    user_kind, item_kind = draw(st.sampled_from(KINDS)), draw(st.sampled_from(KINDS))
    lists = draw_lists(
        stream,
        n_rows,
        n_items,
        most_targets=draw(st.sampled_from([1, 3, 40])),
        seen=draw(st.sampled_from(["none", "some", "all"])),
    )
    users = draw_factors(stream, (n_rows, width), user_kind, dtype)
    items = draw_factors(stream, (n_items, width), item_kind, dtype)
    bias = stream.standard_normal(n_items).astype(dtype) if draw(st.booleans()) else None
    return Problem(users, items, bias, lists)


def gaussian_problem(
    n_rows: int = 70, n_items: int = 300, width: int = 20, *, most_targets: int = 3, seed: int = 0
) -> Problem:
    draw = np.random.default_rng(seed)
    users = draw_factors(draw, (n_rows, width), "gaussian", np.float32)
    items = draw_factors(draw, (n_items, width), "gaussian", np.float32)
    chosen = draw_lists(draw, n_rows, n_items, most_targets=most_targets, seen="some")
    return Problem(users, items, None, chosen)


def rows_of(counts: Counts) -> list[Row]:
    """Return the counts as plain tuples."""
    columns = [getattr(counts, field.name).tolist() for field in fields(Counts)[:4]]
    return list(zip(*columns, strict=True))
