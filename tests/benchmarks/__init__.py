"""Tests of what benchmarks compute beside times."""
