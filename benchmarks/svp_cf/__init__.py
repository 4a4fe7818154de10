"""Table 1 of SVP-CF under two protocols: all models on all sub-samples, trained as stacks on one device."""
