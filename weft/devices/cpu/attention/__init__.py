"""Chains of products whose middle is never stored: attention and its gradient."""
