"""Helpers of the array functions: checks of arguments, nodes of common operations, results."""
