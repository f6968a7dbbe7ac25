"""Statistics: quantiles, covariance, histograms, differences, padding, and reductions that skip NaN."""
