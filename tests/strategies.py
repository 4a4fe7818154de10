"""Hypothesis strategies shared by the tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from truerank.core.interactions import Interactions
from truerank.core.split import Split


@st.composite
def splits(draw: st.DrawFn, max_users: int = 6, max_items: int = 12) -> Split:
    """Small splits: some users without targets or history, some with several targets."""
    n_users, n_items = draw(st.integers(1, max_users)), draw(st.integers(2, max_items))
    cells = n_users * n_items
    labels = np.array(draw(st.lists(st.sampled_from("...TTVX"), min_size=cells, max_size=cells)))
    labels[draw(st.integers(0, cells - 1))] = "X"

    def part(letter: str) -> Interactions:
        user, item = np.divmod(np.flatnonzero(labels == letter), n_items)
        return Interactions.from_codes(user, item, n_users=n_users, n_items=n_items)

    valid = part("V")
    return Split(part("T"), part("X"), valid if len(valid) else None, method="drawn")
