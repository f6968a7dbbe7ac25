"""What functions share: checks of arguments, nodes of common operations, results."""
