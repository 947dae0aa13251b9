"""From a Stepper to tokens: sampling, beam search, ensembles, subword healing, stop strings. NumPy only."""
