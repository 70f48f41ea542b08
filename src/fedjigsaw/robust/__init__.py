"""Checks of a server that trusts no site; internal."""
