"""From ranks among sampled items to metrics over all items."""
