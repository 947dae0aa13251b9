"""One loop for every network."""
