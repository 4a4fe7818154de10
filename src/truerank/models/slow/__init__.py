"""Slow models: functions and services that are asked for scores, each of which is kept."""
