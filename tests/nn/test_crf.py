"""The CRF: the compiled passes, torch in log space, all paths written out and pytorch-crf say the same."""

import itertools
import math

import numpy as np
import pytest
import torch

from seqloom.data.spans import legal_transitions
from seqloom.kernels import parallel
from seqloom.nn import linear_chain
from seqloom.nn.crf import CRF
from seqloom.nn.linear_chain import Chain
from tests.golden import pytorch_crf_answers

RULES = {
    "any": None,
    "some": np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 0, 1, 1], [1, 1, 0, 1]], bool),
}


def problem(k=3, lengths=(4, 2, 0, 1), *, rules=None, scale=1.0, dtype=np.float64, seed=0):
    """Emissions, tags of which all are allowed, lengths, weights, and the parameters."""
    rng = np.random.default_rng(seed)
    emissions = (rng.normal(size=(len(lengths), max(lengths), k)) * scale).astype(dtype)
    parameters = rng.normal(size=k), rng.normal(size=(k, k)), rng.normal(size=k)
    tags = np.full(emissions.shape[:2], -100)
    for row, length in enumerate(lengths):
        paths = (
            [path for path in itertools.product(range(k), repeat=length) if is_allowed(path, rules)]
            if length < 5
            else [rng.integers(0, k, length)]
        )
        tags[row, :length] = paths[rng.integers(len(paths))]
    return emissions, tags, np.array(lengths), rng.uniform(0.2, 2.0, len(lengths)), parameters


def is_allowed(path, rules):
    return (
        rules is None
        or not len(path)
        or all(rules[a, b] for a, b in itertools.pairwise([-1, *path, -1]))
    )


def score(path, emissions, parameters):
    start, transitions, end = parameters
    if not len(path):
        return 0.0
    moves = sum(transitions[a, b] for a, b in itertools.pairwise(path))
    return (
        start[path[0]]
        + sum(emissions[t, tag] for t, tag in enumerate(path))
        + moves
        + end[path[-1]]
    )


def by_hand(emissions, parameters, rules):
    """log Z, p(tag) (T, K), the best path and its score, of one sequence without padding."""
    steps, k = emissions.shape
    paths = [path for path in itertools.product(range(k), repeat=steps) if is_allowed(path, rules)]
    scores = np.array([score(path, emissions, parameters) for path in paths])
    log_z = scores.max() + math.log(np.exp(scores - scores.max()).sum())
    marginals = np.zeros((steps, k))
    for path, value in zip(paths, scores):
        marginals[np.arange(steps), list(path)] += math.exp(value - log_z)
    return log_z, marginals, paths[int(scores.argmax())], scores.max()


def module(parameters, rules=None, dtype=torch.float64):
    made = CRF(len(parameters[0]), allowed=rules).to(dtype)
    with torch.no_grad():
        for to, values in zip((made.start, made.transitions, made.end), parameters):
            to.copy_(torch.from_numpy(values))
    return made


def tensors(*arrays):
    return [torch.from_numpy(array) for array in arrays]


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("scale", [1.0, 300.0, 1e4])
def test_equal_to_all_paths_written_out(rules, scale):
    emissions, tags, lengths, _, parameters = problem(rules=rules, scale=scale)
    chain = Chain(*parameters, rules)
    losses, _ = chain.losses(emissions, tags, lengths)
    marginals, (paths, scores) = (
        chain.marginals(emissions, lengths),
        chain.best_paths(emissions, lengths),
    )
    for row, length in enumerate(lengths):
        log_z, expected, best, highest = by_hand(emissions[row, :length], parameters, rules)
        gold = score(tags[row, :length], emissions[row], parameters)
        assert losses[row] == pytest.approx(log_z - gold, rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(marginals[row, :length], expected, atol=1e-9)
        assert not marginals[row, length:].any()
        assert paths[row].tolist() == [*best, *[-1] * (len(paths[row]) - length)]
        assert scores[row] == pytest.approx(highest)


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_by_finite_differences(rules, weighted):
    emissions, tags, lengths, weights, parameters = problem(rules=rules)
    made = module(parameters, rules)
    names, values = zip(*made.named_parameters())
    rest = (
        torch.from_numpy(tags),
        torch.from_numpy(lengths),
        torch.from_numpy(weights) if weighted else None,
    )

    def loss(emissions, *values):
        return torch.func.functional_call(made, dict(zip(names, values)), (emissions, *rest)) * 1.7

    assert torch.autograd.gradcheck(loss, (torch.from_numpy(emissions).requires_grad_(), *values))


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("scale", [1.0, 300.0, 1e4])
def test_equal_to_torch_in_log_space(rules, scale):
    *arrays, parameters = problem(lengths=(4, 0, 3, 1, 4, 2), rules=rules, scale=scale)
    emissions, tags, lengths, weights = tensors(*arrays)
    made = module(parameters, rules)
    emissions.requires_grad_()
    compiled, plain = (
        made(emissions, tags, lengths, weights),
        made.log_space_loss(emissions, tags, lengths, weights),
    )
    torch.testing.assert_close(compiled, plain)
    leaves = [emissions, *made.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad(compiled, leaves), torch.autograd.grad(plain, leaves)
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("source", ["recorded", "live"])
@pytest.mark.parametrize("name", pytorch_crf_answers.CASES)
def test_equal_to_pytorch_crf(name, source):
    case = pytorch_crf_answers.case(name, source)
    parameters = [np.array(case[key]) for key in ("start", "transitions", "end")]
    made = module(parameters, dtype=torch.float32)
    emissions = torch.tensor(case["emissions"], requires_grad=True)
    lengths = torch.tensor(case["lengths"])
    loss = made(emissions, torch.tensor(case["tags"]), lengths)
    assert loss.item() == pytest.approx(case["loss"], rel=1e-5)
    loss.backward()
    for found, key in (
        (emissions, "emissions"),
        (made.start, "start"),
        (made.transitions, "transitions"),
        (made.end, "end"),
    ):
        torch.testing.assert_close(
            found.grad, torch.tensor(case["gradients"][key]), atol=1e-5, rtol=1e-5
        )
    paths = made.decode(emissions, lengths)
    assert [path[:length].tolist() for path, length in zip(paths, case["lengths"])] == case["paths"]


def test_transitions_that_scaling_would_lose():
    """Who begins with the tag that the first step likes never reaches the one that all others like."""
    emissions = np.zeros((2, 1000, 2))
    emissions[:, 0, 1] = -200.0
    emissions[0, 1:, 0] = -100.0
    emissions[1, 1:, 0] = -1e-3
    tags, lengths, none = np.ones((2, 1000), int), np.array([1000, 1000]), np.zeros(2)
    losses, found = Chain(none, np.array([[0.0, -1e6], [-1e6, 0.0]]), none).losses(
        emissions, tags, lengths
    )
    assert losses == pytest.approx([0.0, 200.0 - 0.999], abs=1e-9)
    np.testing.assert_allclose(found.emissions[0], 0.0, atol=1e-12)
    np.testing.assert_allclose(found.emissions[1, :, 0], 1.0)
    losses, _ = Chain(none, np.array([[0.0, -130.0], [-130.0, 0.0]]), none).losses(
        emissions, tags, lengths
    )
    assert losses == pytest.approx([70.0, 200.0 - 0.999], abs=1e-9)


def test_beliefs_that_scaling_would_lose():
    """No step by itself goes too far, all together do, and what fell behind catches up."""
    emissions = np.zeros((1, 8, 2), np.float32)
    emissions[0, :4, 1] = emissions[0, 4:, 0] = -200.0
    apart = np.eye(3, dtype=bool)
    apart[2] = apart[:, 2] = True
    chain = Chain(np.zeros(2), np.zeros((2, 2)), np.zeros(2), apart)
    losses, found = chain.losses(emissions, np.ones((1, 8), int), np.array([8]))
    assert losses == pytest.approx([math.log(2)])
    np.testing.assert_allclose(found.emissions[0], [[0.5, -0.5]] * 8)
    np.testing.assert_allclose(found.transitions, [[3.5, 0.0], [0.0, -3.5]])


def test_a_document_as_one_sequence():
    """The product of 5,000 scales, each up to the number of tags, is beyond any float."""
    emissions, tags, lengths, _, parameters = problem(k=8, lengths=(5000, 3), scale=0.1)
    start, transitions, end = parameters = tuple(0.1 * values for values in parameters)
    forward = start + emissions[0, 0]
    for row in emissions[0, 1:]:
        forward = np.logaddexp.reduce(forward[:, None] + transitions, axis=0) + row
    losses, found = Chain(*parameters).losses(emissions, tags, lengths)
    assert losses[0] == pytest.approx(
        np.logaddexp.reduce(forward + end) - score(tags[0], emissions[0], parameters), rel=1e-9
    )
    assert np.isfinite(found.transitions).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_diverged_run_shows(bad):
    emissions, tags, lengths, _, parameters = problem()
    emissions[0, 1, 1] = bad
    losses, found = Chain(*parameters).losses(emissions, tags, lengths)
    assert np.isnan(losses[0])
    assert np.isfinite(losses[1:]).all()
    assert np.isnan(found.transitions).all()
    with pytest.raises(ValueError, match="NaN or"):
        Chain(*parameters).best_paths(emissions, lengths)
    emissions[0, 1, 1] = 0.0
    parameters[1][0, 1] = bad
    assert np.isnan(Chain(*parameters).losses(emissions, tags, lengths)[0][0])


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    emissions, tags, lengths, weights, parameters = problem(
        5, (9, 7, 30, 0, 12, 30, 8, 21), dtype=np.float32, scale=50.0
    )
    monkeypatch.setattr(linear_chain, "CHUNK_VALUES", 500)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(parallel, "thread_count", lambda threads=threads: threads)
        chain = Chain(*parameters)
        losses, expected = chain.losses(emissions, tags, lengths, weights)
        found.append(
            [
                losses,
                *vars(expected).values(),
                chain.marginals(emissions, lengths),
                *chain.best_paths(emissions, lengths),
            ]
        )
    for one, three in zip(*found):
        np.testing.assert_array_equal(one, three)
    monkeypatch.setattr(linear_chain, "CHUNK_VALUES", 1 << 20)
    losses, expected = Chain(*parameters).losses(emissions, tags, lengths, weights)
    np.testing.assert_allclose(losses, found[0][0])
    np.testing.assert_allclose(expected.transitions, found[0][3], atol=1e-9)


def test_tags_of_a_scheme_are_legal_whatever_the_emissions_say():
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    rules = legal_transitions(names, "bio")
    made = CRF(5, allowed=rules)
    emissions = torch.randn(20, 8, 5, generator=torch.Generator().manual_seed(0)) * 5
    paths = made.decode(emissions)
    assert all(is_allowed(path, rules) for path in paths.tolist())
    assert not all(is_allowed(path, rules) for path in emissions.argmax(2).tolist())
    assert not made.marginals(emissions)[:, 0, [2, 4]].any()
    with pytest.raises(ValueError, match=r"row 0 .* not allowed in this order: \[0, 2\]"):
        made(emissions[:1, :2], torch.tensor([[0, 2]]))


@pytest.mark.parametrize("ruled", [False, True])
def test_the_best_paths_that_are_recorded_for_another_program(ruled):
    rules = legal_transitions(["O", "B-X", "I-X"], "bio") if ruled else None
    emissions, _, lengths, _, parameters = problem(rules=rules, lengths=(6, 2, 1, 5, 0))
    crf = CRF(3, allowed=rules).double()
    with torch.no_grad():
        for own, values in zip((crf.start, crf.transitions, crf.end), parameters):
            own.copy_(torch.from_numpy(values))
    paths = crf.log_space_paths(torch.from_numpy(emissions), torch.from_numpy(lengths))
    for row, length in enumerate(lengths):
        best = by_hand(emissions[row, :length], parameters, rules)[2]
        assert paths[row].tolist() == [*best, *[-1] * (paths.shape[1] - length)]


def test_without_a_legal_path_the_best_of_the_others_is_taken():
    rules = np.ones((3, 3), bool)
    rules[:2, 2] = False
    paths, scores = Chain(np.zeros(2), np.zeros((2, 2)), np.zeros(2), rules).best_paths(
        np.array([[[0.0, 1.0], [3.0, 2.0]]], np.float32), np.array([2])
    )
    assert paths.tolist() == [[1, 0]]
    assert scores.tolist() == [-math.inf]
    assert (
        not Chain(np.zeros(2), np.zeros((2, 2)), np.zeros(2), rules)
        .marginals(np.zeros((1, 2, 2)), np.array([2]))
        .any()
    )


def test_half_precision_no_gradients_and_no_sequences():
    made = CRF(3)
    emissions, tags = torch.randn(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
    with torch.no_grad():
        assert not made(emissions, tags).requires_grad
    loss = made(emissions.bfloat16().requires_grad_(), tags)
    assert loss.item() == pytest.approx(made(emissions.bfloat16().float(), tags).item())
    loss.backward()
    assert made(emissions[:0], tags[:0]).item() == 0.0
    assert made.decode(emissions[:0]).shape == (0, 4)
    assert made.marginals(emissions[:, :0]).shape == (2, 0, 3)
    assert made(emissions[:, :0], tags[:, :0]).item() == 0.0
    assert set(made.state_dict()) == {"start", "transitions", "end"}
    assert set(CRF(3, allowed=RULES["some"]).state_dict()) == {"start", "transitions", "end"}


def test_faults_are_named():
    made, emissions, tags = CRF(3), torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
    for bad, message in (
        (lambda: CRF(0), "at least 1"),
        (lambda: CRF(3, allowed=np.ones((3, 3), bool)), r"\(4, 4\)"),
        (lambda: made(emissions, tags + 3), "0..2"),
        (lambda: made(emissions, tags - 1), "0..2"),
        (lambda: made(emissions, tags[:, :2]), r"shape \(2, 4\)"),
        (lambda: made(emissions, tags, torch.tensor([5, 1])), "0..4"),
        (lambda: made.decode(emissions, torch.tensor([-1, 1])), "0..4"),
        (lambda: made.decode(emissions[:, :, :2]), r"\(B, T, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            bad()
