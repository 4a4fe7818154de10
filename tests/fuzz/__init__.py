"""Fuzz suite: hostile input of every kind, counted by what came of it."""
