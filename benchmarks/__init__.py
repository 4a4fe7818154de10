"""Speed and quality, printed as ratios; each is run by a command of its own."""
