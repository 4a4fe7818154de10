"""Compiled loops of intervals over users."""
