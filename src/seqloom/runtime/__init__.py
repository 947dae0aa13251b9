"""Networks on saved arrays, without torch: for decoding, single texts, streaming and quantised weights.

File by file and class by class the same as `nn`, whose weights it takes by name. The tokens of all sequences
of a call lie one after the other, (N, D), with offsets between the sequences: nothing is padded. A sequence's
numbers do not depend on those beside it, to the bit.
"""
