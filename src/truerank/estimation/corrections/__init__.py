"""Estimators that are linear in the metric: a corrected value for each sampled rank."""
