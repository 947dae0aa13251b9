"""What the network of a classifier begins with: tokenizer, characters, sizes, and initial weights.

They come from texts, from numbers, from a published encoder, or from a fitted model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqloom.contracts.fitting import tokenizer_for
from seqloom.contracts.starting import Origin, check_numeric
from seqloom.data.classification import Labelled
from seqloom.data.kept import as_lines, portions_of
from seqloom.errors import ConfigError
from seqloom.models.network.first_layer import check_early, token_spellings
from seqloom.models.sequence.configs import Sizes
from seqloom.models.sequence.inputs import TextInputs, character_list, check_numbers, token_totals
from seqloom.models.sequence.model import (
    embed_width,
    first_layer,
    further_words,
    open_published,
    take_published,
)
from seqloom.text.coding import to_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqloom.models.classification.neural_classifier import NeuralClassifier
    from seqloom.models.sequence.published import Opened
    from seqloom.models.sequence.sequence_net import InitialWeights


def begin(
    model: NeuralClassifier, data: Labelled, origin: Origin | None, seed: int
) -> tuple[Opened | None, InitialWeights]:
    """Set what the network of a model needs before it is built; return its published encoder, if
    any, and its initial weights. `origin`: the fitted model that it starts from.
    """
    from seqloom.models.sequence.sequence_net import InitialWeights

    _check_pairs_fit(model, data.name)
    opened = None
    if origin is not None:
        opened, start = take_published(model, origin), _continue(model, data)
    elif model.config.published:
        if not isinstance(data.examples[0], (str, tuple)):
            raise ConfigError(
                f"encoder {model.config.encoder} reads texts, but {data.name} has numbers; give "
                f"one of the "
                "encoders that are trained here, such as bigru"
            )
        opened = open_published(model)
        model.text_inputs()  # which refuses sizes that do not go together
        model.learnt["sizes"] = Sizes(
            opened.tokenizer.vocab_size, opened.published.layout.d_model
        ).to_dict()
        start = (
            InitialWeights(d_precomputed=opened.published.layout.d_model)
            if model.config.frozen
            else InitialWeights(weights=opened.weights)
        )
    elif isinstance(data.examples[0], str):
        start = begin_with_texts(model, data.texts, seed)
    elif model.config.long == "sentences":
        raise ConfigError(
            f"long sentences reads texts, but {data.name} has numbers; give long windows, or leave it out"
        )
    else:
        sizes, mean, scale = check_numbers(data.examples, data.name)
        model.learnt["sizes"] = sizes.to_dict()
        start = InitialWeights(mean=mean, scale=scale)
    return opened, start


def _continue(model: NeuralClassifier, data: Labelled) -> InitialWeights:
    """Return what a network that starts from a fitted model of the same sizes needs of the data."""
    from seqloom.models.sequence.sequence_net import InitialWeights

    c, sizes = model.config, model.sizes
    for decided in ("temperature", "shift"):  # chosen on the held-out data of that model
        model.learnt.pop(decided, None)
    numbers = not isinstance(data.examples[0], (str, tuple))
    check_numeric(numbers, bool(sizes.columns), f"the examples of {data.name}")
    if c.published:
        return InitialWeights(d_precomputed=sizes.d_embed if c.frozen else 0)
    if numbers:
        return InitialWeights()
    counts = token_totals(model.tokenizer, data.texts, c.max_length)[: sizes.vocab_size]
    return InitialWeights(counts=counts, word_dropout=c.word_dropout, unk_id=model.tokenizer.unk_id)


def begin_with_texts(model: Any, texts: Sequence[str], seed: int) -> InitialWeights:
    """Set tokenizer, characters and sizes of a model of texts; return the initial weights."""
    from seqloom.models.sequence.sequence_net import InitialWeights

    c = model.config
    check_early(c.pretrained, c.tokenizer)
    tokenizer = model.tokenizer = tokenizer_for(c, as_lines(texts))
    size, characters = tokenizer.vocab_size, None
    counts = token_totals(tokenizer, texts, c.max_length)
    check_early(c.pretrained, tokenizer.kind)
    tokens = token_spellings(tokenizer)
    first = first_layer(model, tokens, counts, seed) if c.pretrained else None
    words, further = further_words(first, set(tokens).__contains__, c.pretrained_words)
    if words:
        spellings = [spelling for i in range(size) if (spelling := tokenizer.token_bytes(i))]
        model.tokenizer = tokenizer.extended([*spellings, *map(to_bytes, words)])
    if c.characters != "none":
        inputs = TextInputs(tokenizer, max_length=c.max_length, characters=())
        different: dict[str, int] = {}
        for some in portions_of(texts):
            inputs.tokens(some, different)
        characters = model.learnt["characters"] = character_list(list(different))
    n_characters = len(characters) + 2 if characters else 0
    model.learnt["sizes"] = Sizes(
        size, embed_width(c.d_embed, first), len(words), n_characters
    ).to_dict()
    return InitialWeights(
        first=first,
        further=further,
        counts=counts,
        word_dropout=c.word_dropout,
        unk_id=tokenizer.unk_id,
    )


def _check_pairs_fit(model: NeuralClassifier, name: str) -> None:
    """Refuse pairs of texts where the options are for single ones."""
    c = model.config
    if model.reads_pairs and not c.published:
        raise ConfigError(
            f"{name} has pairs of texts, but encoder {c.encoder} reads single texts; give the "
            f"directory of a "
            "converted encoder such as BERT (encoder='DIR'), or join the two texts in one column"
        )
    if model.reads_pairs and c.long != "truncate":
        raise ConfigError(
            f"long {c.long} has no effect on pairs of texts, which are read at once; leave long out"
        )
