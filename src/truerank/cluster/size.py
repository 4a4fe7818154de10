"""How many users a task gets."""

from __future__ import annotations

from truerank.core.registry import Plugin

#: Tasks of a job that is small, so that a few slots end at about the same time.
FEW_TASKS = 64
#: Scores of one exact task: some ten seconds of one core at 64 dimensions.
MOST_SCORES = 1 << 34
#: Every sampled task looks at all items once, so it draws at least this many negatives per item.
DRAWS_PER_ITEM = 4
LEAST_ROWS, MOST_ROWS = 256, 1 << 20


def rows_per_task(n_users: int, n_items: int, n_negatives: int | None) -> int:
    """Return the users of a task: a 64th of all, unless that is too little or too much work.

    No result depends on it.

    Examples
    --------
    >>> [rows_per_task(*size, None) for size in ((200_000, 20_000), (10**8, 10**7))]
    [3125, 1717]
    """
    share = -(-n_users // FEW_TASKS)
    if n_negatives is None:
        return max(LEAST_ROWS, min(share, MOST_SCORES // max(1, n_items), MOST_ROWS))
    return min(MOST_ROWS, max(LEAST_ROWS, share, DRAWS_PER_ITEM * n_items // max(1, n_negatives)))


def negatives_of(sampler: Plugin | None, n_items: int) -> int | None:
    """Return how many negatives a sampler draws at first; None where all items are ranked."""
    if sampler is None:
        return None
    return int(getattr(sampler, "m", getattr(sampler, "start", n_items)))
