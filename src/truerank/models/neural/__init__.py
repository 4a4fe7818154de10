"""What models that are trained in epochs share; torch is imported on use."""
