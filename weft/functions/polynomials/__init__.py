"""Polynomials, convolution, windows."""
