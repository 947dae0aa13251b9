import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from seqloom.nn.losses import linear_cross_entropy, linear_log_probs


def problem(n=13, vocab_size=17, width=5, dtype=torch.float64, seed=0, scale=1.0):
    g = torch.Generator().manual_seed(seed)
    features = torch.randn(n, width, generator=g, dtype=dtype) * scale
    weight = torch.randn(vocab_size, width, generator=g, dtype=dtype)
    bias = torch.randn(vocab_size, generator=g, dtype=dtype)
    targets = torch.randint(vocab_size, (n,), generator=g)
    return [x.requires_grad_() for x in (features, weight, bias)], targets


def torch_loss(features, weight, bias, targets, **options):
    return F.cross_entropy(F.linear(features, weight, bias), targets, **options)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [True, False])
def test_finite_differences_agree(label_smoothing, with_bias):
    (features, weight, bias), targets = problem(n=7, vocab_size=6, width=3)

    def loss(x, w, b):
        return linear_cross_entropy(x, w, b, targets, label_smoothing=label_smoothing, chunk=3)

    if with_bias:
        assert torch.autograd.gradcheck(loss, (features, weight, bias))
    else:
        assert torch.autograd.gradcheck(lambda x, w: loss(x, w, None), (features, weight))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.3])
@pytest.mark.parametrize("chunk", [1, 4, 13, 100, None])
def test_loss_and_gradients_are_torchs(reduction, label_smoothing, chunk):
    ours, targets = problem()
    theirs, _ = problem()
    options = {"reduction": reduction, "label_smoothing": label_smoothing}
    loss = linear_cross_entropy(*ours, targets, chunk=chunk, **options)
    expected = torch_loss(*theirs, targets, **options)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    (3.0 * loss).backward()  # a factor from outside must reach all three
    (3.0 * expected).backward()
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-12)


def test_float32_agrees_to_rounding_at_a_real_size():
    ours, targets = problem(n=120, vocab_size=3000, width=64, dtype=torch.float32, scale=0.3)
    theirs, _ = problem(n=120, vocab_size=3000, width=64, dtype=torch.float32, scale=0.3)
    loss, expected = linear_cross_entropy(*ours, targets, chunk=50), torch_loss(*theirs, targets)
    loss.backward()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=2e-7)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("vocab_size", "width"), [(33, 7), (32, 8), (33, 8), (32, 7)])
def test_rows_that_are_not_aligned_are_multiplied_in_blocks(vocab_size, width, monkeypatch):
    monkeypatch.setattr("seqloom.nn.losses.BLOCK_ROWS", 10)
    ours, targets = problem(vocab_size=vocab_size, width=width)
    theirs, _ = problem(vocab_size=vocab_size, width=width)
    linear_cross_entropy(*ours, targets, chunk=5).backward()
    torch_loss(*theirs, targets).backward()
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-12)
        assert a.grad.is_contiguous()


def test_huge_logits_neither_overflow_nor_vanish():
    ours, targets = problem(dtype=torch.float32, scale=1e4)
    theirs, _ = problem(dtype=torch.float32, scale=1e4)
    loss, expected = linear_cross_entropy(*ours, targets), torch_loss(*theirs, targets)
    assert expected > 1e3
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(ours[1].grad, theirs[1].grad, rtol=1e-4, atol=1e-3)


def test_only_the_gradients_that_are_asked_for():
    (features, weight, bias), targets = problem()
    weight = weight.detach()
    linear_cross_entropy(features, weight, bias, targets).backward()
    torch_features, _, torch_bias = problem()[0]
    torch_loss(torch_features, weight, torch_bias, targets).backward()
    assert weight.grad is None
    torch.testing.assert_close(features.grad, torch_features.grad)
    torch.testing.assert_close(bias.grad, torch_bias.grad)


def test_the_same_graph_twice_gives_the_gradient_twice():
    (features, weight, bias), targets = problem()
    loss = linear_cross_entropy(features, weight, bias, targets)
    loss.backward(retain_graph=True)
    once = weight.grad.clone()
    loss.backward()
    torch.testing.assert_close(weight.grad, 2 * once)


def test_one_number_a_token_and_no_gradient():
    (features, weight, bias), targets = problem()
    nats = linear_cross_entropy(
        features, weight, bias, targets, reduction="none", chunk=4, label_smoothing=0.2
    )
    torch.testing.assert_close(
        nats, torch_loss(features, weight, bias, targets, reduction="none", label_smoothing=0.2)
    )
    assert not nats.requires_grad
    log_probs = F.log_softmax(F.linear(features, weight, bias), 1)[torch.arange(13), targets]
    torch.testing.assert_close(linear_log_probs(features, weight, bias, targets), log_probs)


def test_half_precision_features_are_summed_in_the_weights_precision():
    (features, weight, bias), targets = problem(dtype=torch.float32)
    half = features.detach().bfloat16().requires_grad_()
    loss = linear_cross_entropy(half, weight, bias, targets)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, torch_loss(half.float(), weight, bias, targets))
    loss.backward()
    assert half.grad.dtype == torch.bfloat16


# ---- soft targets, and a weight for each token


def shares(n=13, vocab_size=17, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(n, vocab_size, generator=g, dtype=torch.float64).pow(3).softmax(1)


def token_weights(n=13):
    weights = torch.rand(n, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    weights[::4] = 0.0
    return weights


def brute_force(
    features, weight, bias, targets, weights=None, label_smoothing=0.0, reduction="mean"
):
    """Word by word: the cross-entropy of a whole table of logits with a whole table of targets."""
    log_probs = F.log_softmax(features @ weight.t() + (0.0 if bias is None else bias), 1)
    vocab_size = len(weight)
    q = targets if targets.ndim == 2 else F.one_hot(targets, vocab_size).to(log_probs.dtype)
    q = (1 - label_smoothing) * q + label_smoothing * q.sum(1, keepdim=True) / vocab_size
    weights = torch.ones(len(q), dtype=q.dtype) if weights is None else weights
    losses = -(q * log_probs).sum(1) * weights
    return (
        losses
        if reduction == "none"
        else losses.sum() / (weights.sum() if reduction == "mean" else 1.0)
    )


@pytest.mark.parametrize("kind", ["words", "shares", "rows", "unnormalised"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.3])
@pytest.mark.parametrize(
    ("reduction", "chunk"), [("mean", 4), ("sum", 1), ("mean", None), ("none", 5)]
)
def test_soft_targets_and_weights_against_brute_force(
    kind, weighted, label_smoothing, reduction, chunk
):
    (ours, words), (theirs, _) = problem(), problem()
    table = shares() * 1.7 if kind == "unnormalised" else shares()
    wanted = words if kind == "words" else table
    given = (lambda low, high: table[low:high]) if kind == "rows" else wanted
    options = {
        "weights": token_weights() if weighted else None,
        "label_smoothing": label_smoothing,
        "reduction": reduction,
    }
    loss, expected = (
        linear_cross_entropy(*ours, given, chunk=chunk, **options),
        brute_force(*theirs, wanted, **options),
    )
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    if reduction != "none":
        (2.0 * loss).backward(retain_graph=True)
        (2.0 * expected).backward()
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-12)
        once = ours[1].grad.clone()
        (2.0 * loss).backward()  # a second pass over the same graph computes them anew
        torch.testing.assert_close(ours[1].grad, 2 * once)


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_finite_differences_agree_with_soft_targets_and_weights(soft, label_smoothing):
    inputs, words = problem(n=7, vocab_size=6, width=3)
    targets, weights = shares(7, 6) if soft else words, token_weights(7)
    assert torch.autograd.gradcheck(
        lambda x, w, b: linear_cross_entropy(
            x, w, b, targets, weights=weights, label_smoothing=label_smoothing, chunk=3
        ),
        inputs,
    )
    assert torch.autograd.gradcheck(
        lambda x, w: linear_cross_entropy(x, w, None, targets, weights=weights), inputs[:2]
    )


def test_a_target_of_one_word_is_that_word_and_a_mask_leaves_tokens_out():
    (features, weight, bias), words = problem()
    hard = linear_cross_entropy(features, weight, bias, words)
    torch.testing.assert_close(
        hard, linear_cross_entropy(features, weight, bias, F.one_hot(words, 17).double())
    )
    mask = torch.arange(13) % 3 > 0
    kept = linear_cross_entropy(features[mask], weight, bias, words[mask])
    torch.testing.assert_close(
        linear_cross_entropy(features, weight, bias, words, weights=mask), kept
    )


def test_soft_targets_by_rows_are_never_held_as_a_whole():
    n, vocab_size, chunk = 160, 1024, 16
    (features, weight, bias), _ = problem(n=n, vocab_size=vocab_size, width=8, dtype=torch.float32)
    teacher = torch.randn(n, 4)
    table = torch.randn(4, vocab_size)
    with Sizes() as ours:
        linear_cross_entropy(
            features,
            weight,
            bias,
            lambda low, high: (teacher[low:high] @ table).softmax(1),
            chunk=chunk,
            weights=torch.rand(n),
        ).backward()
    assert max(ours.made) == chunk * vocab_size


class Sizes(TorchDispatchMode):
    """The numbers of elements of all tensors that operations make; views do not count."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        out = function(*arguments, **(options or {}))
        known = {
            x.untyped_storage().data_ptr()
            for x in (*arguments, *(options or {}).values())
            if isinstance(x, torch.Tensor)
        }
        for x in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in known:
                self.made.append(x.numel())
        return out


def test_no_more_than_a_chunk_of_logits_is_ever_held():
    n, vocab_size, chunk = 160, 1024, 16
    (features, weight, bias), targets = problem(
        n=n, vocab_size=vocab_size, width=8, dtype=torch.float32
    )
    with Sizes() as ours:
        linear_cross_entropy(features, weight, bias, targets, chunk=chunk).backward()
    with Sizes() as full:
        torch_loss(features, weight, bias, targets).backward()
    assert max(full.made) == n * vocab_size  # so the measure sees what it should
    assert max(ours.made) == chunk * vocab_size
    assert (
        sum(size > n * 8 for size in ours.made) == 2
    )  # one buffer and dW, whatever the number of chunks
    with Sizes() as scoring:
        linear_cross_entropy(features, weight, bias, targets, chunk=chunk, reduction="none")
    assert (
        sum(size > n * 8 for size in scoring.made) == 1
    )  # and no gradients when nobody wants them


def test_the_gradient_is_handed_over_and_not_copied(monkeypatch):
    from seqloom.nn import losses

    made = []
    run = losses._run
    monkeypatch.setattr(losses, "_run", lambda *a: made.append(run(*a)) or made[-1])
    (features, weight, bias), targets = problem()
    loss = linear_cross_entropy(features, weight, bias, targets)
    address = made.pop()[1][1].data_ptr()
    loss.backward()
    assert weight.grad.data_ptr() == address


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(label_smoothing=1.0), "label_smoothing is 1.0"),
        (dict(chunk=0), "chunk is 0"),
        (dict(targets=torch.zeros(3, dtype=torch.int64)), r"targets \(3,\)"),
        (dict(features=torch.zeros(13, 4, dtype=torch.float64)), r"features \(13, 4\)"),
        (
            dict(
                features=torch.zeros(0, 5, dtype=torch.float64),
                targets=torch.zeros(0, dtype=torch.int64),
            ),
            "no tokens",
        ),
        (dict(targets=torch.zeros(13, 16)), r"targets \(13, 16\)"),
        (dict(targets=torch.zeros(13)), "whole numbers or"),
        (dict(targets=torch.zeros(13, 17, dtype=torch.int64)), "whole numbers or"),
        (
            dict(targets=lambda low, high: torch.zeros(high - low, 3)),
            r"are \(13, 3\); they must be \(13, 17\)",
        ),
        (dict(weights=torch.ones(12)), r"weights \(12,\)"),
        (dict(weights=torch.zeros(13)), "weights of all tokens are zero"),
    ],
)
def test_what_is_refused(change, says):
    (features, weight, bias), targets = problem()
    arguments = {"features": features, "weight": weight, "bias": bias, "targets": targets, **change}
    with pytest.raises(ValueError, match=says):
        linear_cross_entropy(**arguments)
