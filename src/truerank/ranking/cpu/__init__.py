"""CPU kernels of exact ranks: for each user and held-out item (target) they count items above it and tied.

==============  ==========================================================================================
``counts``      targets and seen items (``Pools``), the result (``Counts``), scores of pairs, rounding bounds
``factors``     scores are dot products of factors; none is kept, ties and ranks are exact
``rows``        scores are given as dense or sparse rows
==============  ==========================================================================================

Modules named ``*_compiled``, ``tile``, ``sums``, ``vectors`` and ``factor_job`` import numba and are imported
on first use.
"""
