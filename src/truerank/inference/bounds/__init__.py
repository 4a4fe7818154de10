"""Partial identification: every value of a metric that sampled ranks allow."""
