"""Exact and sampled ranks of factor models on a GPU; the counts are those of the CPU, to the last item.

=====================  ================================================================================
``exact_ranks_gpu``    ranks of a split, as ``exact_ranks`` gives them
``ItemWeightCounter``  the same for item-item models
``count_on_device``    the four counts from factors and lists, as ``cpu.factors.count_factors`` gives them
``DeviceFactors``      compares targets with listed negatives, as ``listed_factors.CompiledFactors`` does
``grow_on_device``     samples and compares uniform and adaptive samples, as ``growing.compare_growing`` does
=====================  ================================================================================

A triton kernel multiplies pairs of float16 numbers, compares and counts, and stores no score
(``triton_count``); pairs within a proven error of the target (``error_bound``) are listed and decided by the
float64 sum that defines ranks. Without triton, torch does the same in blocks, also on a CPU
(``torch_blocks``). Importing this package loads neither.
"""
