"""Posterior intervals: distributions of global ranks under a prior learnt from real recommenders."""
