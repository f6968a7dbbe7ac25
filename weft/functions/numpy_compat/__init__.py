"""Names of NumPy's namespace that compute nothing of their own: iterators, index objects, testing."""
