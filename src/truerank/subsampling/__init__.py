"""Smaller data sets out of large ones, chosen so that models keep their order."""
