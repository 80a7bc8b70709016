"""The conformance suite of architectures: ours pass it, and broken ones are told what is wrong."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.potentials.wrappers.base import Wrapper
from stalegrad.protocol.architectures import Architecture, StaleGradients
from stalegrad.protocol.chain import Chain
from stalegrad.testing import check_architecture

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("compiled")]

OURS = {
    "stale gradients": (StaleGradients(), {}),
    "shards": (sg.Shards(), {}),
    "Downpour": (sg.Downpour(n_push=2), {}),
    "Downpour, seldom fetched": (sg.Downpour(n_push=2, n_fetch=6), {}),
    "worker noise": (sg.WorkerNoise(), {}),
    "elastic": (sg.Elastic(rho=5.0, alpha=0.5), {}),
    "visiting shards": (sg.VisitingShards(3, lengths=4), {"servers": 2, "workers": 1}),
    "consensus": (sg.Consensus(), {"servers": 2, "workers": 2}),
}


@pytest.mark.parametrize("name", OURS)
def test_ours_keep_all_promises(name):
    architecture, shape = OURS[name]
    check_architecture(architecture, **shape, engines=("inline", "threads"))


def test_so_do_workers_in_processes_of_their_own():
    check_architecture(sg.Downpour(n_push=2, n_fetch=6), engines=("processes",))


class Forgetful(Chain):
    """Carries a number from update to update that it does not save."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.memory = 0.0

    def weighted(self, gradient, worker):
        self.memory += 1
        return gradient * gradient.dtype.type(1 + self.memory)


class Random(Wrapper):
    """Answers with random numbers that nobody can find again."""

    addressed: ClassVar[bool] = True
    generator = np.random.default_rng(0)

    def answer(self, points, address, out):
        out[...] = self.generator.standard_normal(out.shape)


@dataclass(frozen=True)
class Broken(Architecture):
    fault: str = "forgetful"

    def work(self, potential, kernels, workers):
        return Random(potential) if self.fault == "random" else potential

    def chain(self, kernel, place, workers):
        return (Forgetful if self.fault == "forgetful" else Chain)(kernel, *place)


@pytest.mark.parametrize(
    ("fault", "words"), [("forgetful", "saved and restored goes on elsewhere"), ("random", "the replay .* differs")]
)
def test_a_broken_one_is_told_what_is_wrong(fault, words):
    with pytest.raises(AssertionError, match=words):
        check_architecture(Broken(fault), engines=("threads",))
