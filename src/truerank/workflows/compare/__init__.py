"""Ranks of several models in, their differences and a verdict out."""
