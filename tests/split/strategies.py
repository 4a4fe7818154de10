"""Small interactions for the split tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from truerank.core.interactions import Interactions


@st.composite
def timed_events(draw: st.DrawFn, *, distinct_times: bool = False) -> Interactions:
    """Events without repeated pairs, in any order, with times that may be equal."""
    pairs = draw(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8)), min_size=1, max_size=40, unique=True)
    )
    times = st.lists(
        st.integers(0, 1000 if distinct_times else 4),
        min_size=len(pairs),
        max_size=len(pairs),
        unique=distinct_times,
    )
    user, item = np.array(pairs).T
    return Interactions.from_codes(user, item, n_users=7, n_items=9, time=np.array(draw(times)))
