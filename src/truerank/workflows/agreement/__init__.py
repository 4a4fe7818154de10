"""Whether models keep their order on smaller data."""
