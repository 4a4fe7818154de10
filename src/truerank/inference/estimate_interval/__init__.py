"""Intervals for estimates from sampled ranks, one file per kind."""
