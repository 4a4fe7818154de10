"""Readers, filters and a catalogue of public data sets; all of them return ``Interactions``."""
