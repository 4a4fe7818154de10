"""Models of other libraries as scorers, one function per library."""
