"""Heads on encoders as Hugging Face computes them: tiny random networks of three families, each with
all four heads.

`heads.npz` holds their weights by the names that `transformers` gives them, in half precision, which is
exact: the networks have these weights. All heads of a family share its encoder. For each head there are
the logits of `ROWS`: of the tokens of two texts, or of a question and two answers. `config` of a family
is its config.json.
"""

import json
from pathlib import Path

import numpy as np
from tests.interop.encoder_files import WORDS, make_config, make_network, write_tokenizer

FILE = Path(__file__).parent / "heads.npz"
FAMILIES = ("bert", "distilbert", "roberta")
KINDS = ("SequenceClassification", "TokenClassification", "MultipleChoice", "QuestionAnswering")
LABELS = ("O", "B-PER", "I-PER")
TEXTS = ["the cat sat", "a dog ran on the mats ."]
SUBWORDS = [["the", "cat", "sat"], ["a", "dog", "ran", "on", "the", "mat", "##s", "."]]
CONTEXT, CHOICES = "the cat", ["a dog ran", "the mats"]
CHOICE_SUBWORDS = [["a", "dog", "ran"], ["the", "mat", "##s"]]
SMALL = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "intermediate_size": 12,
    "num_attention_heads": 2,
}
SMALL_DISTILBERT = {"dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 12}


def rows(family, kind):
    """The ids of each row with its marks, and their types."""
    cls, sep = [WORDS.index("[CLS]")], [WORDS.index("[SEP]")]
    coded = [[WORDS.index(word) for word in words] for words in SUBWORDS]
    if kind in ("SequenceClassification", "TokenClassification"):
        return [([*cls, *ids, *sep], [0] * (len(ids) + 2)) for ids in coded]
    first = [WORDS.index(word) for word in CONTEXT.split()]
    between = sep * (2 if family == "roberta" else 1)
    made = []
    for words in CHOICE_SUBWORDS:
        second = [*(WORDS.index(word) for word in words), *sep]
        before = [*cls, *first, *between]
        kinds = [0] * len(before) + [int(family == "bert")] * len(second)
        made.append((before + second, kinds))
    return made


def write(place, family, kind):
    """Write the directory of one network; return its logits."""
    from safetensors.numpy import save_file

    place.mkdir(parents=True)
    tensors = {}
    with np.load(FILE) as stored:
        facts = json.loads(str(stored["facts"]))
        for group in (f"{family} encoder", f"{family} {kind}"):
            values, at = stored[group].astype(np.float32), 0
            for name, shape in facts[group].items():
                size = int(np.prod(shape))
                tensors[name] = values[at : at + size].reshape(shape)
                at += size
        answers = stored[f"{family} {kind} logits"]
    config = facts[f"{family} config"]
    config["architectures"] = [config["architectures"][0] + kind]
    if kind == "QuestionAnswering":
        del config["id2label"], config["label2id"]
    save_file(tensors, place / "model.safetensors")
    (place / "config.json").write_text(json.dumps(config))
    write_tokenizer(place)
    return answers


def asked(network, family, kind):
    """The logits of all rows, one after the other: what a text has alone."""
    import torch

    said = []
    for ids, kinds in rows(family, kind):
        given = {"input_ids": torch.tensor([ids])}
        if family == "bert":
            given["token_type_ids"] = torch.tensor([kinds])
        if kind == "MultipleChoice":
            given = {name: row[None] for name, row in given.items()}
        with torch.no_grad():
            found = network(**given)
        if kind == "QuestionAnswering":
            logits = torch.stack([found.start_logits, found.end_logits], -1)
        else:
            logits = found.logits
        said.append(logits[0].numpy().reshape(-1, logits.shape[-1]))
    return np.concatenate(said)


def record():
    arrays, facts = {}, {}
    table = {str(i): label for i, label in enumerate(LABELS)}
    labels = {"id2label": table, "label2id": {label: int(i) for i, label in table.items()}}
    for family in FAMILIES:
        small = SMALL_DISTILBERT if family == "distilbert" else SMALL
        config, without = make_config(family, **small, **labels), make_config(family, **small)
        encoder = {}
        for kind in KINDS:
            scores = without if kind == "QuestionAnswering" else config
            network = make_network(scores, f"AutoModelFor{kind}", seed=len(encoder))
            base = f"{network.base_model_prefix}."
            state = {
                name: encoder.get(name, tensor.half().float())
                for name, tensor in network.state_dict().items()
            }
            network.load_state_dict(state)
            head = {
                name: tensor
                for name, tensor in state.items()
                if not name.startswith(base) or ".pooler." in name
            }
            encoder = {name: tensor for name, tensor in state.items() if name not in head}
            for group, tensors in ((f"{family} encoder", encoder), (f"{family} {kind}", head)):
                flat = [tensor.numpy().astype(np.float16).ravel() for tensor in tensors.values()]
                arrays[group] = np.concatenate(flat)
                facts[group] = {name: list(tensor.shape) for name, tensor in tensors.items()}
            arrays[f"{family} {kind} logits"] = asked(network, family, kind)
        facts[f"{family} config"] = config.to_diff_dict() | labels
        first = type(network).__name__.partition("For")[0]
        facts[f"{family} config"]["architectures"] = [f"{first}For"]
    np.savez_compressed(FILE, facts=np.array(json.dumps(facts)), **arrays)
