"""Charts as inline SVG for html pages."""
