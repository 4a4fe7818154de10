"""Recommenders that learn from train events and return scorers."""
