"""Estimators: from ranks among sampled items to global metrics."""

from truerank.estimators.registry import ESTIMATORS, PRIORS

__all__ = ["ESTIMATORS", "PRIORS"]
