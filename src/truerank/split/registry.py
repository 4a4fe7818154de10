"""The split rules by name."""

from __future__ import annotations

from truerank.core.registry import Registry
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
