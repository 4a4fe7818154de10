"""Intervals for metrics: sampling of users, sampling of items, and what cannot be identified."""
