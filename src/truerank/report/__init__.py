"""Charts of results, and HTML pages and matplotlib figures that show them."""
