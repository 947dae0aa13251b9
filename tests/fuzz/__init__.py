"""Attacks with a seed: damaged models, hostile files, odd options, kills. `make fuzz` runs them at length; `make test` a few."""
