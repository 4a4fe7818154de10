"""Readers, filters and a catalogue of public data sets; all of them return ``Interactions``."""

from truerank.data.columns import ColumnChoice, parse_columns
from truerank.data.duplicate import merge_duplicates
from truerank.data.filter import k_core, min_history, min_rating
from truerank.data.frame import from_arrays, from_csr, from_frame
from truerank.data.read import choose_columns, read_interactions
