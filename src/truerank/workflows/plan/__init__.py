"""How many negatives and users an evaluation needs, and what it costs."""
