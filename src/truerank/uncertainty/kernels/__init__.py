"""Compiled loops of the resampling."""
