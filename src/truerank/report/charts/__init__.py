"""Charts and pages of results: which numbers to show, and how to put them into words."""
