"""Value types, protocols, spec strings, random streams and errors that every stage shares."""
