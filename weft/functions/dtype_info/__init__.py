"""What NumPy says about dtypes, and casts."""
