"""Printing arrays and formatting numbers; reading and writing files."""
