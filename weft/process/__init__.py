"""Services of the process: signals, locks, files, the import hook, a bounded cache, docstrings of families."""
