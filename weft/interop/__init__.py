"""Exchange of buffers with other libraries."""
