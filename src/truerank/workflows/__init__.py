"""One module per command: evaluate, estimate, compare, plan, study, agreement."""
