"""Damage that polars does not notice, or ends the process by, found before it reads a file."""
