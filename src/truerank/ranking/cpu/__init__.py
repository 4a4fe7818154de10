"""Kernels that count, for every (row, target), the items above and tied.

==================  ===================================================================================
``factor``          scores are dot products of factors; nothing is stored, ties and ranks are exact
``dense``           scores are given as rows
``sparse``          scores are given as sparse rows; what is not stored is zero
``pair_score``      the float64 score of a pair that ``factor`` decides by
==================  ===================================================================================

All take the targets and the seen items as ``pool`` describes and return ``counts.Counts``. Modules named
``*_compiled``, ``tile``, ``lanes`` and ``factor_job`` import numba and are themselves imported on first use.
"""
