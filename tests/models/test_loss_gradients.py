"""Gradients of a model's loss by position, against finite differences, torch and the model's own numbers."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import seqloom
from seqloom.contracts.transforming import tokens_before
from seqloom.models.network import loss_gradients_net as by_position
from tests.contract.test_views import WAVE
from tests.runtime.networks import composed, language, translator
from tests.saved import NEWEST

TEXT = "to be or not to be"
WORDS = "Ada met Bob so good and dull"
MODELS = {
    "rnn": (lambda: language("rnn"), TEXT),
    "lstm": (lambda: language("lstm", n_layers=2, residual=True, layer_norm=True), TEXT),
    "gru": (lambda: language("gru", softmax="adaptive"), TEXT),
    "gpt": (lambda: language("gpt"), TEXT),
    "bilstm classifier": (lambda: composed("classifier", "tokens", encoder="bilstm"), WORDS),
    "several labels": (
        lambda: composed("classifier", "tokens", several=True, encoder="transformer", n_heads=3),
        WORDS,
    ),
    "windows": (lambda: composed("classifier", "tokens", long="windows", max_length=4), WORDS),
    "sentences": (
        lambda: composed("classifier", "tokens", long="sentences", encoder="gru"),
        "good fun. dull and long. so",
    ),
    "numbers": (
        lambda: composed("classifier", "missing", encoder="lstm"),
        np.sin(np.arange(12.0)).reshape(4, 3),
    ),
    "tagger": (lambda: composed("tagger", "lstm", encoder="bigru", crf=True), WORDS),
    "tagger without a field": (lambda: composed("tagger", "cnn", encoder="rnn", crf=False), WORDS),
    "seq2seq": (lambda: translator("seq2seq", encoder="bigru"), ("abcd", "cba")),
    "one network": (
        lambda: translator("seq2seq", one_network=True, shared_vocabulary=True, cell="lstm"),
        ("abcd", "cba"),
    ),
    "transformer": (lambda: translator("transformer"), ("abcd", "cba")),
    "forecaster": (lambda: seqloom.load(NEWEST / "forecaster"), WAVE),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_change_of_what_is_read_changes_the_loss_as_the_gradient_says(name):
    """Central differences, of the sum of all losses and of the last one."""
    make, example = MODELS[name]
    model = make()
    found = by_position.loss_gradients(model, example)
    network = copy.deepcopy(model.network()).double().requires_grad_(False).eval()
    problem = by_position.PROBLEMS[model.task](model, network, example)
    gradient = found.whole["input"]
    assert len(gradient) == len(found.tokens) == int(problem.lengths.sum())
    places = np.argwhere(by_position.there(problem.lengths, int(problem.lengths.max())))
    rng, step = np.random.default_rng(0), 1e-5
    for t in {0, len(gradient) - 1, int(rng.integers(len(gradient)))}:
        way = torch.from_numpy(rng.standard_normal(gradient.shape[1]))
        losses = []
        for size in (step, -step):
            calls = []

            def change(
                module, inputs, output, size=size, way=way, calls=calls, place=tuple(places[t])
            ):
                calls.append(output)
                if len(calls) > 1:  # of a target
                    return output
                moved = output.clone()
                moved[place] += size * way
                return moved

            handle = problem.inputs.register_forward_hook(change)
            losses.append([float(part.sum()) for part in problem.loss()])
            handle.remove()
        numeric = (np.array(losses[0]) - losses[1]) / (2 * step)
        exact = [float(part["input"][t] @ way.numpy()) for part in (found.whole, found.last)]
        np.testing.assert_allclose(exact, numeric, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("options", [{}, {"n_layers": 2, "residual": True, "layer_norm": True}])
def test_language_models_by_torch(name, options):
    """The nats are the model's; gradients by input are those of the network as it is trained, and a change of
    the top layer's state passes through its Jacobian.
    """
    model = language(name, **options)
    found = by_position.loss_gradients(model, TEXT)
    assert -found.losses.sum() == pytest.approx(model.score(TEXT), abs=1e-4)
    ids = np.asarray(model.encode(TEXT)[0])
    network = copy.deepcopy(model.network()).double().eval()
    x = network.embedding(torch.from_numpy(tokens_before(model, ids).astype(np.int64))).detach()

    def nats(x):
        features, _ = network.recurrent(x[None])
        features = features if network.bridge is None else network.bridge(features)
        return network.output.log_probs(features[0])[torch.arange(len(ids)), torch.from_numpy(ids)]

    (whole,) = torch.autograd.grad(-nats(x.requires_grad_(True)).sum(), x)
    np.testing.assert_allclose(found.whole["input"], whole.numpy(), atol=1e-9)
    top = found.flows[-1]
    assert list(found.whole) == ["input", *(flow.name for flow in found.flows)]
    last, jacobian = found.last[top.name], top.jacobians(len(ids) - 1, len(ids))[0]
    np.testing.assert_allclose(last[-2], last[-1] @ jacobian, atol=1e-12)


def test_both_directions_stand_at_the_token_that_they_read():
    """What the reverse direction makes of the first token is at the first position, also in its state."""
    model = composed("tagger", "tokens", encoder="bilstm", crf=False)
    found = by_position.loss_gradients(model, WORDS)
    back = np.linalg.norm(found.last["encoder.stack.layers.0.reverse"], axis=1)
    assert back[-1] > 0
    assert not back[
        :-1
    ].any()  # the last word's tag reads that direction before it went any further


def test_answers_are_the_model_s():
    model = translator("seq2seq", encoder="bigru")
    losses = by_position.loss_gradients(model, ("abcd", "cba")).losses
    assert -losses.sum() == pytest.approx(model.score("abcd", "cba"), abs=1e-4)
    labels = composed("classifier", "tokens", encoder="gru")
    found = by_position.loss_gradients(labels, WORDS)
    assert found.answer == labels.predict([WORDS])[0]
    assert np.exp(-found.losses[0]) == pytest.approx(labels.predict_proba([WORDS]).max(), abs=1e-5)
    tagger = composed("tagger", "tokens", encoder="bilstm", crf=True)
    found = by_position.loss_gradients(tagger, WORDS)
    assert found.answer == tagger.tags[tagger.tag_ids([WORDS.split()])[0][-1]]
    assert found.losses[0] > 0
