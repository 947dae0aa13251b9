"""Attention, heads and ablation: numbers against plain NumPy and planted patterns, and what is refused."""

import json
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import seqloom
from seqloom import progress, reference
from seqloom.charts.attention import image_of, strongest, tiles
from seqloom.cli.main import main
from seqloom.data.dependencies import Parsed, read_parsed
from seqloom.errors import ConfigError, DataError
from seqloom.views.attending import Layer, _lines, layer_names, layers_of
from seqloom.views.head_patterns import Seen, describe
from seqloom.views.head_tasks import best_by_chance, read_pairs, words_look
from seqloom.views.needs import attention as has_attention
from seqloom.views.reading import traced
from seqloom.views.removal import ALL_HEADS, LAYER, parts_of, without_parts
from tests.saved import NEWEST

WORDS = "the cat sat on the log and the dog sat on the mat"
CONLLU = """# a comment
1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\t_
2\tcat\tcat\tNOUN\t_\t_\t3\tnsubj:pass\t_\t_
3\tsat\tsit\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_

"""


@pytest.fixture(scope="module")
def gpt():
    pytest.importorskip("torch")
    from seqloom.training.config import TrainConfig

    model = seqloom.GPT(
        tokenizer="whitespace",
        context=32,
        d_model=16,
        n_layers=2,
        n_heads=4,
        min_count=1,
        unit="line",
        positions="learned",
    )
    return model.fit("\n".join([WORDS] * 30), train=TrainConfig(steps=40, lr=0.02))


# ---- weights


def test_weights_are_those_of_the_formula(gpt):
    """Embedding, norm, projections and softmax in plain NumPy, of the first layer."""
    weights = {name: np.asarray(array, np.float64) for name, array in gpt.weights.items()}
    read = traced(gpt, WORDS, "blocks.0.*").tokens
    ids = np.array([gpt.tokenizer.id(token) for token in read])
    x = weights["embedding.weight"][ids] + weights["position.weight"][: len(ids)]
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + gpt.config.norm_epsilon)
    x = x * weights["blocks.0.norm1.weight"] + weights["blocks.0.norm1.bias"]
    qkv = x @ weights["blocks.0.attention.qkv.weight"].T + weights["blocks.0.attention.qkv.bias"]
    q, k, v = (part.reshape(len(ids), 4, -1).swapaxes(0, 1) for part in np.split(qkv, 3, axis=1))
    expected = reference.attend(q, k, v, reference.causal_mask(len(ids))).weights
    for head in range(4):
        data = seqloom.inspect.attention(gpt, WORDS, layer=0, head=head).data
        assert np.abs(data["weights"] - expected[head]).max() < 1e-5
    mean = seqloom.inspect.attention(gpt, WORDS, layer=0).data["weights"]
    assert np.abs(mean - expected.mean(0)).max() < 1e-5


@pytest.mark.parametrize("name", sorted(path.name for path in NEWEST.iterdir() if path.is_dir()))
def test_names_of_layers_are_those_of_a_trace_and_rows_sum_to_one(name):
    model = seqloom.load(NEWEST / name)
    if not has_attention(model):
        return
    example = "abc" if model.task == "translator" else WORDS
    arrays = traced(model, example).arrays
    found = [each.removesuffix(".weights") for each in arrays if each.endswith(".weights")]
    assert layer_names(model) == found
    for layer in layers_of(model, example):
        assert layer.weights.shape[1:] == (len(layer.steps), len(layer.keys))
        assert np.abs(layer.weights.sum(2) - 1).max() < 1e-5


def test_layers_of_a_long_text_are_read_one_at_a_time_and_equal(gpt, monkeypatch):
    together = list(layers_of(gpt, WORDS))
    monkeypatch.setattr("seqloom.views.attending.AT_ONCE", 1)
    for one, other in zip(layers_of(gpt, WORDS), together, strict=True):
        assert one.name == other.name
        assert np.array_equal(one.weights, other.weights)


def test_layers_and_heads_out_of_range(gpt):
    with pytest.raises(ConfigError, match="layer must be from 0 to 1; got 2"):
        seqloom.inspect.attention(gpt, WORDS, layer=2)
    with pytest.raises(ConfigError, match="head must be from 0 to 3; got 4"):
        seqloom.inspect.attention(gpt, WORDS, head=4)
    with pytest.raises(ConfigError, match="heads need a text"):
        seqloom.inspect.heads(gpt, None)


def test_a_long_text_is_cut_to_the_context_which_is_said(gpt, recwarn):
    sheet = seqloom.inspect.attention(gpt, " ".join([WORDS] * 8000))
    assert sheet.data["weights"].shape == (32, 32)


def test_a_long_text_is_told_once_and_even_weights_are_listed(gpt):
    said = []
    bar = SimpleNamespace(advance=lambda n=1: None, note=lambda text: None)
    reporter = SimpleNamespace(begin=lambda *_: bar, end=lambda task: None, say=said.append)
    with progress.reporting(reporter):
        sheet = seqloom.inspect.heads(gpt, f"{WORDS} " * 20)
    assert len(said) == 1
    assert "-0.00" not in "\n".join(sheet.lines)
    even = np.full((400, 400), 1 / 400)
    assert _lines(even, ["a"] * 400, ["a"] * 400, True)[1].count("'a' 0.003") == 3


def test_quantised_weights_are_named():
    model = seqloom.load(NEWEST / "gpt-8-bit")
    for sheet in (seqloom.inspect.attention(model, WORDS), seqloom.inspect.heads(model, WORDS)):
        assert "rounded to 8 bits" in sheet.summary[0]


# ---- pictures


def test_tiles_keep_the_largest_weight():
    weights = np.random.default_rng(0).random((7, 11))
    small, size = tiles(weights, most=4)
    assert size == 3
    for row, column in np.ndindex(small.shape):
        part = weights[row * 3 : row * 3 + 3, column * 3 : column * 3 + 3]
        assert small[row, column] == part.max()


def test_an_image_has_the_shades_of_the_weights():
    import base64

    data = base64.b64decode(image_of(np.array([[0.0, 0.25], [1.0, 0.0]])).partition(",")[2])
    at = data.index(b"IDAT")
    length = int.from_bytes(data[at - 4 : at], "big")
    assert zlib.decompress(data[at + 4 : at + 4 + length]) == bytes([0, 0, 128, 0, 255, 0])


def test_arcs_are_the_largest_weights_of_each_step():
    weights = np.array([[0.5, 0.3, 0.2], [0.04, 0.9, 0.06], [0.1, 0.2, 0.7]])
    assert strongest(weights, itself=False) == [
        (0, 0, 0.5),
        (0, 1, 0.3),
        (1, 1, 0.9),
        (1, 2, 0.06),
        (2, 2, 0.7),
        (2, 1, 0.2),
    ]
    assert [arc[:2] for arc in strongest(weights, itself=True)] == [
        (0, 1),
        (0, 2),
        (1, 2),
        (2, 1),
        (2, 0),
    ]


# ---- patterns

TOKENS = ["a", "b", "c", "a", "d", "e", "b", "f", "g", "a", "h", "c"]


def planted(pattern, causal):
    """Weights of one head, nearly all on what the pattern says."""
    size = len(TOKENS)
    seen = np.tril(np.ones((size, size))) if causal else np.ones((size, size))
    weights = 0.02 * seen
    for step in range(size):
        last = step if causal else size - 1
        same = [i for i in range(last + 1) if TOKENS[i] == TOKENS[step] and i != step]
        at = {
            "previous": [max(step - 1, 0)],
            "next": [min(step + 1, last)],
            "itself": [step],
            "first": [0],
            "same word": same or list(range(last + 1)),
            "diagonal": [i for i in range(step - 2, step + 3) if 0 <= i <= last],
            "stripe": [min(4, last)],
            "diffuse": list(range(last + 1)),
        }[pattern]
        weights[step, at] += 1 / len(at)
    return weights / weights.sum(1, keepdims=True)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    "pattern", ["previous", "next", "itself", "first", "same word", "diagonal", "stripe", "diffuse"]
)
def test_planted_patterns_are_found(pattern, causal):
    if causal and pattern == "next":
        return
    weights = planted(pattern, causal).astype(np.float32)
    layer = Layer("blocks.0.attention", weights[None], TOKENS, TOKENS, ["blocks.0.attention"])
    row = describe(weights, Seen.of(layer))
    assert row["pattern"] == pattern
    if pattern == "stripe":
        assert row["stripe_token"] == "d"


def test_entropy_distance_and_strength_by_hand():
    weights = np.full((1, 4, 4), 0.25, np.float32)
    layer = Layer("attention", weights, list("abcd"), list("abcd"), ["attention"])
    row = describe(weights[0], Seen.of(layer))
    assert row["entropy"] == row["largest_entropy"] == 2.0
    assert row["distance"] == pytest.approx((1.5 + 1 + 1 + 1.5) / 4)
    assert row["previous"] == pytest.approx(0)
    assert row["pattern"] == "diffuse"


# ---- words


def test_dependencies_are_read(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU * 2)
    first, second = read_parsed(str(path))
    assert first == second == Parsed(
        ["The", "cat", "sat", "."], [True, True, False, True], [1, 2, -1, 2],
        ["det", "nsubj:pass", "root", "punct"],
    )  # fmt: skip
    assert first.text() == ("The cat sat.", [(0, 3), (4, 7), (8, 11), (11, 12)])
    assert first.text(blanks=True)[0] == "The cat sat ."
    path.write_text(CONLLU.replace("\t2\tdet", "\t9\tdet"))
    with pytest.raises(DataError, match=r"line 2: '9' as HEAD"):
        read_parsed(str(path))


def test_what_words_look_at_is_gathered_from_tokens(gpt):
    """Two tokens are called one word: weights on both are added, those from both averaged."""
    looks = words_look(gpt, [], "the cat sat on", [(0, 7), (8, 11)])
    direct = next(layers_of(gpt, "the cat sat on")).weights  # </s> the cat sat on
    assert looks.weights[:4, 1, 0] == pytest.approx(direct[:, 3, 1:3].sum(1), abs=1e-6)
    assert looks.weights[:4, 0, 0] == pytest.approx(direct[:, 1:3, 1:3].sum(2).mean(1), abs=1e-6)
    assert not looks.ahead
    assert looks.read.tolist() == [True, True]


def test_relations_of_a_planted_head(gpt, tmp_path, monkeypatch):
    """Weights that look from each word to its head find all arcs; the fixed distance does not."""
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(60):
        order = rng.permutation(5)
        heads = [int(order[0]) + 1 if word != order[0] else 0 for word in range(5)]
        sentences.append(
            "\n".join(
                f"{word + 1}\tthe\t_\tX\t_\t_\t{head}\t{'obj' if head else 'root'}\t_\t_"
                for word, head in enumerate(heads)
            )
        )
    path = tmp_path / "planted.conllu"
    path.write_text("\n\n".join(sentences) + "\n")
    parsed = iter(read_parsed(str(path)))

    def look(model, words, text, places):
        from seqloom.views.head_tasks import Looks

        weights = np.zeros((2, 5, 5), np.float32)
        for word, head in enumerate(next(parsed).heads):
            weights[1, word, head if head >= 0 else 0] = 1
        return Looks([("l", 0), ("l", 1)], weights, True, np.ones(5, bool))

    monkeypatch.setattr("seqloom.views.head_tasks.words_look", look)
    rows = seqloom.inspect.heads(gpt, None, tagged=str(path)).data["arcs"]
    best = next(row for row in rows if row["from"] == "dependent")
    assert (best["relation"], best["head"], best["accuracy"], best["arcs"]) == ("obj", 1, 1.0, 120)
    assert best["offset_accuracy"] < 0.5


def test_pairs(gpt, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "the cat sat on the log and the dog\tthe\tcat\tlog\n# said\nthe mat sat on\tsat\tmat\tthe\n"
    )
    pairs = read_pairs(str(path))
    assert pairs[0][1:] == ((27, 30), (4, 7), [(19, 22)])
    rows = seqloom.inspect.heads(gpt, None, pairs=str(path)).data["pairs"]
    assert len(rows) == 8
    # by hand, of the first layer: </s> the cat sat on the log and the
    wins = np.zeros(4)
    for text, at, right, wrong in (
        (pairs[0].text, 8, 2, 6),
        (pairs[1].text, 3, 2, 1),
    ):
        weights = next(layers_of(gpt, text)).weights
        wins += weights[:, at, right] > weights[:, at, wrong]
    assert [row["accuracy"] for row in rows[:4]] == (wins / 2).tolist()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a b\ta\tb", "line 1: it takes a text, a mention"),
        ("he saw it\tit\tcat\the", "line 1: 'cat' is not a word of the text before 'it'"),
        ("he saw it\tthem\tcat\the", "line 1: 'them' is not a word of the text"),
        ("", "has no line"),
    ],
)
def test_pairs_that_cannot_be_read(line, said, tmp_path):
    (tmp_path / "pairs.tsv").write_text(line)
    with pytest.raises(DataError, match=said):
        read_pairs(str(tmp_path / "pairs.tsv"))


def test_the_best_by_chance_is_that_of_coins():
    rng = np.random.default_rng(1)
    drawn = rng.binomial(12, 0.5, (20_000, 9)).max(1).mean() / 12
    assert best_by_chance(9, 12) == pytest.approx(drawn, abs=0.005)


# ---- ablation


def test_removing_a_head_leaves_out_its_part_of_the_sum(gpt):
    """Against the network of torch with a hook that puts zeros where the head's vector enters."""
    import torch

    ids, lengths = gpt.encode(WORDS)
    part = next(
        part for part in parts_of(gpt) if (part.layer, part.part) == ("blocks.1.attention", "2")
    )
    ours = without_parts(gpt, part.names).sequence_log_probs(ids, lengths)
    network = gpt.network()
    module = dict(network.named_modules())["blocks.1.attention.out"]

    def silence(module, inputs):
        (x,) = inputs
        x = x.clone()
        x[..., 8:12] = 0
        return (x,)

    handle = module.register_forward_pre_hook(silence)
    try:
        with torch.no_grad():
            theirs = gpt.sequence_log_probs(ids, lengths)
    finally:
        handle.remove()
    assert np.abs(ours - theirs).max() < 1e-5
    assert np.abs(ours - gpt.sequence_log_probs(ids, lengths)).max() > 1e-4


def test_costs_are_differences_of_bits(gpt):
    text = "\n".join([WORDS] * 5)
    sheet = seqloom.inspect.ablation(gpt, text)
    whole = -gpt.score(text) / np.log(2)
    tokens = len(gpt.encode(text)[0])
    assert sheet.data["whole"]["bits"] == pytest.approx(whole / tokens, abs=1e-5)
    rows = sheet.data["rows"]
    assert [row["part"] for row in rows] == ["0", "1", "2", "3", ALL_HEADS, LAYER] * 2
    left = -without_parts(gpt, parts_of(gpt)[0].names).score(text) / np.log(2)
    assert rows[0]["bits_cost"] == pytest.approx((left - whole) / tokens, abs=1e-5)
    low, high = rows[0]["bits_interval"]
    assert low <= rows[0]["bits_cost"] <= high


# ---- switching heads off on one text


def test_a_text_without_some_heads(gpt):
    """Heads together are as one after the other; a layer is all its heads and their bias."""
    parts = {(part.layer, part.part): part.names for part in parts_of(gpt)}
    one, two = (parts["blocks.0.attention", head] for head in ("1", "3"))
    layer = parts["blocks.1.attention", ALL_HEADS]
    expected = -without_parts(without_parts(without_parts(gpt, one), two), layer).score(
        WORDS
    ) / np.log(2)
    data = seqloom.inspect.without(gpt, WORDS, off=["0.1", "0.3", "1"]).data
    assert data["bits"] == pytest.approx(-gpt.score(WORDS) / np.log(2), rel=1e-5)
    assert data["bits without"] == pytest.approx(expected, rel=1e-5)
    assert abs(data["cost"]) > 1e-3
    assert sum(row["cost"] for row in data["rows"]) == pytest.approx(data["cost"])
    stream = seqloom.load(NEWEST / "gpt")
    assert stream.unit != "line"  # whose end is no newline
    assert seqloom.inspect.without(stream, "the cat").data["rows"][-1]["token"] == "</s>"


@pytest.mark.parametrize("off", [[], ["2"], ["0.4"], ["0."], ["x"], ["-1"], ["0.0.0"], ["\u00b2"]])
def test_heads_that_are_not_there(gpt, off):
    with pytest.raises(ConfigError, match=r"off must name"):
        seqloom.inspect.without(gpt, WORDS, off=off)


def test_what_changes_for_other_tasks():
    model = seqloom.load(NEWEST / "transformer")
    data = seqloom.inspect.without(model, ("abc", "cab"), off=["2.0"]).data
    assert data["bits"] == pytest.approx(-model.score("abc", "cab") / np.log(2), rel=1e-5)
    data = seqloom.inspect.without(seqloom.load(NEWEST / "bert"), WORDS, off=["1"]).data
    scores = np.array(seqloom.load(NEWEST / "bert").token_scores(WORDS))
    assert [row["bits"] for row in data["rows"]] == pytest.approx((-scores / np.log(2)).tolist())


def test_the_model_itself_stays_as_it_is(gpt):
    before = gpt.score(WORDS)
    seqloom.inspect.ablation(gpt, WORDS)
    assert gpt.score(WORDS) == before


def test_a_layer_without_its_additions_passes_its_input_on(gpt):
    """Without both layers what is left is the embedding, the last norm and the output."""
    names = {name: None for part in parts_of(gpt) if part.part == LAYER for name in part.names}
    model = without_parts(gpt, names)
    arrays = model.trace(WORDS, "*.out").arrays
    assert np.array_equal(arrays["blocks.0.out"], arrays["blocks.1.out"])
    assert not np.array_equal(
        *(gpt.trace(WORDS, "*.out").arrays[f"blocks.{i}.out"] for i in (0, 1))
    )


@pytest.mark.parametrize(
    ("name", "data", "measure"),
    [
        ("bert", "the cat sat\nthe dog sat\n", "bits"),
        ("gpt-8-bit", "the cat sat\nthe dog sat\n", "bits"),
        ("transformer", [("abc", "cba"), ("aab", "baa")], "bits"),
    ],
)
def test_models_of_other_tasks(name, data, measure):
    pytest.importorskip("torch")
    sheet = seqloom.inspect.ablation(seqloom.load(NEWEST / name), data)
    assert measure in sheet.data["whole"]
    assert sheet.charts


@pytest.mark.parametrize("task", ["classifier", "tagger", "answerer"])
def test_composed_networks(task, monkeypatch):
    pytest.importorskip("torch")
    from seqloom.training.config import TrainConfig

    few = TrainConfig(steps=3)
    shape = {"encoder": "transformer", "d_hidden": 8, "d_embed": 8, "n_layers": 2, "n_heads": 2}
    if task == "classifier":
        data = [("a good day", "pos"), ("a bad day", "neg")] * 8
        model = seqloom.NeuralClassifier(hold_out=0, min_count=1, **shape).fit(data, train=few)
        text = "a good day"
    elif task == "tagger":
        data = [([("the", "D"), ("cat", "N")])] * 8
        model = seqloom.NeuralTagger(hold_out=0, min_count=1, **shape).fit(data, train=few)
        text = "the cat"
    else:
        data = [("who sat ?", "the cat sat .", "the cat")] * 8
        model = seqloom.NeuralAnswerer(hold_out=0, min_count=1, **shape).fit(data, train=few)
        text = ("who sat ?", "the cat sat .")
    sheet = seqloom.inspect.ablation(model, data)
    assert len(sheet.data["rows"]) == 2 * 4
    monkeypatch.setattr("seqloom.views.attending.MOST", 300)
    long = (text[0], text[1] * 400) if task == "answerer" else f"{text} " * 1000
    weights = seqloom.inspect.attention(model, long, layer=0).data["weights"]
    assert weights.shape[0] == weights.shape[1]
    assert len(weights) == {"tagger": 300, "classifier": 512, "answerer": 384}[task]
    heads = seqloom.inspect.heads(model, text)
    assert len(heads.data["rows"]) == 4
    assert seqloom.inspect.attention(model, text, head=1).charts
    assert heads.charts


# ---- commands


def test_commands(gpt, tmp_path):
    gpt.save(tmp_path / "model")
    (tmp_path / "a.conllu").write_text(CONLLU.replace("cat", "dog") * 60)
    (tmp_path / "pairs.tsv").write_text("the cat sat on the log\ton\tcat\tthe\n")
    (tmp_path / "valid.txt").write_text(WORDS + "\n")
    model = str(tmp_path / "model")
    tagged, pairs = str(tmp_path / "a.conllu"), str(tmp_path / "pairs.tsv")
    for arguments, key in (
        (["attention", model, WORDS, "--layer", "0", "--head", "1"], "weights"),
        (["heads", model, WORDS], "rows"),
        (["heads", model, "--tagged", tagged, "--pairs", pairs], "arcs"),
        (["ablation", model, str(tmp_path / "valid.txt")], "rows"),
    ):  # fmt: skip
        result = CliRunner().invoke(main, ["inspect", *arguments, "--json"])
        assert result.exit_code == 0, result.output
        assert key in json.loads(result.stdout)
        assert CliRunner().invoke(main, ["inspect", *arguments]).exit_code == 0


def test_pictures_of_large_maps_are_images(gpt, tmp_path):
    from seqloom.charts.attention import weights_chart

    weights = np.tril(np.random.default_rng(0).random((700, 700)))
    names = ["x"] * 700
    spec = json.dumps(
        weights_chart(weights / weights.sum(1, keepdims=True), names, names).to_dict()
    )
    assert len(spec) < 400_000
    assert "data:image/png" in spec
    seqloom.inspect.heads(gpt, WORDS).save(tmp_path / "heads.html")
    assert Path(tmp_path / "heads.html").stat().st_size > 1000
