"""The process that weft runs in: signals, locks, files, lazy imports, a bounded cache."""
