"""Charts, and html pages with results and documents."""
