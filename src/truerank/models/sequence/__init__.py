"""What models of ordered histories share; torch is imported on use."""
