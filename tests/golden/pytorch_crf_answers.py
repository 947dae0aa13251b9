"""What pytorch-crf says of two small CRFs: asked now where it is installed, and as it once answered.

A case is a dict of lists: the parameters and the data, which are always those of the file, and
pytorch-crf's answers.
"""

import json
from pathlib import Path

import pytest
import torch

FILE = Path(__file__).parent / "pytorch_crf.json"
CASES = {"k3": (3, [4, 2, 1]), "k9": (9, [7, 5, 5, 2])}  # tags, and lengths of sequences


def case(name, source):
    """`source`: recorded or live."""
    found = json.loads(FILE.read_text(encoding="utf-8"))[name]
    return found if source == "recorded" else {**found, **asked(found)}


def asked(given):
    """pytorch-crf's answers: the loss, its gradients, and the best paths."""
    peer = pytest.importorskip("torchcrf").CRF(len(given["start"]), batch_first=True)
    named = {
        "start": peer.start_transitions,
        "transitions": peer.transitions,
        "end": peer.end_transitions,
    }
    with torch.no_grad():
        for name, value in named.items():
            value.copy_(torch.tensor(given[name]))
    named["emissions"] = emissions = torch.tensor(given["emissions"], requires_grad=True)
    mask = torch.arange(emissions.shape[1]) < torch.tensor(given["lengths"])[:, None]
    loss = -peer(emissions, torch.tensor(given["tags"]), mask=mask, reduction="sum")
    loss.backward()
    return {
        "loss": loss.item(),
        "gradients": {name: rounded(value.grad, 7) for name, value in named.items()},
        "paths": peer.decode(emissions, mask=mask),
    }


def rounded(values, digits):
    return (
        round(values.item(), digits)
        if values.dim() == 0
        else [rounded(value, digits) for value in values]
    )


def record():
    torch.manual_seed(5)
    cases = {}
    for name, (k, lengths) in CASES.items():
        given = {
            "start": torch.randn(k),
            "transitions": torch.randn(k, k),
            "end": torch.randn(k),
            "emissions": torch.randn(len(lengths), max(lengths), k) * 2,
        }
        given = {key: rounded(value, 3) for key, value in given.items()}
        given |= {
            "tags": torch.randint(k, (len(lengths), max(lengths))).tolist(),
            "lengths": lengths,
        }
        cases[name] = given | asked(given)
    FILE.write_text(json.dumps(cases) + "\n", encoding="utf-8")
