"""Kernels that count, for every (row, target), the items above and tied."""
