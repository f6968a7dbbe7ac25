"""Names of NumPy's namespace that add no computation: iterators, index objects, testing."""
