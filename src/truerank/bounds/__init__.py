"""Composer: what sampled ranks allow a metric to be, and how many negatives would tell more."""

from truerank.bounds.expense import bound_seconds
from truerank.bounds.interval import identified
from truerank.bounds.sizing import resolution
from truerank.inference.identification import Bound, Resolution

__all__ = ["Bound", "Resolution", "bound_seconds", "identified", "resolution"]
