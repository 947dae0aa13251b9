"""`info` shows the options that mean something for the model at hand, and nothing else."""

import json

import numpy as np
import pytest

from seqloom import load, registry
from seqloom.training.config import TrainConfig
from tests.fuzz.specimens import LABELLED, SPECIMENS
from tests.models.test_composition import make_encoder

pytest.importorskip("torch")

CONVERTED = {
    "bert": lambda m: m.hidden("the cat").vectors,
    "sentence-encoder": lambda m: m.embed(["the cat"]),
    "gpt": lambda m: np.array(m.token_scores("the dog is here")),
    "transformer": lambda m: np.array(m.score("abc", "cba")),
}
OTHER = {int: 7, float: 0.25}  # values that an option of training might as well have


def shown(seqloom, place, section="config", indent=2):
    """The names in one section."""
    lines = seqloom("info", place).out.partition(f"\n{section}\n")[2].split("\n\n")[0].splitlines()
    return {
        line.split()[0] for line in lines if line.startswith(" " * indent) and line[indent] != " "
    }


def untrained(name, place):
    """Saved as published weights would be: without a record of training."""
    SPECIMENS[name]().save(place)
    config = json.loads((place / "config.json").read_text())
    config["fit"].pop("train", None)
    (place / "config.json").write_text(json.dumps(config))
    return config


@pytest.mark.parametrize("name", CONVERTED)
def test_published_weights_have_no_options_of_training(name, seqloom, tmp_path):
    config = untrained(name, tmp_path / "m")
    names = shown(seqloom, "m")
    kept = {key for key, value in config["config"].items() if value not in (None, "", [])}
    only = {
        one
        for base in registry.config_class(name).__mro__
        for one in vars(base).get("training_only", ())
    }
    assert "dropout" in only
    assert names <= kept - only
    assert {"n_layers", "n_heads"} <= names
    assert (
        seqloom("info", "m", "--json").json()[0]["config"] == config["config"]
    )  # all of them, for programs


@pytest.mark.parametrize("name", CONVERTED)
def test_what_is_left_out_changes_no_answer(name, seqloom, tmp_path):
    config = untrained(name, tmp_path / "m")
    before, names = CONVERTED[name](load(tmp_path / "m")), shown(seqloom, "m")
    changed = {
        key: OTHER[type(value)]
        for key, value in config["config"].items()
        if key not in names and type(value) in OTHER
    }
    changed |= {"dropout": 0.25} | (
        {"tokenizer": "word"} if "tokenizer" in config["config"] else {}
    )
    (tmp_path / "m" / "config.json").write_text(
        json.dumps(config | {"config": config["config"] | changed})
    )
    assert np.array_equal(CONVERTED[name](load(tmp_path / "m")), before)


def test_a_model_that_was_trained_here_shows_how(seqloom, tmp_path):
    SPECIMENS["gpt"]().save(tmp_path / "m")
    assert {"tokenizer", "min_count", "n_layers"} <= shown(seqloom, "m")
    assert not {"samples", "max_distance", "pretrained_training"} & shown(seqloom, "m")
    assert {"optimizer", "schedule"} <= shown(seqloom, "m", "fit", 4)


@pytest.mark.parametrize(
    ("options", "there", "absent"),
    [
        ({"encoder": "{encoder}"}, {"encoder_lr", "gradual", "frozen"}, {"frozen_for"}),
        ({"encoder": "{encoder}", "gradual": True}, {"encoder_lr", "gradual", "frozen_for"}, set()),
        (
            {"encoder": "{encoder}", "frozen": True},
            {"frozen"},
            {"encoder_lr", "gradual", "frozen_for"},
        ),
        (
            {"encoder": "cnn", "d_hidden": 4, "d_embed": 4},
            {"d_hidden", "window", "tokenizer", "characters"},
            {"frozen", "encoder_lr", "gradual", "frozen_for", "n_heads", "pretrained_words"},
        ),
    ],
    ids=["fine-tuned", "gradual", "frozen", "from scratch"],
)
def test_a_classifier_shows_the_options_of_its_encoder(options, there, absent, seqloom, tmp_path):
    place = make_encoder(tmp_path / "encoder")
    given = {
        key: value.format(encoder=place) if isinstance(value, str) else value
        for key, value in options.items()
    }
    registry.model_class("classifier")(**given).fit(LABELLED, train=TrainConfig(steps=1)).save(
        tmp_path / "m"
    )
    scratch = {
        "d_hidden",
        "n_layers",
        "window",
        "n_heads",
        "tokenizer",
        "min_count",
        "normalize",
        "word_dropout",
        "characters",
        "d_characters",
        "pretrained_unknown",
        "pretrained_training",
        "pretrained_frozen_for",
        "n_sentence_layers",
    }
    names = shown(seqloom, "m")
    assert there <= names
    assert not names & (absent | (scratch if "{encoder}" in options["encoder"] else set()))
    page = (tmp_path / "m" / "README.md").read_text()
    assert all(f"| {name} |" in page for name in there)
    assert not any(f"| {name} |" in page for name in absent)
    train = shown(seqloom, "m", "fit", 4)
    assert "optimizer" in train
    assert not train & {"truncation", "random_truncation", "decay", "decay_every"}


def test_what_cannot_be_read_is_shown_as_it_is(seqloom, tmp_path):
    SPECIMENS["majority"]().save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    (tmp_path / "m" / "config.json").write_text(json.dumps(config | {"config": {"strange": 3}}))
    assert "strange" in seqloom("info", "m").out
