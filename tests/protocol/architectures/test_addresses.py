"""Everything random that workers add of their own has an address of its own."""

import numpy as np

import stalegrad as sg
from stalegrad.potentials.address import GradientAddress
from stalegrad.protocol.worker import Worker
from stalegrad.testing import small_model

KERNEL = sg.SGLD(step_size=0.01)


def answer(model, **changed):
    address = GradientAddress(**{"seed": 1, "chain": 0, "worker": 0, "count": 0, "first_repeat": 0, **changed})
    out = np.empty((1, model.size), model.dtype)
    model.answer(np.zeros_like(out), address, out)
    return out.tobytes()


def test_the_noise_of_workers():
    """Of a model whose minibatch is all of the data, so that nothing else differs."""
    whole = sg.potentials.GaussianMean(np.arange(5.0))
    model = sg.WorkerNoise().work(whole, (KERNEL,) * 2, workers=3)
    addresses = ({}, {"seed": 2}, {"chain": 1}, {"worker": 1}, {"worker": 2}, {"count": 1}, {"first_repeat": 1})
    assert len({answer(model, **address) for address in addresses}) == len(addresses)


def test_local_steps_use_every_minibatch_once():
    model = sg.Downpour(n_push=4).work(small_model(), (KERNEL,), workers=2)
    numbers = [number for count in range(3) for number in model.gradient_numbers(0, 0, 1, count)]
    assert numbers == list(range(12))


def test_workers_have_a_model_of_their_own():
    """SVRG's anchors are a worker's."""
    model = sg.potentials.svrg(small_model())
    assert Worker(model, 0, 0, 0).potential is not model
