"""How negatives are sampled, one file per sampler."""
