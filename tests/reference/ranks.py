"""Exact ranks from the definition: one loop per user, target and item."""

from __future__ import annotations

import numpy as np

from truerank.core.ranks import SeenPolicy
from truerank.core.split import Split

Row = dict[str, int]


def literal_ranks(scores: np.ndarray, split: Split, seen: SeenPolicy) -> list[Row]:
    """Return one row of counts per (user, target), ordered by user, then item."""
    rows = []
    for user in range(split.train.n_users):
        targets = set(split.test.item[split.test.user == user].tolist())
        known = set(split.train.item[split.train.user == user].tolist())
        if split.valid is not None:
            known |= set(split.valid.item[split.valid.user == user].tolist())
        everything = set(range(split.train.n_items))
        rivals = everything if seen == "keep" else everything - known
        pool = everything - known if seen == "remove" else everything
        for target in sorted(targets):
            above = {item for item in rivals if scores[user, item] > scores[user, target]}
            tied = {item for item in rivals if scores[user, item] == scores[user, target]} - {target}
            rows.append(
                {
                    "user": user,
                    "item": target,
                    "n_above": len(above),
                    "n_tied": len(tied),
                    "n_pool": len(pool),
                    "n_relevant": len(targets),
                    "n_relevant_above": len(above & targets),
                    "n_relevant_tied": len(tied & targets),
                }
            )
    return rows
