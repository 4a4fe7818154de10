"""Composer: sub-samples by any strategy, those that ask a fitted proxy which events to keep included."""

from truerank.subsampling.difficulty import importance
from truerank.subsampling.proxy import make_proxy, make_strategy
from truerank.subsampling.sample import importance_for, subsample

__all__ = ["importance", "importance_for", "make_proxy", "make_strategy", "subsample"]
