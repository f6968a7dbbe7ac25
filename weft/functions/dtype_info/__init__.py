"""NumPy's information about dtypes, and casts."""
