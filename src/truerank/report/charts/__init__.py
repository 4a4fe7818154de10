"""Results in, charts and documents out."""
