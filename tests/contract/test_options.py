"""Every option of every model and of training changes something, or is refused where it would not.

The table says which value to try and beside which others it matters; choices and switches are all
tried. An option that is not in the table and is neither a choice nor a switch fails here, so a new
one cannot be forgotten.
"""

import dataclasses
import hashlib

import numpy as np
import pytest

from seqloom import registry
from seqloom.config import choices, conditions, field_types, parts
from seqloom.contracts.reading import portions
from seqloom.data.corpus import Corpus
from seqloom.data.documents import Document
from seqloom.encoder_table import CELL_NAMES, ENCODER_NAMES
from seqloom.errors import ConfigError
from seqloom.testing.forecasting import SERIES
from seqloom.testing.tagging import NER
from seqloom.training.config import TrainConfig

from ..fuzz.specimens import random_encoder
from .test_embedders import lines

NETWORKS = [
    name for name in registry.MODELS if "train" in registry.config_class(name).fit_arguments
]
MODELS = [name for name, entry in registry.MODELS.items() if entry.fitted]

TEXT = (
    "The cat sat on the mat and the dog sat on the log\nA cat and a dog met on the road\n\nthe "
    "road led to the sea\n"
    "The sea was calm and the cat slept on and on and on until the dog barked at the sea of the cat\n"
)
OTHER = "the log was on the mat\nthe Dog slept\n"
PAIRS = [
    ("A lovely warm film", "good"),
    ("what a lovely story", "good"),
    ("warm and funny and warm", "good"),
    ("a dull cold film", "bad"),
    ("Cold and boring story", "bad"),
    ("what a dull dull thing", "bad"),
    ("so so", "neutral"),
]
HELD_OUT = [
    ("a warm lovely story", "good"),
    ("cold dull film", "good"),
    ("What nothing here was ever seen", "bad"),
]
TRAIN = {"steps": 4, "lr": 0.05, "batch_size": 2, "seed": 0}
GENTLE = {**TRAIN, "lr": 0.01}
WINDOWS = {"dimensions": 6, "epochs": 1, "deterministic": True}
TINY = {
    "rnn": {"d_hidden": 8},
    "lstm": {"d_hidden": 8},
    "gru": {"d_hidden": 8},
    "nplm": {"d_hidden": 8, "d_embed": 6, "order": 3},
    "gpt": {"d_model": 8, "n_heads": 2, "n_layers": 1, "context": 12},
    "ngram": {"order": 3},
    "hmm": {"states": 3, "iterations": 4},
    "cache": {"window": 20},
    "fasttext-classifier": {"dimensions": 8, "epochs": 2, "lr": 0.1},
    **{
        name: {"horizon": 5}
        for name, entry in registry.MODELS.items()
        if entry.task == "forecaster"
    },
    "forecaster": {"horizon": 5, "d_hidden": 8, "window": 24},
    "classifier": {"d_hidden": 8, "d_embed": 6},
    "tagger": {"d_hidden": 8, "d_embed": 6, "d_characters": 4},
    "answerer": {"d_hidden": 8, "d_embed": 6},
    "seq2seq": {"tokenizer": "char", "d_embed": 6, "d_hidden": 8, "dropout": 0.1},
    "transformer": {
        "tokenizer": "char",
        "d_model": 8,
        "n_heads": 2,
        "n_layers": 1,
        "n_decoder_layers": 1,
        "dropout": 0.1,
    },
    "word2vec": WINDOWS,
    "fasttext": WINDOWS,
    "charngram": WINDOWS,
    "glove": {"dimensions": 6, "epochs": 2},
}

# option: values to try; the text words {vectors}, {words}, {start} and {member} stand for files
# that a fixture makes
VALUES = {
    "tokenizer": ["char"],
    "vocab_size": [8],
    "min_count": [3],
    "vocab_file": ["{words}"],
    "normalize": ["case=lower"],
    "marks": [("[MASK]",)],
    "order": [2],
    "k": [0.5],
    "C": [10.0],
    "sublinear": [True],
    "prune": [(0, 0, 1)],
    "prune_entropy": [0.1],
    "states": [2],
    "iterations": [1],
    "tolerance": [0.5],
    "restarts": [9],
    "seed": [7],
    "window": [2],
    "floor": [0.5],
    "members": [("{member}", "{member}")],
    "member": ["{member}"],
    "theta": [0.3],
    "share": [0.3],
    "samples": [3],
    "label_smoothing": [0.3],
    "pretrained": ["{vectors}"],
    "pretrained_frozen_for": [0.9],
    "d_hidden": [12],
    "d_embed": [10],
    "d_model": [12],
    "d_projection": [5],
    "n_layers": [2],
    "n_heads": [4],
    "context": [7],
    "dropout": [0.5],
    "input_dropout": [0.6],
    "word_dropout": [0.5],
    "recurrent_dropout": [0.5],
    "weight_drop": [0.5],
    "forget_bias": [-3.0],
    "shrink": [0.5],
    "clamp": [0.05],
    "time_step": [0.5],
    "dimensions": [5],
    "epochs": [3],
    "lr": [0.3],
    "negatives": [2],
    "noise_exponent": [-1.0],
    "sample": [0.02],
    "start": ["{start}"],
    "min_ngram": [4],
    "max_ngram": [5],
    "buckets": [11],
    "x_max": [5.0],
    "alpha": [0.2],
    "bias_rate": [0.1],
    "ngrams": [2],
    "cutoff": [4],
    "minutes": [0.01],
    "suffix": [0],
    "rare": [1],
    "word_k": [1e6],
    "lower_k": [1e6],
    "suffix_k": [1e6],
    "steps": [2],
    "batch_size": [3],
    "truncation": [4],
    "weight_decay": [3.0],
    "warmup": [0.9],
    "decay": [0.1],
    "decay_steps": [1],
    "decay_plan": [("0:1",)],
    "planned_steps": [100],
    "decay_every": [0.9],
    "clip_at": [0.01],
    "gradient_noise": [1.0],
    "accumulate": [2],
    "shards": [2],
    "batch_growth": [4.0],
    "patience": [1],
    "evaluate_every": [3],
    "d_characters": [6],
    "pretrained_words": [1],
    "max_length": [3],
    "overlap": [1],
    "max_answer": [1],
    "n_sentence_layers": [2],
    "source_tokenizer": ["byte"],
    "target_tokenizer": ["word"],
    "sampling_half": [0.1],
    "n_decoder_layers": [2],
    "d_mlp": [12],
    "attention_dropout": [0.5],
    "horizon": [3],
    "season": [5],
    "seasons": [(5, 20)],
    "ar": [1],
    "differences": [2],
    "ma": [0],
    "ridge": [1.0],
    "patch": [5],
    "smoothing": [0.3],
    "least": [0.4],
    "n_kv_heads": [1],
    "rope_base": [50.0],
    "rope_scale": [4.0],
    "max_distance": [2],
    "d_head": [3],
    "norm_epsilon": [0.1],
    "hold_out": [0.3],
    "encoder_lr": [1e-2],
    "frozen_for": [0.8],
    "freeze": [("embedding*",)],
    "delay": [("embedding*=0.5",)],
    "lr_scale": [("embedding*=0.5",)],
}
FORECASTERS = [name for name, entry in registry.MODELS.items() if entry.task == "forecaster"]
OTHER_VALUES = {
    ("hmm-tagger", "order"): [1],
    ("classifier", "n_heads"): [2],
    ("tagger", "n_heads"): [2],
    ("answerer", "n_heads"): [2],
    ("answerer", "min_count"): [10],
    ("answerer", "max_length"): [16],
    ("answerer", "normalize"): ["none"],
    ("tagger", "word_dropout"): [50.0],
    ("forecaster", "n_heads"): [2],
    ("forecaster", "dropout"): [0.2],
    ("neural-cache", "member"): ["{network2}"],
    ("dictionary", "min_count"): [2],
    ("seq2seq", "tokenizer"): ["byte"],
    ("transformer", "tokenizer"): ["byte"],
    ("seq2seq", "n_heads"): [2],
    ("seq2seq", "max_length"): [12],
    ("transformer", "max_length"): [12],
    ("transformer", "context"): [300],
    ("transformer", "buckets"): [8],
    ("transformer", "max_distance"): [20],
    **{(name, "min_count"): [1] for name in ("word2vec", "fasttext", "charngram", "glove")},
    **{(name, "window"): [40] for name in FORECASTERS},
}
# (model, or train, or *; option): what must stand beside it to matter
BESIDE = {
    ("*", "samples"): {"softmax": "sampled"},
    ("*", "carry"): {"unit": "line"},
    ("*", "pretrained_unknown"): {"pretrained": "{vectors}"},
    ("*", "pretrained_training"): {"pretrained": "{vectors}"},
    ("*", "pretrained_frozen_for"): {"pretrained": "{vectors}", "pretrained_training": "gradual"},
    ("gpt", "max_distance"): {"positions": "relative"},
    ("gpt", "pretrained"): {"d_model": None},
    ("gpt", "pretrained_unknown"): {"pretrained": "{vectors}", "d_model": None},
    ("gpt", "pretrained_training"): {"pretrained": "{vectors}", "d_model": None},
    ("gpt", "pretrained_frozen_for"): {
        "pretrained": "{vectors}",
        "pretrained_training": "gradual",
        "d_model": None,
    },
    ("nplm", "pretrained"): {"d_embed": None},
    ("nplm", "pretrained_unknown"): {"pretrained": "{vectors}", "d_embed": None},
    ("nplm", "pretrained_training"): {"pretrained": "{vectors}", "d_embed": None},
    ("nplm", "pretrained_frozen_for"): {
        "pretrained": "{vectors}",
        "pretrained_training": "gradual",
        "d_embed": None,
    },
    ("ngram", "k"): {"smoothing": "add-k"},
    ("mixture", "iterations"): {"members": ("{member}", "{other}")},
    ("mixture", "tolerance"): {"members": ("{member}", "{other}")},
    ("neural-cache", "window"): {"theta": 0.3, "share": 0.3},
    ("fasttext-classifier", "min_ngram"): {"max_ngram": 5},
    ("fasttext-classifier", "buckets"): {"ngrams": 2},
    ("fasttext-classifier", "cutoff"): {"quantise": True},
    **{
        (name, "window"): {"encoder": "cnn"}
        for name in ("classifier", "tagger", "answerer", "forecaster")
    },
    **{
        (name, option): {"n_layers": 2}
        for name in (
            "rnn",
            "lstm",
            "gru",
            "classifier",
            "tagger",
            "answerer",
            "forecaster",
            "seq2seq",
        )
        for option in ("norm", "shrink")
    },
    **{
        (name, option): {"encoder": "birnn"}
        for name in ("classifier", "tagger", "answerer", "forecaster", "seq2seq")
        for option in ("recurrence", "time_step")
    },
    **{
        (name, "n_heads"): {"encoder": "transformer", "d_hidden": 16}
        for name in ("classifier", "tagger", "answerer")
    },
    **{
        (name, option): {"pretrained": "{vectors}", "d_embed": None}
        for name in ("classifier", "tagger", "answerer")
        for option in ("pretrained_unknown", "pretrained_training", "pretrained_words")
    },
    **{(name, "pretrained"): {"d_embed": None} for name in ("classifier", "tagger", "answerer")},
    **{
        (name, "pretrained_frozen_for"): {
            "pretrained": "{vectors}",
            "pretrained_training": "gradual",
            "d_embed": None,
        }
        for name in ("classifier", "tagger", "answerer")
    },
    ("classifier", "d_characters"): {"characters": "cnn"},
    ("answerer", "d_characters"): {"characters": "cnn"},
    ("answerer", "overlap"): {"max_length": 16},
    ("tagger", "characters"): {"d_characters": None},
    ("classifier", "n_sentence_layers"): {"long": "sentences"},
    ("classifier", "long"): {"max_length": 3},
    **{
        (name, option): {
            "encoder": "{encoder}",
            "d_hidden": None,
            "d_embed": None,
            "d_characters": None,
        }
        for name in ("classifier", "tagger", "answerer")
        for option in ("frozen", "encoder_lr", "gradual")
    },
    **{
        (name, "frozen_for"): {
            "encoder": "{encoder}",
            "gradual": True,
            "d_hidden": None,
            "d_embed": None,
            "d_characters": None,
        }
        for name in ("classifier", "tagger", "answerer")
    },
    ("seq2seq", "window"): {"encoder": "cnn"},
    ("seq2seq", "n_heads"): {"encoder": "transformer"},
    ("seq2seq", "one_network"): {"shared_vocabulary": True},
    ("transformer", "context"): {"positions": "learned"},
    ("transformer", "buckets"): {"positions": "t5"},
    ("transformer", "max_distance"): {"positions": "t5"},
    **{
        (name, "sampling_half"): {"scheduled_sampling": "linear"}
        for name in ("seq2seq", "transformer")
    },
    ("train", "decay"): {"schedule": "step"},
    ("train", "decay_every"): {"schedule": "step"},
    ("train", "planned_steps"): {"warmup": 0.9},
    ("train", "clip"): {"clip_at": 0.01},
    ("train", "average"): {"steps": 8},
    ("train", "random_truncation"): {"truncation": 14},
    ("train", "patience"): {"lr": 1e-12},  # without gain from the first on
    ("train", "evaluate_every"): {"lr": 1e-12, "patience": 1},
}
DEFAULTS = {
    ("classifier", "pooling"): "max",
    ("training", "optimizer"): "muon",
    ("training", "schedule"): "cosine",
}  # what None stands for in these tests
JUDGED = (
    "patience",
    "evaluate_every",
    "schedule",
)  # look at a valid text; elsewhere the last weights are the result
INSTEAD = {
    "epochs": "steps",
    "minutes": "steps",
}  # an option of training that takes the place of another
# What is there for another end than another result, and the test that shows it.
SAME = {
    ("fasttext-classifier", "deterministic"): "threads: tests/models/test_fasttext_classifier.py",
    (
        "fasttext-classifier",
        "tune",
    ): "refused without valid; with it tests/models/test_fasttext_classifier.py",
    (
        "classifier",
        "calibrate",
    ): "three texts are too few to tell: tests/models/test_neural_classifier.py",
    ("fasttext-classifier", "minutes"): "refused without tune, which it bounds",
    **{
        (name, "deterministic"): "threads: tests/contract/test_embedders.py"
        for name in ("word2vec", "fasttext", "charngram")
    },
    **{
        (name, "select_by"): "four steps are too few to tell: tests/models/test_translators.py"
        for name in ("seq2seq", "transformer")
    },
    **{
        (
            name,
            "hold_out",
        ): "of few examples none are held out: tests/models/test_neural_classifier.py"
        for name in ("classifier", "tagger", "answerer")
    },
    **{
        (f"train {name}", "recompute"): "memory: tests/models/test_recomputing.py"
        for name in ("gpt", "lstm")
    },
}
KNOWN = {}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files and models that options name; a word in braces in the table is one of them."""
    place = tmp_path_factory.mktemp("files")
    words = sorted(set(TEXT.split()))
    (place / "words").write_text("\n".join(words[:9]) + "\n")
    rng = np.random.default_rng(0)
    (place / "vectors").write_text(
        f"{len(words) - 3} 8\n"
        + "".join(f"{w} {' '.join(f'{x:.3f}' for x in rng.normal(size=8))}\n" for w in words[3:])
    )
    found = {name: str(place / name) for name in ("words", "vectors", "member", "other")}
    for name, order in (("member", 1), ("other", 2)):
        registry.model_class("ngram")(order=order).fit(corpus()).save(found[name])
    if NETWORKS:
        pytest.importorskip("torch")
    for seed, name in enumerate(("network", "network2")):
        found[name] = str(place / name)
        train = TrainConfig(**{**TRAIN, "seed": seed})
        registry.model_class("lstm")(tokenizer="whitespace", d_hidden=8).fit(
            corpus(), train=train
        ).save(found[name])
    for name in ("word2vec", "fasttext", "charngram", "glove"):
        registry.model_class(name)(**TINY[name]).fit(lines(60)).save(place / name)
    random_encoder("bert", context=24, d_model=8, n_layers=1, n_heads=2, d_mlp=12).save(
        place / "encoder"
    )
    return found | {"start": str(place), "encoder": str(place / "encoder")}


def corpus(*texts):
    return Corpus(
        [Document(f"d{i}", data=text.encode()) for i, text in enumerate(texts or (TEXT, OTHER))],
        "two",
    )


def base(name, files):
    if name == "mixture":
        return {"members": (files["member"], files["other"])}
    if name == "neural-cache":
        return {"member": files["network"]}
    if registry.MODELS[name].task == "language model":
        return {"tokenizer": "whitespace", **TINY.get(name, {})}
    return dict(TINY.get(name, {}))


def filled(value, name, files):
    """With the names of files in place of the words in braces."""
    if isinstance(value, tuple):
        return tuple(filled(v, name, files) for v in value)
    if value == "{start}":
        return f"{files['start']}/{name}"
    return value.format(**files) if isinstance(value, str) else value


def result(name, options, train=None, files=None, valid=None):
    """A hash of what was learnt and of what it answers; what many are compared with is made once."""
    key = repr((name, options, train, valid))
    if key not in KNOWN:
        KNOWN[key] = fitted(name, options, train, files, valid)
    return KNOWN[key]


def fitted(name, options, train, files, valid):
    options = {
        key: filled(value, name, files) for key, value in options.items() if value is not None
    }
    model, entry = registry.model_class(name)(**options), registry.MODELS[name]
    if entry.task == "language model":
        data = corpus()
        start = TRAIN if name == "gpt" else {**TRAIN, "truncation": 6}
        given = {
            key: value for key, value in {**start, **(train or {})}.items() if value is not None
        }
        model.fit(data, valid=valid, **({"train": TrainConfig(**given)} if model.trained else {}))
        asked = corpus(
            "the cat sat on the cat and the cat slept\nthe sea was old\n", "the dog met The cat\n"
        )
        log_probs = np.concatenate([scores for _, scores in portions(model, asked)])
        answers = [
            log_probs,
            np.array([model.fit_info.get(key) or 0 for key in ("epochs", "best_step")]),
        ]
    elif entry.task == "classifier":
        model.fit(
            PAIRS, valid=HELD_OUT, **({"train": TrainConfig(**GENTLE)} if model.trained else {})
        )
        answers = [model.class_log_probs([text for text, _ in PAIRS + HELD_OUT])]
    elif entry.task == "forecaster":
        model.fit(SERIES, **({"train": TrainConfig(**TRAIN)} if model.trained else {}))
        answers = [model.forecast(SERIES).tracks[0].values]
    elif entry.task == "translator":
        pairs = [(text, text[::-1]) for text, _ in PAIRS]
        model.fit(
            pairs, **({"train": TrainConfig(**GENTLE)} if model.trained else {}), valid=pairs[:2]
        )
        answers = [np.concatenate(model.pair_log_probs(["a dull warm film"], ["so so"]))]
    elif entry.task == "tagger":
        model.fit(NER * 2, **({"train": TrainConfig(**GENTLE)} if model.trained else {}))
        answers = [
            model.tag_ids([["anna", "met", "Bobs", "Smith", "old", "living", "in", "York"]])[0],
            *(
                model.lexicon.scores(word)
                for word in ("anna", "Paris", "Living")
                if hasattr(model, "lexicon")
            ),
        ]
    elif entry.task == "answerer":
        asked = [
            ("what is warm?", 3 * f"{text} and a grey film. ", text.split()[0]) for text, _ in PAIRS
        ]
        model.fit(asked, train=TrainConfig(**GENTLE))
        found = model.find_spans([row[:2] for row in asked])
        answers = [np.array([one[:3] for one in found])]
    else:
        model.fit([*lines(60), "Grass sees the big cat"])
        answers = [model.vectors.matrix]
    digest = hashlib.sha256()
    for key, array in sorted(model.arrays().items()):
        digest.update(key.encode() + np.ascontiguousarray(array).tobytes())
    for array in answers:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def tries(owner, cls):
    """(option, value) for each option of a config."""
    kinds = field_types(cls)
    for field in dataclasses.fields(cls):
        name = field.name
        if kinds[name] is bool:
            yield name, not field.default
        elif name in ("encoder", "cell") and "/" not in str(field.default):
            known = ENCODER_NAMES if name == "encoder" else CELL_NAMES
            yield from (
                (name, choice)
                for choice in known
                if choice != DEFAULTS.get((owner, name), field.default)
            )
        elif choices(kinds[name]):
            same = DEFAULTS.get((owner, name), field.default)
            yield from (
                (name, choice)
                for choice in choices(kinds[name])
                if choice not in (same, "imported")
            )
        else:
            assert name in VALUES, (
                f"{owner} has a new option {name}: say in VALUES which value shows what it does"
            )
            yield from ((name, value) for value in OTHER_VALUES.get((owner, name), VALUES[name]))


def changed(option, plain, tried):
    """Whether it was refused, or made a difference."""
    try:
        other = tried()
    except ConfigError as error:
        assert len(str(error)) < 400
        return
    assert other != plain(), f"{option} has no effect"


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        (name, *pair)
        for name in MODELS
        for pair in tries(name, registry.config_class(name))
        if (name, pair[0]) not in SAME
    ],
    ids=str,
)
def test_every_option_of_a_model_does_something_or_is_refused(name, option, value, files):
    beside = BESIDE.get((name, option), BESIDE.get(("*", option), {}))
    start = {**base(name, files), **beside}
    changed(
        option,
        lambda: result(name, start, files=files),
        lambda: result(name, {**start, option: value}, files=files),
    )


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        (name, *pair)
        for name in ("lstm", "nplm", "gpt")
        for pair in tries("training", TrainConfig)
        if (f"train {name}", pair[0]) not in SAME
    ],
    ids=str,
)
def test_every_option_of_training_does_something_or_is_refused(name, option, value, files):
    beside = BESIDE.get(("train", option), {})
    other = {INSTEAD[option]: None} if option in INSTEAD else {}
    valid = OTHER if option in JUDGED else None
    changed(
        option,
        lambda: result(name, base(name, files), beside, files, valid),
        lambda: result(name, base(name, files), {**beside, **other, option: value}, files, valid),
    )


def idle_pairs():
    """Each option of `only_with` beside each value that takes its effect."""
    for owner, cls in [
        *((name, registry.config_class(name)) for name in MODELS),
        ("train", TrainConfig),
    ]:
        for option, needs in conditions(cls).items():
            value = next(v for o, v in tries(owner, cls) if o == option)
            for other, allowed in needs.items():
                field = cls.__dataclass_fields__[other]
                kind = field_types(cls)[other]
                every = [*choices(kind), *([True, False] if kind is bool else [])]
                every += ["a/directory"] if choices(kind) and str in parts(kind) else []
                if other == "encoder":
                    every = [*ENCODER_NAMES, *([] if field.metadata["known"] else ["a/directory"])]
                for taken in [
                    v for v in every if allowed and v not in allowed and v != "imported"
                ] or [field.default]:
                    length = {"steps": 9} if cls is TrainConfig else {}
                    yield owner, cls, {option: value, other: taken, **length}


@pytest.mark.parametrize(("owner", "cls", "options"), list(idle_pairs()), ids=str)
def test_an_option_without_effect_is_refused_in_one_line_and_an_old_model_that_has_it_loads(
    owner, cls, options, tmp_path
):
    """A directory must be there, or that is what is refused; a saved model does not need it any more."""
    with pytest.raises(ConfigError, match="has no effect with") as error:
        cls(
            **{
                name: str(tmp_path) if value == "a/directory" else value
                for name, value in options.items()
            }
        )
    assert "\n" not in str(error.value)
    option, other, *_ = options
    saved = cls.from_saved(options)
    assert getattr(saved, option) == cls.__dataclass_fields__[option].default
    if other not in conditions(cls):
        assert getattr(saved, other) == options[other]


@pytest.mark.parametrize(
    ("name", "options", "train"),
    [
        ("lstm", {"variational": False, "dropout": 0.0, "input_dropout": 0.0}, {}),
        ("gpt", {}, {"truncation": 8}),
        ("gpt", {}, {"random_truncation": True}),
        ("nplm", {}, {"random_truncation": True}),
        ("nplm", {}, {"recompute": True}),
        ("fasttext-classifier", {"min_ngram": 2}, {}),
        ("fasttext-classifier", {"buckets": 100}, {}),
        ("glove", {"alpha": 0.0, "x_max": 3.0}, {}),
    ],
    ids=str,
)
def test_what_depends_on_more_is_refused_when_it_is_fitted(name, options, train, files):
    with pytest.raises(ConfigError, match="has no effect"):
        result(name, {**base(name, files), **options}, train, files)


@pytest.mark.parametrize(
    "train", [{"patience": 2}, {"evaluate_every": 2}, {"schedule": "plateau"}], ids=str
)
def test_what_looks_at_a_valid_text_needs_one(train, files):
    model = registry.model_class("lstm")(**base("lstm", files))
    with pytest.raises(ConfigError, match=r"need held-out data.*give valid=\.\.\."):
        model.fit(corpus(), train=TrainConfig(**TRAIN, **train))


def test_the_table_has_nothing_that_is_no_option():
    known = {
        field.name
        for cls in (TrainConfig, *map(registry.config_class, MODELS))
        for field in dataclasses.fields(cls)
    }
    assert VALUES.keys() <= known
    assert {option for _, option in (*BESIDE, *SAME)} <= known
