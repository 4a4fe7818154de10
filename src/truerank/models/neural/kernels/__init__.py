"""Compiled inner loops, imported on first use."""
