"""Compiled inner loops; imported on use, since numba takes its time."""
