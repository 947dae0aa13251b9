"""`fit --start`: training that goes on from a saved model, and what is refused before the data is read."""

import pytest

pytest.importorskip("torch")

from seqloom import load
from tests.models.test_composition import make_encoder

TEXT = "the cat sat on the mat\nthe dog met a cat on the road\n" * 20
LABELLED = (
    "good\ta lovely warm film\nbad\ta dull cold film\ngood\twarm and funny\nbad\tcold and boring\n"
)
QUICK = ("--steps", 3, "--batch-size", 2, "-q")


@pytest.fixture
def old(seqloom, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "more.txt").write_text("the road met the dog\nan owl sat on the cat\n" * 20)
    made = seqloom(
        "fit",
        "gru",
        "text.txt",
        "-o",
        "old",
        "--tokenizer",
        "whitespace",
        "--d-hidden",
        8,
        "--softmax",
        "sampled",
        "--samples",
        5,
        *QUICK,
    )
    assert made.code == 0
    return "old"


def test_training_goes_on(seqloom, old):
    done = seqloom(
        "fit",
        "gru",
        "more.txt",
        "-o",
        "new",
        "--start",
        old,
        "--dropout",
        0.3,
        "--samples",
        4,
        *QUICK,
    )
    assert (done.code, done.err) == (0, "")
    model, origin = load("new"), load(old)
    assert model.config.d_hidden == 8
    assert (model.config.dropout, model.config.samples) == (0.3, 4)
    assert model.tokenizer.vocab_size == origin.tokenizer.vocab_size
    digest = model.fit_info["origin_weights"]
    assert f"origin           gru-1x8\n  origin_weights   {digest}" in seqloom("info", "new").out
    assert f"|start:gru-1x8@{digest[:8]}" in seqloom("evaluate", "new", "text.txt", "-q").out
    assert (
        seqloom("fit", "gru", "more.txt", "-o", "new", "--start", "new", *QUICK).code == 0
    )  # in its own place
    assert load("new").fit_info["origin_weights"] != digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("gru", "--start", "old", "--d-hidden", 9),
            "--d-hidden is 9, but old has 8; leave --d-hidden out, or start from another model",
        ),
        (("gru", "--start", "old", "--n-layers", 2), "--n-layers is 2, but old has 1"),
        (
            ("gru", "--start", "old", "--tokenizer", "char"),
            "tokenizer is char, but old has whitespace",
        ),
        (
            ("gru", "--start", "old", "--pretrained", "old"),
            "start and pretrained both say what the network begins with",
        ),
        (("gru", "--start", "none"), "none: no such directory"),
        (("gru", "--start", "text.txt"), "not a directory"),
        (("lstm", "--start", "old"), "start must be a saved lstm model; old is gru"),
    ],
    ids=str,
)
def test_what_is_refused_before_the_data_is_read(seqloom, old, options, message):
    assert (
        message
        in seqloom(
            "fit", *options[:1], "no-such-text.txt", "-o", "new", *options[1:], *QUICK
        ).one_line()
    )


def test_quantised_models_are_refused(seqloom, old):
    assert (
        seqloom(
            "fit",
            "gpt",
            "text.txt",
            "-o",
            "gpt",
            "--d-model",
            8,
            "--n-layers",
            1,
            "--context",
            8,
            "--tokenizer",
            "char",
            *QUICK,
        ).code
        == 0
    )
    assert seqloom("convert", "gpt", "small", "--bits", 8).code == 0
    line = seqloom(
        "fit", "gpt", "no-such-text.txt", "-o", "new", "--start", "small", *QUICK
    ).one_line()
    assert line == (
        "start: small has 8 bits a weight, which cannot be trained; give the model that it was "
        "quantised from, or "
        "convert again without --bits"
    )
    assert (
        seqloom(
            "fit", "gpt", "more.txt", "-o", "new", "--start", "gpt", "--context", 16, *QUICK
        ).code
        == 0
    )
    assert load("new").config.context == 16


def test_options_that_only_suit_the_start_need_not_repeat_what_it_is(seqloom, tmp_path):
    """--frozen is for a converted encoder, which the model to start from has."""
    make_encoder(tmp_path / "encoder")
    (tmp_path / "data.tsv").write_text(LABELLED)
    assert (
        seqloom(
            "fit", "classifier", "data.tsv", "-o", "old", "--encoder", "encoder", "--frozen", *QUICK
        ).code
        == 0
    )
    for flag in ("--frozen", "--no-frozen"):
        done = seqloom("fit", "classifier", "data.tsv", "-o", "new", "--start", "old", flag, *QUICK)
        assert (done.code, done.err) == (0, "")
        assert load("new").config.frozen == (flag == "--frozen")


def test_freezing_by_name(seqloom, old):
    done = seqloom(
        "fit",
        "gru",
        "more.txt",
        "-o",
        "new",
        "--start",
        old,
        "--freeze",
        "embedding*",
        "--freeze",
        "output.*",
        "--lr-scale",
        "recurrent.*=0.5",
        *QUICK,
    )
    assert (done.code, done.err) == (0, "")
    new, before = load("new"), load(old)
    kept = {name for name in new.weights if (new.weights[name] == before.weights[name]).all()}
    assert kept == {name for name in new.weights if name.startswith(("embedding", "output."))}
    assert new.fit_info["train"]["freeze"] == ["embedding*", "output.*"]
    line = seqloom(
        "fit", "gru", "more.txt", "-o", "new2", "--start", old, "--freeze", "encoder*", *QUICK
    ).one_line()
    assert line.startswith("freeze: no weight has a name like 'encoder*'; ")


def test_help_shows_it_among_the_training_options(seqloom):
    shown = seqloom("fit", "gru", "--help").out
    assert (
        "--start DIR" in shown[shown.index("Training options") : shown.index("Data and tokenizer")]
    )
    assert "new words are added" in seqloom("fit", "word2vec", "--help").out
    assert "--start" not in seqloom("fit", "ngram", "--help").out
