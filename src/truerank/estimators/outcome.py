"""Outcomes of samples: which law each context of a tally follows, and whether its rows can come from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.stopping import Stopping
from truerank.core.tally import Tally
from truerank.core.types import IntArray
from truerank.estimators.adaptive_law import AdaptiveLaw
from truerank.estimators.design import stopping_of
from truerank.estimators.law import Law, make_law


def outcome_laws(tally: Tally) -> Sequence[tuple[Law | AdaptiveLaw, IntArray]]:
    """Return the laws of a tally and the contexts that follow each.

    Samples of fixed size have one law per pair of sample and pool size, adaptive ones one per pool size.
    """
    rule = stopping_of(tally)
    if rule is not None:
        return _adaptive_laws(tally, rule)
    replacement = tally.design.replacement
    return [(make_law(size, m, replacement=replacement), rows) for m, size, rows in tally.contexts.laws()]


def check_outcomes(tally: Tally) -> None:
    """Raise unless every row of an adaptive sample can come from the stopping rule.

    Ties may put more items above a target than the last round of its sample added; only rows that were not
    spread over a tied block are held to that.

    Raises
    ------
    InvalidData
        When a sample has a size that the rule does not know, or did not stop where the rule does.
    """
    rule = stopping_of(tally)
    if rule is None:
        return
    for law, rows in _adaptive_laws(tally, rule):
        for row in rows.tolist():
            size = int(tally.contexts.n_negatives[row])
            if size not in law.sizes:
                raise InvalidData(
                    f"adaptive samples from {law.n_candidates} candidates must have one of the sizes "
                    f"{law.sizes}, got {size}. Correct the table or its stopping rule."
                )
            _check_cells(tally, row, law)


def _adaptive_laws(tally: Tally, rule: Stopping) -> list[tuple[AdaptiveLaw, IntArray]]:
    sizes, which = np.unique(tally.contexts.n_candidates, return_inverse=True)
    return [
        (AdaptiveLaw(int(size), rule, tally.design.replacement), np.flatnonzero(which == place))
        for place, size in enumerate(sizes)
    ]


def _check_cells(tally: Tally, row: int, law: AdaptiveLaw) -> None:
    """Raise unless the sampled ranks of one context can be where sampling ended."""
    size, q = int(tally.contexts.n_negatives[row]), law.stopping.rank
    seen = np.flatnonzero((tally.counts(row) > 0) & ~law.is_possible(size))
    if len(seen) == 0:
        return
    said = f"a sample with {size} negatives and rank {int(seen[0]) + 1} cannot come from the stopping rule"
    if seen[0] < q:
        raise InvalidData(
            f"{said}, which samples on while the rank is at most {q}. Correct the table or its stopping rule."
        )
    if tally.ties not in ("expected", "best"):
        return
    first = int(tally.offsets[row])
    is_whole = np.isin(tally.cell, first + seen) & (tally.weight == 1)
    if is_whole.any():
        raise InvalidData(
            f"{said}, whose last round adds fewer above the target. Correct the table or its stopping rule."
        )
