"""What potentials of PyTorch modules refuse, and how."""

import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import stalegrad as sg
from stalegrad.potentials import from_torch

from .torch_models import CLASSES, N, Pairs, X, Y, classifier, perceptron


class Noisy(nn.Linear):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, training=True)


class Counting(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class Detached(nn.Linear):
    def forward(self, x):
        return super().forward(x).detach()


class Augmented(Pairs):
    def __getitem__(self, i):
        return X[i] + np.random.default_rng().normal(size=4), CLASSES[i].item()


class Words(Pairs):
    def __getitem__(self, i):
        return "word"


def batch_normalised(**options):
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, **options), nn.Linear(8, 3))


class Two(nn.Linear):
    def forward(self, x):
        return super().forward(x), x


@pytest.mark.parametrize(("changes", "message"), [
    ({"module": len}, r"module=.*is a builtin_function_or_method\. Give a torch\.nn\.Module"),
    ({"module": nn.LazyLinear(3)}, r"module=.*has parameters without values or even.*Apply the module"),
    ({"module": nn.ReLU()}, "module=.*has no parameters to sample. Give a module with parameters that require"),
    ({"module": perceptron().requires_grad_(False)}, "module=.*has no parameters to sample"),
    ({"module": perceptron().half()}, r"module=.*has parameters of torch\.float16 on cpu\. Bring all to one device"),
    ({"module": nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3).double())}, r"torch\.float32 on cpu, torch\.float64 on"),
    ({"module": nn.Linear(4, 3, device="meta")}, "module=.*has parameters without values or even a shape"),
    ({"module": batch_normalised()}, r"module\.1=BatchNorm1d.*normalises by its minibatch.*\.eval\(\).*GroupNorm"),
    ({"module": batch_normalised(track_running_stats=False).eval()}, r"module\.1=.*track_running_stats=True"),
    ({"module": nn.Sequential(nn.Dropout(0.1), perceptron())}, r"module\.0=Dropout.*random numbers.*module\.eval\(\)"),
    ({"module": Noisy(4, 3)}, "module=.*draws random numbers, so that a run could not be replayed"),
    ({"module": Counting()}, "module=.*changes its buffer 'calls' when it is applied. Freeze it"),
    ({"module": Detached(4, 3)}, "module=.*it has no gradient. Compute output and loss with torch"),
    ({"module": nn.Linear(5, 3)}, r"module=.*cannot be applied to data of shape \(2, 4\) and type torch\.float32"),
    ({"module": Two(4, 3)}, r"module=.*gives a tuple for data of shape \(2, 4\) and .*32\. Return one tensor"),
    ({"loss": "hinge"}, "loss='hinge': is not known. Give one of: 'categorical', 'gaussian'"),
    ({"loss": F.cross_entropy}, "loss=.*for the same two data twice. Return the sum over the data, not the mean"),
    ({"loss": lambda o, y: o}, r"loss=.*returns shape \(2, 3\) for two data\. Return −log p of each datum"),
    ({"loss": lambda o, y: 1.0}, "loss=.*returns a float for two data"),
    ({"loss": "gaussian"}, r"loss='gaussian': does not go with outputs of shape \(2, 3\) for two data, and y \(30,\)"),
    ({"loss": "gaussian", "noise_scale": 0}, "noise_scale=0: is out of range"),
    ({"module": nn.Linear(4, 1)}, r"loss='categorical': does not go with outputs of shape \(2, 1\)"),
    ({"module": nn.Linear(4, 1), "loss": "gaussian", "data": (X, np.where(Y > 1, np.nan, Y))}, "y=.*holds NaN"),
    ({"data": (X, CLASSES + 1)}, "y=.*holds classes from 1 to 3, but the module has 3 outputs. Give whole .* 0 to 2"),
    ({"data": (X, CLASSES - 1)}, "y=.*holds classes from -1 to 1"),
    ({"data": (X, CLASSES + 0.5)}, "y=.*holds values that are not classes. Give whole numbers"),
    ({"data": (X, CLASSES[:5])}, r"data='\(X, y\)': has shapes \(30, 4\) and \(5,\)\. Give arrays whose first axes"),
    ({"data": (X[:0], CLASSES[:0])}, r"has shapes \(0, 4\) and \(0,\)"),
    ({"data": (np.where(X > 1, np.nan, X), CLASSES)}, "X=.*holds NaN or infinite values. Clean the data, or"),
    ({"data": (X.astype(complex), CLASSES)}, "X=.*is not a numeric array"),
    ({"data": ("words", "more")}, r"data=.*is a tuple\. Give a pair \(X, y\)"),
    ({"data": 3}, r"data=3: is a int\. Give a pair \(X, y\)"),
    ({"data": Augmented()}, "data=.*gives another datum 0 each time it is asked. Take random augmentation out"),
    ({"data": Words()}, r"data=.*does not give pairs \(x, y\) of numbers"),
    ({"prior": {"conv*": 1.0, "*": 2.0}}, r"prior=.*entry 'conv\*' that no parameter gets.*0\.weight, 0\.bias"),
    ({"prior": 0}, "prior=0: is out of range"),
    ({"batch_size": 31}, "batch_size=31: is more than the 30 data there are"),
    ({"scheme": "x"}, "scheme='x': is not known"),
    ({"transform": 2}, "transform=2: cannot be called. Give a function of a minibatch"),
    ({"threads": 0}, "threads=0: is out of range"),
])  # fmt: skip
def test_refusals(changes, message):
    arguments = {"module": perceptron(), "loss": "categorical", "data": (X, CLASSES)} | changes
    with pytest.raises(sg.ArgumentError, match=f"(?s){message}"):
        from_torch(**arguments)


@pytest.mark.parametrize(("theta", "indices", "message"), [
    (np.zeros(3), np.array([0]), r"theta=.*has shape \(3,\)\. Give a vector of 67 entries"),
    (np.zeros(67), np.array([N]), "indices=.*outside the data. Give a vector of indices from 0 to 29"),
    (np.zeros(67), np.array([-1]), "indices=.*outside the data"),
    (np.zeros(67), np.array([], int), "indices=.*is empty or reaches outside"),
])  # fmt: skip
def test_gradient_refuses(theta, indices, message):
    with pytest.raises(sg.ArgumentError, match=f"(?s){message}"):
        classifier().gradient(theta, indices)


def test_other_methods_refuse():
    model = classifier()
    with pytest.raises(sg.ArgumentError, match=r"theta=.*has shape \(1, 3\) and out \(1, 3\)\. Give both as \(R, 67\)"):
        model.gradients(np.zeros((1, 3)), np.zeros((1, 6), int), np.zeros((1, 3)))
    with pytest.raises(sg.ArgumentError, match=r"theta=.*has shape \(3,\)\. Give a vector of 67 entries"):
        model.predict(np.zeros(3), X)
    with pytest.raises(sg.ArgumentError, match=r"y=.*has 5 entries, but X has 30 rows\. Give one entry for each row"):
        model.log_likelihood(model.initial(), X, CLASSES[:5])


def test_without_torch_the_extra_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("stalegrad.potentials.frontends.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(sg.MissingExtra, match=r"from_torch needs an optional dependency: .*'stalegrad\[torch\]'"):
        from_torch(None, "categorical", (X, CLASSES))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            X[:, :3],
            r"(?s)X=.*is nothing that the module can be applied to \(RuntimeError: .*as they were in data, without y",
        ),
        ((X, CLASSES), r"(?s)X=.*is nothing that the module can be applied to \(TypeError"),
        (Pairs(), r"X=.*is a Pairs\. .*torch\.stack"),
        (torch.utils.data.DataLoader(Pairs()), r"X=.*is a DataLoader\. .*torch\.stack"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_before_a_run(inputs, message):
    model = classifier()
    for ask in (model.predictive, lambda given: model.predict(model.initial(), given)):
        with pytest.raises(sg.ArgumentError, match=message):
            ask(inputs)
