"""What a model is worth: likelihoods, their confidence intervals, and results with a signature."""
