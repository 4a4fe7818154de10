"""Pages of the documentation site that are made when it is built."""
