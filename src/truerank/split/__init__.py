"""Rules that divide interactions into train, validation and test."""

from truerank.split.column import Column
from truerank.split.draw_users import draw_users
from truerank.split.leave_last_out import LeaveLastOut
from truerank.split.leave_one_out import LeaveOneOut
from truerank.split.ratio import Ratio
from truerank.split.registry import SPLITS, make_split
from truerank.split.splitter import Splitter
from truerank.split.temporal import Temporal

__all__ = [
    "SPLITS",
    "Column",
    "LeaveLastOut",
    "LeaveOneOut",
    "Ratio",
    "Splitter",
    "Temporal",
    "draw_users",
    "make_split",
]
