"""Networks on the graph of users and items; torch is imported on use."""
