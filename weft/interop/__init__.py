"""Buffers exchanged with other libraries."""
