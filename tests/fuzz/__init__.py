"""Attacks with a seed: damaged models, hostile files, odd options, kills. `make fuzz` runs many,
`make test` a few.
"""
