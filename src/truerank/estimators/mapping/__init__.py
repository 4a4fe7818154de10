"""Mapping functions: which global cut-off a sampled cut-off stands for."""

from truerank.estimators.mapping.registry import MAPPINGS

__all__ = ["MAPPINGS"]
