"""The same evaluation in other libraries, each in an environment of its own."""
