"""Tiny random encoders of each family, as transformers saves them."""

from __future__ import annotations

import json

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    "##s",
    "dog",
    "a",
    "ran",
    ".",
]
TEXTS = ["the cat sat", "a dog ran on the mats .", ("the cat", "a dog ran"), ".", ("", "the")]
FAMILIES = ("bert", "roberta", "distilbert", "albert", "electra", "xlm-roberta")
PIECES = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "▁the",
    "▁cat",
    "▁sat",
    "▁on",
    "▁mat",
    "s",
    "▁dog",
    "▁a",
    "▁ran",
    "▁.",
    "<mask>",
]
_SMALL = {
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}


def make_config(family, **options):
    import transformers

    if family == "bert":
        return transformers.BertConfig(**{**_SMALL, **options})
    if family == "roberta":
        return transformers.RobertaConfig(
            **{
                **_SMALL,
                "max_position_embeddings": 21,
                "pad_token_id": 0,
                "type_vocab_size": 1,
                **options,
            }
        )
    if family == "xlm-roberta":
        own = {"max_position_embeddings": 22, "pad_token_id": 1, "type_vocab_size": 1}
        return transformers.XLMRobertaConfig(**{**_SMALL, **own, **options})
    if family == "distilbert":
        return transformers.DistilBertConfig(
            **{
                "vocab_size": len(WORDS),
                "dim": 16,
                "n_layers": 3,
                "n_heads": 4,
                "hidden_dim": 24,
                "max_position_embeddings": 20,
                **options,
            }
        )
    made = {"albert": transformers.AlbertConfig, "electra": transformers.ElectraConfig}[family]
    return made(**{**_SMALL, "embedding_size": 8, **options})


def make_network(config, kind="AutoModelForMaskedLM", seed=0):
    """One whose weights are all random, norms and biases too, so that each of them matters."""
    import torch
    import transformers

    torch.manual_seed(seed)
    network = getattr(transformers, kind).from_config(config).eval()
    for name, parameter in network.named_parameters():
        norm = "norm" in name.lower() and name.endswith("weight")
        torch.nn.init.normal_(parameter, mean=float(norm), std=0.3)
    network.tie_weights()
    return network


def save(network, place, words=WORDS):
    """With a tokenizer of words, or of pieces as SentencePiece has them."""
    network.save_pretrained(place)
    if network.config.model_type == "xlm-roberta":
        import transformers

        scored = [(piece, -float(i)) for i, piece in enumerate(PIECES)]
        transformers.XLMRobertaTokenizer(vocab=scored).save_pretrained(place)
    else:
        write_tokenizer(place, words)
    return place


def write_tokenizer(place, words=WORDS):
    (place / "vocab.txt").write_text("\n".join(words) + "\n")
    roles = {
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "mask_token": "[MASK]",
        "unk_token": "[UNK]",
    }
    (place / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, **roles}))
