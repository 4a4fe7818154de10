"""Confidence intervals for estimates from sampled ranks, one module per method."""
