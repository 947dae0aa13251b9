"""From a Stepper to tokens: sampling, beam search, subword healing, stop strings. NumPy only."""
