"""Smaller data sets out of large ones."""

from truerank.subsample.difficulty import Difficulty
from truerank.subsample.loss import Loss, Profile, compare_counts
from truerank.subsample.propensity import inverse_propensities
from truerank.subsample.registry import STRATEGIES
from truerank.subsample.selection import keep_in_order, keep_largest, keep_largest_of_each, mean_of_each
from truerank.subsample.sub_sample import SubSample, subsample
from truerank.subsample.table import events_frame, write_events

__all__ = [
    "STRATEGIES",
    "Difficulty",
    "Loss",
    "Profile",
    "SubSample",
    "compare_counts",
    "events_frame",
    "inverse_propensities",
    "keep_in_order",
    "keep_largest",
    "keep_largest_of_each",
    "mean_of_each",
    "subsample",
    "write_events",
]
