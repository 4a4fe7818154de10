"""Exact and sampled ranks of factor models on a GPU; the counts are those of the CPU, to the last item.

====================  ================================================================================
``exact_ranks_gpu``   ranks of a split, as ``exact_ranks`` gives them
``count_on_device``   the four counts from factors and lists, as ``kernels.factor.count_factors`` gives them
``DeviceFactors``     compares targets with listed negatives, as ``draw.factor.CompiledFactors`` does
``grow_on_device``    draws and compares uniform and adaptive samples, as ``growing.judge_growing`` does
====================  ================================================================================

A triton kernel multiplies pairs of float16 numbers (``halves``), compares and counts, and stores no score
(``fused``); what lies within a proven error of the target (``band``) is listed and decided by the float64 sum
that ranks are defined by. Where triton is missing, torch does the same in blocks, on a CPU too (``blocks``).
Importing this package loads neither.
"""
