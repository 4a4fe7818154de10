"""Charts as matplotlib figures, for notebooks and papers."""
