"""A language model of dict batches with LoRA adapters, made from a configuration: gradients, engines, resuming."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.utils.data import DataLoader

import stalegrad as sg
from stalegrad.potentials import from_torch

from .transformers_models import N, Sequences, language_model, lora_potential, padded, sequences, with_lora

pytestmark = pytest.mark.long  # transformers and peft take seconds to import

KERNEL = sg.SGHMC(step_size=1e-3, friction=20.0)


def test_the_adapters_alone_are_sampled_and_gradients_are_slopes():
    model = from_torch(with_lora(torch.float64), "next_token", sequences(), prior=0.5)
    assert all("lora_" in name for name in model.layout)
    theta, h = model.initial() + 0.05, 1e-5
    directions = np.random.default_rng(0).normal(size=(5, model.size))
    slopes = [(model.potential(theta + h * d) - model.potential(theta - h * d)) / (2 * h) for d in directions]
    assert_allclose(directions @ model.full_gradient(theta), slopes, rtol=1e-6)


def test_its_own_loss_and_its_items_give_the_same():
    known = lora_potential()
    theta = known.initial() + np.float32(0.05)

    def own(outputs, batch):
        return (
            outputs.loss * (batch["labels"][:, 1:] != -100).sum()
        )  # a mean over the labels that count, after the first

    loader = DataLoader(Sequences(), batch_size=6, collate_fn=padded)
    for model in (
        from_torch(with_lora(), own, sequences(), prior=0.5, batch_size=6),
        from_torch(with_lora(), "next_token", loader, prior=0.5),
    ):
        assert model.batch_size == 6
        assert_allclose(model.full_gradient(theta), known.full_gradient(theta), rtol=1e-4, atol=1e-4)
    log_p = known.log_likelihood(theta)
    assert log_p.shape == (N,)
    difference = known.potential(theta) - known.potential(known.initial())
    likelihoods = known.log_likelihood(known.initial()).sum() - log_p.sum()
    priors = known.prior.log_density(known.initial()) - known.prior.log_density(theta)
    assert difference == pytest.approx(likelihoods + priors, rel=1e-4)
    assert known.predictive(sequences())(theta).shape == (N * 9, 23)


def test_a_part_of_a_model_without_adapters_is_sampled_by_name():
    model = from_torch(language_model(), "next_token", sequences(), sample=["*.ln_*", "*.bias"])
    assert set(model.layout) == {n for n, _ in language_model().named_parameters() if ".ln_" in n or n.endswith("bias")}


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_a_run_is_resumed_and_replayed_bit_for_bit(engine, tmp_path):
    model = lora_potential()
    options = {"workers": 2, "seed": 4, "engine": engine, "progress": False}
    sg.sample(model, KERNEL, steps=30, store=tmp_path / "run", **options)
    run = sg.resume(tmp_path / "run", model, steps=60, progress=False)
    draws = np.asarray(run.draws[:])
    assert draws.shape == (1, 60, model.size)
    assert np.ptp(draws, axis=1).min() > 0
    assert sg.replay(run.trace, lora_potential(), KERNEL).draws.tobytes() == draws.tobytes()
