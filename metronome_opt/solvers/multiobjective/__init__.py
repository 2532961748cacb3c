"""Several objectives: in order, as a weighted sum, or as a front."""
