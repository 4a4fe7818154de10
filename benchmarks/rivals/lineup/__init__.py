"""One file per library: how it ranks the catalogue and measures, by its own documented means."""
