"""Mapping functions of Li et al. 2020: which global cut-off a sampled cut-off stands for."""
