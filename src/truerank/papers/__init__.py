"""Tables and figures of the papers, computed with the library and set beside the printed numbers."""
