"""Chains of products whose intermediate matrix is never stored: attention and its gradient."""
