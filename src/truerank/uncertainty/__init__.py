"""Composer: how far estimates from sampled ranks may lie from what they estimate."""

from truerank.uncertainty.registry import UNCERTAINTIES

__all__ = ["UNCERTAINTIES"]
