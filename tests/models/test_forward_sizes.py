"""Sizes along a forward pass: the totals are the model's, and the multiplications those that torch
does, product by product, in every network with every option.
"""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode

from seqloom.models.network.forward_sizes import parts_of
from seqloom.nn import memory
from seqloom.traces import Trace
from seqloom.views.forward_pass import _read
from tests.runtime.answers import draw, forecaster_inputs, tensors
from tests.runtime.networks import CASES, WORDS

aten = torch.ops.aten


class Products(TorchDispatchMode):
    """Counts the multiplications of every product of matrices."""

    def __init__(self):
        super().__init__()
        self.total, self.paused = 0, False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        packet = func.overloadpacket
        if self.paused:  # the spellings of words, which torch pads to the longest
            return out
        if packet in (aten.mm, aten.bmm):
            self.total += math.prod(out.shape) * args[0].shape[-1]
        elif packet in (aten.addmm, aten.baddbmm):
            self.total += math.prod(out.shape) * args[1].shape[-1]
        elif packet in (aten.mv, aten.addmv):
            self.total += math.prod(args[-2].shape)
        elif packet in (aten.dot,):
            self.total += len(args[0])
        elif packet is aten.convolution:
            self.total += math.prod(out.shape) * math.prod(args[1].shape[1:])
        return out


def example_of(model):
    """Return an example that is read in one row, which torch does not pad."""
    if model.task == "translator":
        columns = model.sizes.columns
        return draw(4, columns) if columns else "abcd", "cabba"
    if model.task == "tagger":
        return WORDS[:2]
    if model.task == "answerer":
        return "fun", "so"
    if model.task == "classifier":
        return draw(4, 3) if model.sizes.columns else "good fun and"
    if model.task == "language model":
        return "a cab and a bad bag"
    return " ".join(["so", "it", "is"] * 2)


def torch_products(model, example):
    """What torch multiplies in the pass that the sizes are of; traces make recurrent cells go step by step,
    and attention form its weights.
    """
    network, trace, count = model.network(), Trace(), Products()
    for name, module in network.named_modules():
        if name.endswith("reader.characters"):
            module.register_forward_pre_hook(lambda *_: setattr(count, "paused", True))
            module.register_forward_hook(lambda *_: setattr(count, "paused", False))
    with torch.inference_mode(False), torch.no_grad(), count:
        if model.task == "language model":
            ids, options = model.encode(example)[0], {"trace": trace}
            if (
                model.name == "nplm"
            ):  # which has no trace, and reads a whole window before each token
                ids, options = np.concatenate([np.zeros(model.config.order - 2, np.int64), ids]), {}
            network.output.log_probs(network(torch.from_numpy(ids)[None], **options)[0][0])
        elif model.task == "translator":
            source, target = example
            inputs = np.concatenate([model.start_ids, model.target_tokenizer.encode(target)])
            batch = model.encode_sources([source]).batch(np.arange(1))
            read = network.encode(tensors(batch), trace)
            made = network.features(read, torch.from_numpy(inputs)[None], Trace())
            network.output.log_probs(made[0])
        elif model.task == "forecaster":
            network(*(torch.from_numpy(array[:1]) for array in forecaster_inputs(model)), trace)
        elif model.task in ("masked language model", "sentence vectors"):
            marked = model.marks.join([model.tokenizer.encode(example)], model.config.n_types)
            ids, types = (torch.from_numpy(part)[None] for part in marked)
            hidden = network(ids, types, None, trace)
            if model.task == "masked language model" and getattr(network, "head", None) is not None:
                network.logits(hidden[0])
        else:
            encoded, _ = model.steps_of(example)
            network(tensors(encoded.batch(np.arange(len(encoded)))), trace)
    return count.total


@pytest.mark.parametrize("case", CASES)
def test_totals_and_multiplications(case, monkeypatch):
    monkeypatch.setattr(
        memory, "_compiled", lambda x: False
    )  # products that our kernels do are torch's
    model = CASES[case]()
    example = example_of(model)
    read = _read(model, example)
    parts = parts_of(model, example, read)
    assert sum(part.parameters for part in parts) == model.parameters
    assert sum(part.bytes for part in parts) == sum(a.nbytes for a in model.net.arrays().values())
    found = sum(
        part.multiplications + masked_too(model, part)
        for part in parts
        if ".characters" not in part.name
    )
    assert torch_products(model, example) == found


def masked_too(model, part):
    """What torch multiplies besides in attention that sees only what was before: all pairs, also those
    that a mask hides, and each query with the vectors of all distances.
    """
    causal = model.task == "language model" or part.name.startswith("decoder")
    if not (causal and part.name.endswith("attention.weights")):
        return 0
    _, queries, keys = part.output
    window = getattr(model.config, "window", None) or keys
    seen = sum(0 <= q - k < window for q in range(queries) for k in range(keys))
    declared, layer = model.declared(), part.name.removesuffix(".weights")
    width = declared[f"{layer}.out.weight"].shape[1]
    further = (queries * keys - seen) * 2 * width
    if f"{layer}.relative.weight" in declared:
        distances = declared[f"{layer}.relative.weight"].shape[0]
        further += (queries * distances - seen) * width
    return further
