"""Segments: metrics by groups of users and of targets, in every workflow."""
