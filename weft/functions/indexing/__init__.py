"""Reading and writing at indices, and making indices."""
