"""Functions of each element: arithmetic, comparisons, powers and logarithms, special functions, complex numbers, bits."""
