"""Reading and writing at indices, and functions that make indices."""
