"""Evaluation of slow models that stops when the intervals are narrow enough."""
