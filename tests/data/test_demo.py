"""The made-up data set behaves like a real one."""

from __future__ import annotations

import hashlib
import time

import numpy as np
import pytest

from truerank.core.errors import InvalidParameter
from truerank.data.demo import demo


@pytest.mark.slow
def test_size_and_tail() -> None:
    start = time.perf_counter()
    events = demo()
    assert time.perf_counter() - start < 10  # under 2 s when the machine is free
    assert events.n_users >= 2000
    assert (events.item_counts() > 0).sum() >= 5000
    counts = np.sort(events.item_counts())[::-1]
    assert counts[: len(counts) // 10].sum() > 0.4 * counts.sum()
    assert events.user_counts().min() >= 5
    assert events.matrix().nnz == len(events)


def test_equal_bits() -> None:
    """The same seed gives the same bits, in this and in every other run."""
    first, second = demo(7, n_users=50, n_items=200), demo(7, n_users=50, n_items=200)
    assert first.item.tobytes() == second.item.tobytes()
    assert hashlib.sha256(first.item.tobytes()).hexdigest().startswith("8bf159ad3739d094")


def test_users_do_not_depend_on_their_number() -> None:
    few, many = demo(n_users=10, n_items=100), demo(n_users=20, n_items=100)
    assert many.item[: len(few)].tolist() == few.item.tolist()
    assert demo(1, n_users=10, n_items=100).item.tolist() != few.item.tolist()


def test_taste_can_be_learned() -> None:
    """Neighbours by cosine rank each user's last item better than popularity does."""
    events = demo(n_users=800, n_items=1500)
    assert events.time is not None
    last = np.lexsort((events.time, events.user))[np.cumsum(events.user_counts()) - 1]
    mask = np.ones(len(events), dtype=np.bool_)
    mask[last] = False
    seen = events.where(mask).matrix().toarray()
    target = events.item[last]
    norm = np.sqrt(seen.sum(0)) + 1e-9
    cosine = seen.T @ seen / norm / norm[:, None]
    np.fill_diagonal(cosine, 0)
    hits = []
    for scores in (np.tile(seen.sum(0), (len(seen), 1)), seen @ cosine):
        scores[seen > 0] = -1
        above = (scores > scores[np.arange(len(target)), target][:, None]).sum(1)
        hits.append((above < 10).mean())
    assert hits[1] > 2 * hits[0] > 0.02


def test_too_small() -> None:
    with pytest.raises(InvalidParameter, match="n_items must be at least 50, got 3"):
        demo(n_items=3)
