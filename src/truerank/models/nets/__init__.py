"""Networks of the neural models: torch modules, and the scorer that computes one of them from arrays."""
