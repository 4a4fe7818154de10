"""Estimators that fit the distribution of the rank among all items."""
