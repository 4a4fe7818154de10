"""Compiled loops over events, groups and graphs; imported on first use."""
