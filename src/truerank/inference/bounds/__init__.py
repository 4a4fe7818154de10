"""Partial identification: bounds of all values of a metric that are compatible with the sampled ranks."""
