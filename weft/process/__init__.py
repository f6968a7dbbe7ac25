"""The process that weft runs in: signals, locks, files, the import hook, a bounded cache."""
