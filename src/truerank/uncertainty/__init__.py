"""Composer: how far estimates from sampled ranks may lie from what they estimate."""

from truerank.uncertainty.registry import UNCERTAINTIES
from truerank.uncertainty.resampling import resampled

__all__ = ["UNCERTAINTIES", "resampled"]
