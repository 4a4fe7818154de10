"""Networks of the neural models, as torch modules."""
