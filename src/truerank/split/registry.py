"""The split rules by name."""

from __future__ import annotations

from truerank.core.interactions import Interactions
from truerank.core.registry import Registry
from truerank.core.split import Split
from truerank.split.splitter import Splitter

SPLITS: Registry[Splitter] = Registry(
    "split",
    {
        "column": "truerank.split.column:Column",
        "leave-last-out": "truerank.split.leave_last_out:LeaveLastOut",
        "leave-one-out": "truerank.split.leave_one_out:LeaveOneOut",
        "ratio": "truerank.split.ratio:Ratio",
        "temporal": "truerank.split.temporal:Temporal",
    },
)


def make_split(
    interactions: Interactions, rule: str | Splitter = "leave-last-out", *, seed: int = 0
) -> Split:
    """Divide interactions by a rule written as a spec string.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 0], [0, 1, 2])
    >>> make_split(events, "leave-one-out(n=2)").summary()["n_test"]
    2
    """
    return SPLITS.make(rule).split(interactions, seed=seed)
