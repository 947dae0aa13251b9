"""A GGUF file from the command line: convert, then every command for language models."""

import pytest

from tests.interop.llama_files import TOKENS, llama_file


def test_a_converted_llama_is_a_language_model_like_others(seqloom, tmp_path):
    pytest.importorskip("torch")
    llama_file(tmp_path / "tiny.gguf")
    (tmp_path / "text").write_text(
        "the cat the cat\nthe 12 cats and the rest of a text beyond the context\n"
    )
    (found,) = seqloom("convert", "tiny.gguf", "model", "--json").json()
    assert (found["model"], found["vocab_size"]) == ("gpt", len(TOKENS))
    assert "gpt-2x24" in seqloom("convert", "tiny.gguf", "model2").out
    greedy = seqloom("generate", "model", "the cat", "--temperature", "0", "--max-tokens", "5")
    assert greedy.code == 0
    assert greedy.out.startswith("the cat")
    assert len(seqloom("score", "model", "text", "--tokens").out.splitlines()) > 20
    (values,) = seqloom("evaluate", "model", "text", "--json").json()
    assert values["metrics"]["bits_per_byte"] > 0
    assert "gpt" in seqloom("info", "model").out


@pytest.mark.parametrize("bits", ["8", "4"])
def test_quantised_weights(seqloom, tmp_path, bits):
    """Of a file, and of a saved model: the same."""
    llama_file(tmp_path / "tiny.gguf")
    (tmp_path / "text").write_text(
        "the cat the cat\nthe 12 cats and the rest of a text beyond the context\n"
    )
    assert f"gpt-2x24-{bits}bit" in seqloom("convert", "tiny.gguf", "small", "--bits", bits).out
    seqloom("convert", "tiny.gguf", "model")
    seqloom("convert", "model", "again", "--bits", bits)
    small, again = (tmp_path / name / "model.safetensors" for name in ("small", "again"))
    assert small.read_bytes() == again.read_bytes()
    assert (
        seqloom("generate", "small", "the cat", "--temperature", "0", "--max-tokens", "5").code == 0
    )
    assert len(seqloom("score", "small", "text", "--tokens").out.splitlines()) > 20
    (values,) = seqloom("evaluate", "small", "text", "--json").json()
    assert values["metrics"]["bits_per_byte"] > 0
    refused = seqloom("evaluate", "small", "text", "--dynamic")
    assert refused.code != 0
    assert f"weights of {bits} bits cannot be trained" in refused.one_line()
    assert "bits a weight already" in seqloom("convert", "small", "more", "--bits", "4").one_line()
    assert not (tmp_path / "more").exists()


def test_bits_that_cannot_be(seqloom, tmp_path):
    llama_file(tmp_path / "tiny.gguf")
    assert (
        "'3' is not one of 8, 4"
        in seqloom("convert", "tiny.gguf", "model", "--bits", "3").one_line()
    )
    assert (
        "convert twice"
        in seqloom(
            "convert", "tiny.gguf", "model", "--bits", "8", "--form", "hugging-face"
        ).one_line()
    )
    (tmp_path / "text").write_text("a b a b c\n" * 5)
    seqloom("fit", "ngram", "text", "-o", "ngram")
    refused = seqloom("convert", "ngram", "x", "--bits", "8")
    assert (
        "--bits quantises the weights of a network; ngram is of kind ngram, which has none"
        in refused.one_line()
    )


@pytest.mark.parametrize(
    ("raw", "words"),
    [(b"GGUF", "cut off"), (b"", "is empty"), (None, "no such file"), (b"text", "not a GGUF file")],
)
def test_a_bad_file_is_one_line(seqloom, tmp_path, raw, words):
    if raw is not None:
        (tmp_path / "x.gguf").write_bytes(raw)
    found = seqloom("convert", "x.gguf", "model")
    assert found.code == 1
    assert words in found.one_line()
    assert not (tmp_path / "model").exists()


def test_a_conversation_and_a_draft(seqloom, tmp_path):
    pytest.importorskip("jinja2")
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}"
        "<|im_start|>"
    )
    llama_file(tmp_path / "tiny.gguf", tokenizer__chat_template=template)
    assert seqloom("convert", "tiny.gguf", "model").code == 0
    assert (
        seqloom(
            "generate", "model", "hello", "--chat", "--temperature", "0", "--max-tokens", "5"
        ).code
        == 0
    )
    found = seqloom(
        "generate",
        "model",
        "--chat",
        "--json",
        "--max-tokens",
        "5",
        "--system",
        "be brief",
        stdin="one\n\ntwo\n",
    )
    assert [(row["message"], type(row["answer"])) for row in found.json()] == [
        ("one", str),
        ("two", str),
    ]
    greedy = ("generate", "model", "the cat", "--temperature", "0", "--max-tokens", "9")
    assert seqloom(*greedy).out == seqloom(*greedy, "--draft", "model", "--draft-tokens", "3").out
    for wrong, words in (
        (("--system", "x"), "--system is for --chat"),
        (("--draft-tokens", "2"), "is for --draft"),
        (("--chat", "-n", "2"), "drop -n and --beams"),
    ):
        assert words in seqloom("generate", "model", "x", *wrong).one_line()
    llama_file(tmp_path / "plain.gguf")
    assert seqloom("convert", "plain.gguf", "plain").code == 0
    assert "has no chat template" in seqloom("generate", "plain", "x", "--chat").one_line()


def test_a_prompt_beyond_the_context_is_said(seqloom, tmp_path):
    llama_file(tmp_path / "tiny.gguf")
    seqloom("convert", "tiny.gguf", "model")
    long, short = (seqloom("generate", "model", "x " * n, "--max-tokens", "2") for n in (20, 4))
    assert long.code == short.code == 0
    assert "warning: the prompt has 40 tokens; the model sees at most the last 12" in long.err
    assert "sees at most" not in short.err
    assert (
        "sees at most"
        in seqloom("generate", "model", "x " * 20, "-n", "2", "--max-tokens", "2").err
    )
    assert (
        "sees at most" not in seqloom("generate", "model", "x " * 20, "-q", "--max-tokens", "2").err
    )
