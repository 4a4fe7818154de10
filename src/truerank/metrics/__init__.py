"""Metrics as sums over targets of a gain, with ties resolved exactly."""

from truerank.metrics.registry import METRICS
from truerank.metrics.value import make_metrics, values

__all__ = ["METRICS", "make_metrics", "values"]
