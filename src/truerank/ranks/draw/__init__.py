"""Drawing negatives and comparing targets with them, in NumPy for small inputs and compiled for others."""
