"""Small interactions and all strategies, for the tests of sub-sampling."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from truerank.core.interactions import Interactions

EXACT = [
    "random",
    "stratified",
    "temporal",
    "random-user",
    "head-user",
    "random-item",
    "head-item",
    "centrality",
    "centrality(edges=both)",
    "centrality(legacy=true)",
    "centrality(damping=0)",
    "random-walk",
    "random-walk(restart=1)",
    "random-walk(restart=0, patience=1)",
    "forest-fire",
    "forest-fire(burn=1)",
    "forest-fire(burn=0.01)",
    "random-walk(legacy=true)",
    "forest-fire(legacy=true)",
]
WHOLE = [
    "random-user(exact=false)",
    "head-user(exact=false)",
    "random-item(exact=false)",
    "head-item(exact=false)",
    "centrality(exact=false)",
    "centrality(exact=false, legacy=true)",
    "random-walk(exact=false)",
    "forest-fire(exact=false)",
    "random-walk(exact=false, legacy=true)",
    "forest-fire(exact=false, legacy=true)",
]
LEGACY = ["stratified(legacy=true)", "temporal(legacy=true)"]


@st.composite
def drawn_events(draw: st.DrawFn, *, repeats: bool = True, least: int = 0) -> Interactions:
    """Events in any order, some users and items without any; perhaps with repeated pairs."""
    n_users, n_items = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    pair = st.tuples(st.integers(0, n_users - 1), st.integers(0, n_items - 1))
    most = 40 if repeats else n_users * n_items
    pairs = draw(st.lists(pair, min_size=least, max_size=most, unique=not repeats))
    user, item = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    times = draw(st.lists(st.integers(0, 5), min_size=len(pairs), max_size=len(pairs)))
    values = draw(st.lists(st.integers(1, 3), min_size=len(pairs), max_size=len(pairs)))
    return Interactions.from_codes(
        user,
        item,
        n_users=n_users + 1,
        n_items=n_items + 1,
        time=np.array(times, dtype=np.int64),
        value=np.array(values, dtype=np.float32),
    )


fractions = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.1, 0.2, 0.5, 0.7, 0.9, 1.0]))


def rows_of(events: Interactions) -> list[tuple[float, ...]]:
    """Return the events in ascending order: what does not depend on the order of the rows."""
    columns = [events.user, events.item, events.time, events.value]
    return sorted(zip(*(np.asarray(column).tolist() for column in columns), strict=True))
