"""Readers, filters and a catalogue of public data sets; all of them return ``Interactions``."""

from truerank.data.catalogue import describe, fetch, find_local, list_datasets, load, open_data
from truerank.data.columns import ColumnChoice, parse_columns
from truerank.data.dataset import Dataset
from truerank.data.demo import demo
from truerank.data.duplicate import merge_duplicates
from truerank.data.filter import k_core, min_history, min_rating
from truerank.data.frame import from_arrays, from_csr, from_frame
from truerank.data.read import choose_columns, read_interactions

__all__ = [
    "ColumnChoice",
    "Dataset",
    "choose_columns",
    "demo",
    "describe",
    "fetch",
    "find_local",
    "from_arrays",
    "from_csr",
    "from_frame",
    "k_core",
    "list_datasets",
    "load",
    "merge_duplicates",
    "min_history",
    "min_rating",
    "open_data",
    "parse_columns",
    "read_interactions",
]
