"""Small tokenizers in all the files that directories of transformers have them in."""

import json
from pathlib import Path

from seqloom.interop.hugging_face import ModelDirectory

TEXTS = [
    "the cat sat on the mat",
    "a dog and a cat, 12 dogs",
    "naïve café in 北京",
    "thesaurus of the theatre",
    "don't stop!",
] * 40
PROBES = [
    "the cat",
    " the  cat ",
    "Thé CAT!",
    "",
    " ",
    "12,345",
    "日本 x",
    "a\nb\tc",
    "<s> the </s>",
    "ﬁne ①",
    "▁x",
    "🙂 cat",
    "x" * 50,
    "the<unk>cat",
    "cat</s>",
    "[CLS] the [MASK]",
    "<0x41>",
]


def directory(path, family, **values):
    """What `read_directory` would give; these tests need no weights."""
    return ModelDirectory(str(path), {"model_type": family, **values}, Path(path), {})


def write(path, **files):
    """Files by their names, with two underscores for a dot; tables become JSON, lists lines."""
    path.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = (
            json.dumps(content)
            if isinstance(content, dict)
            else "".join(f"{line}\n" for line in content)
        )
        (path / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return path


def sentencepiece_file(path, kind, **options):
    import sentencepiece

    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXTS),
            model_writer=file,
            model_type=kind,
            minloglevel=5,
            hard_vocab_limit=False,
            **{"vocab_size": 80, **options},
        )
    return sentencepiece.SentencePieceProcessor(model_file=str(path))
