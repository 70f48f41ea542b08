"""Experiments: each function takes the settings and the seed of a key and returns its measures."""
