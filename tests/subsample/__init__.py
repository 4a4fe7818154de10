"""Sub-sampling strategies."""
