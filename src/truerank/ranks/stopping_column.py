"""The stopping rule of adaptive samples as a column of a table, and whether the rows obey it."""

from __future__ import annotations

import re

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.ranks import SampledRanks
from truerank.core.stopping import Stopping

_TEXT = re.compile(r"while rank <= (\d{1,10}):((?: \d{1,10})+)")


def format_stopping(stopping: Stopping | None) -> str:
    """Return the rule as text; a sample of fixed size has none.

    Examples
    --------
    >>> format_stopping(Stopping((99, 199, 399)))
    'while rank <= 1: 99 199 399'
    >>> format_stopping(None)
    ''
    """
    if stopping is None:
        return ""
    return f"while rank <= {stopping.rank}: {' '.join(map(str, stopping.sizes))}"


def parse_stopping(text: object, where: str) -> Stopping | None:
    """Return the rule behind a text, None behind an empty one.

    Raises
    ------
    InvalidData
        When it is no such text, or no rule.
    """
    if text is None or not str(text).strip():
        return None
    found = _TEXT.fullmatch(" ".join(str(text).split()))
    try:
        if found is not None:
            return Stopping(tuple(map(int, found[2].split())), int(found[1]))
        reason = "that is not how a rule is written"
    except InvalidParameter as error:
        reason = str(error).rstrip(".")
    raise InvalidData(
        f"stopping of {where} must read like 'while rank <= 1: 99 199 399', with the numbers of negatives "
        f"after each round, got {str(text)!r}: {reason}. Correct it."
    )


def check_stopping(ranks: SampledRanks) -> None:
    """Raise when a row cannot have come from the stopping rule of its table.

    Raises
    ------
    InvalidData
        When a sample has a size that no round has, ended although its rank asked for more, or went on
        although its rank must have ended it before.
    """
    stopping = ranks.design.stopping
    if stopping is None or len(ranks) == 0:
        return
    sizes = np.array(stopping.sizes)
    ends = np.full(len(ranks), sizes[-1])
    if not ranks.design.replacement:
        ends = np.minimum(ends, ranks.n_candidates)
    above = ranks.n_above - ranks.n_relevant_above
    turn = np.minimum(np.searchsorted(sizes, ranks.n_negatives), len(sizes) - 1)
    is_end = ranks.n_negatives == ends
    before = np.where(turn > 0, sizes[turn - 1], 0)
    most = np.where(turn > 0, stopping.rank - 1, 0) + ranks.n_negatives - before
    for sentence, holds in (
        ("n_negatives must be the size of a round", (sizes[turn] == ranks.n_negatives) | is_end),
        (
            f"a sample with rank <= {stopping.rank} must go on to the last size",
            (above >= stopping.rank) | is_end,
        ),
        ("a sample must end with the round in which its rank exceeds the rule's", above <= most),
    ):
        if not holds.all():
            row = int(np.argmin(holds))
            raise InvalidData(
                f"by the rule '{format_stopping(stopping)}' {sentence}, but row {row} (counted from 0) has "
                f"rank {above[row] + 1} among {ranks.n_negatives[row]} negatives. Correct the table or rule."
            )
