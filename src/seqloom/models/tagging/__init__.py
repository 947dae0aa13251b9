"""Taggers: one tag for every word."""
