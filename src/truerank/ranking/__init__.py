"""From scorers to ranks, among all items or among sampled ones."""
