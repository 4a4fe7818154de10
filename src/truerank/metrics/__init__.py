"""Metrics as sums over targets of a gain, with ties resolved exactly."""
