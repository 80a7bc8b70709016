"""Minibatches of every form, token losses, data sets and loaders: against what plain pairs give."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

import stalegrad as sg
from stalegrad.potentials import from_torch

from .torch_models import CLASSES, N, Pairs, X, classifier, perceptron, seeded

THETA = np.random.default_rng(1).normal(size=67).astype(np.float32)
INDICES = np.array([3, 20, 3, 7])
FLOATS = torch.from_numpy(X).float()


class Wrapped(nn.Module):
    """A module of named arguments that gives an object, as Hugging Face's do."""

    def __init__(self):
        super().__init__()
        self.net = perceptron()

    def forward(self, x, shift=0.0, labels=None):
        logits = self.net(x + shift)
        loss = None if labels is None else F.cross_entropy(logits, labels)
        return type("Output", (), {"logits": logits, "loss": loss})()


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = perceptron()

    def forward(self, x, shift):
        return self.net(x + shift)


def gradient(model):
    return model.gradient(THETA, INDICES)


EXPECTED = gradient(classifier())


def test_dicts_go_to_the_module_by_name_and_their_labels_to_the_loss():
    batch = {"x": X, "labels": CLASSES}
    assert gradient(from_torch(Wrapped(), "categorical", batch)).tobytes() == EXPECTED.tobytes()

    def own(outputs, batch):
        return outputs.loss * len(batch["labels"])

    model = from_torch(Wrapped(), own, batch)
    assert_allclose(gradient(model), EXPECTED, rtol=1e-5, atol=1e-5)
    assert_allclose(model.predict(THETA, batch), classifier().module_at(THETA)(FLOATS).detach(), atol=1e-6)


def test_tuples_are_inputs_and_a_response():
    model = from_torch(TwoInputs(), "categorical", (X - 1, np.ones_like(X), CLASSES))
    assert_allclose(gradient(model), EXPECTED, rtol=1e-5, atol=1e-5)
    known = classifier()
    assert_allclose(model.predictive((X - 1, np.ones_like(X)))(THETA), known.predictive(X)(THETA), atol=1e-6)
    assert_allclose(model.log_likelihood(THETA), known.log_likelihood(THETA), atol=1e-5)
    assert_allclose(
        model.log_likelihood(THETA, (X - 1, np.ones_like(X)), CLASSES), known.log_likelihood(THETA), atol=1e-5
    )


def test_a_tensor_is_both_input_and_response():
    coder = seeded(lambda: nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 4)))
    model = from_torch(coder, "gaussian", X)
    pair = from_torch(coder, "gaussian", (X, X))
    assert model.full_gradient(model.initial()).tobytes() == pair.full_gradient(model.initial()).tobytes()
    assert model.log_likelihood(model.initial(), X[:3]).shape == (3,)


# ------------------------------------------------------------------------------------------------- token losses

TOKENS = np.random.default_rng(2).integers(3, size=(N, 5))
LABELS = np.where(np.random.default_rng(3).random((N, 5)) < 0.4, -100, TOKENS)


def tagger():
    return seeded(lambda: nn.Sequential(nn.Embedding(3, 4), nn.Tanh(), nn.Linear(4, 3)))


@pytest.mark.parametrize(("loss", "shift"), [("categorical", 0), ("next_token", 1)])
def test_a_sequence_counts_as_the_sum_over_its_tokens_that_are_not_ignored(loss, shift):
    model = from_torch(tagger().double(), loss, (TOKENS, LABELS), batch_size=6, scheme="reshuffle", prior=1e6)
    theta = model.initial()
    logits = model.module_at(theta)(torch.from_numpy(TOKENS)).detach().double()
    log_p = torch.log_softmax(logits, -1).numpy()[:, : 5 - shift]
    labels = LABELS[:, shift:]
    picked = np.take_along_axis(log_p, np.maximum(labels, 0)[..., None], 2)[..., 0]
    expected = np.where(labels >= 0, picked, 0).sum(1)
    assert_allclose(model.log_likelihood(theta), expected, rtol=1e-5, atol=1e-6)
    assert model.potential(theta) - model.potential(theta + 0.1) == pytest.approx(
        -expected.sum() + model.log_likelihood(theta + 0.1).sum(), rel=1e-8
    )
    epoch = [model.gradient(theta, model.minibatches.draw(0, 0, 0, count)) for count in range(N // 6)]
    assert_allclose(np.mean(epoch, axis=0), model.full_gradient(theta), rtol=1e-10, atol=1e-10)  # N/J of sequences
    assert model.predictive(TOKENS)(theta).shape == (N * 5, 3)


@pytest.mark.parametrize(("loss", "data", "message"), [
    ("categorical", (TOKENS, TOKENS[:, :4]), r"not go with outputs of shape \(2, 5, 3\) for two data, and y \(30, 4"),
    ("categorical", (TOKENS, TOKENS + 1), r"classes from 1 to 3, but .* from 0 to 2, or -100 for tokens that do not"),
    ("categorical", (TOKENS, 0 * TOKENS - 100), r"y=.*ignores every token\. Give labels other than -100"),
    ("next_token", (X, CLASSES), r"loss='next_token': does not go .*Let the module give logits \(J, T, K\)"),
    ("categorical", {"x": X, "y": CLASSES}, r"has batches with the entries 'x', 'y'\. Name the responses 'labels', or"),
    (lambda outputs, batch: outputs.loss, {"x": X, "labels": CLASSES}, r"the same two data twice.*outputs\.loss of"),
])  # fmt: skip
def test_refusals(loss, data, message):
    module = tagger() if isinstance(data, tuple) and data[0] is TOKENS else perceptron()
    with pytest.raises(sg.ArgumentError, match=f"(?s){message}"):
        from_torch(Wrapped() if isinstance(data, dict) else module, loss, data)


# ------------------------------------------------------------------------------------------ data sets and loaders


class Fetched(Pairs):
    """Gives many items at once, and counts the calls."""

    def __init__(self):
        self.calls = []

    def __getitems__(self, indices):
        self.calls.append(indices)
        return [self[i] for i in indices]


def test_a_dataset_that_can_is_asked_once_a_minibatch():
    data = Fetched()
    model = from_torch(perceptron(), "categorical", data)
    data.calls.clear()
    assert gradient(model).tobytes() == EXPECTED.tobytes()
    assert data.calls == [INDICES.tolist()]


def as_dict(items):
    return {"x": torch.stack([torch.from_numpy(x) for x, _ in items]), "labels": torch.tensor([y for _, y in items])}


@pytest.mark.parametrize(
    "data",
    [
        DataLoader(Pairs(), batch_size=6),
        DataLoader(TensorDataset(FLOATS, torch.from_numpy(CLASSES)), batch_size=6),
        DataLoader(Subset(Pairs(), range(N)), batch_size=6, num_workers=0),
        DataLoader(Pairs(), batch_size=6, collate_fn=as_dict),
        [(X[i], int(CLASSES[i])) for i in range(N)],
        [{"x": X[i], "labels": int(CLASSES[i])} for i in range(N)],
    ],
    ids=["items", "tensors", "subset", "collated", "list", "dicts"],
)
def test_a_loader_is_its_dataset_its_collate_function_and_its_batch_size(data):
    in_dicts = isinstance(data, list) and isinstance(data[0], dict)
    named = in_dicts or (isinstance(data, DataLoader) and data.collate_fn is as_dict)
    model = from_torch(Wrapped() if named else perceptron(), "categorical", data)
    assert model.batch_size == (6 if isinstance(data, DataLoader) else N)
    assert gradient(model).tobytes() == EXPECTED.tobytes()
    assert from_torch(Wrapped() if named else perceptron(), "categorical", data, batch_size=5).batch_size == 5


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(X[i], int(CLASSES[i])) for i in range(N)])


@pytest.mark.parametrize(("data", "message"), [
    (DataLoader(Pairs(), shuffle=True), r"by a RandomSampler, but which data a minibatch holds .*seed.* with neither"),
    (DataLoader(Pairs(), batch_size=4, drop_last=True), r"drops the last data of an epoch, which belong to the poster"),
    (DataLoader(Pairs(), batch_size=None), "by a batch sampler of its own, or makes none"),
    (Stream(), r"is an IterableDataset: minibatches are addressed.*list\(dataset\) is one"),
    (DataLoader(Stream()), "is an IterableDataset"),
    ([("word", 1)], r"does not give pairs .*the entry 0 of a minibatch is a .*or give collate="),
])  # fmt: skip
def test_what_has_an_order_of_its_own_is_refused(data, message):
    with pytest.raises(sg.ArgumentError, match=f"(?s)data=.*{message}"):
        from_torch(perceptron(), "categorical", data)
    if isinstance(data, Stream):  # the remedy
        assert gradient(from_torch(perceptron(), "categorical", list(data))).tobytes() == EXPECTED.tobytes()
