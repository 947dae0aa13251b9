"""Networks on saved arrays, without torch: for decoding, single texts, streaming and quantised weights.

The same files and classes as in `nn`, with the same names of weights. The tokens of all sequences of a
call are concatenated, (N, D), with offsets between the sequences: nothing is padded. The result of a
sequence does not depend on the others, to the bit.
"""
