"""Estimators: from ranks among sampled items to global metrics."""

from truerank.estimators.fitted import averaged_prior, fitted_prior
from truerank.estimators.registry import ESTIMATORS, PRIORS

__all__ = ["ESTIMATORS", "PRIORS", "averaged_prior", "fitted_prior"]
