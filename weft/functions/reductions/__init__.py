"""Sums, extremes, running totals, means and variances."""
