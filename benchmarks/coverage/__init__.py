"""How often intervals of estimates hold the exact value, and how wide they are."""
