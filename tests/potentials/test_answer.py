"""What a worker answers: by default its minibatch's gradient; a model may make it depend on whose answer it is."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad._internal.types import Array, IntArray
from stalegrad.potentials.address import GradientAddress
from stalegrad.potentials.base import Potential
from stalegrad.testing import small_model


class Signed(Potential):
    """The small model's gradient plus a vector that depends on the worker, on its count and on the repetition."""

    addressed = True

    def __init__(self) -> None:
        self.model = small_model()
        super().__init__(self.model.size, self.model.minibatches, self.model.dtype)

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        raise AssertionError("nobody may go past answer()")

    def answer(self, points: Array, address: GradientAddress, out: Array) -> None:
        self.model.answer(points, address, out)
        repeats = address.first_repeat + np.arange(len(points), dtype=out.dtype)
        out += address.worker + 0.1 * (address.count % 7) + 0.01 * repeats[:, None]


def test_by_default_it_is_the_gradient_on_the_minibatch():
    model = small_model()
    points = np.arange(15, dtype=model.dtype).reshape(3, 5)
    out, expected = np.empty_like(points), np.empty_like(points)
    model.answer(points, GradientAddress(seed=3, chain=1, worker=2, count=5, first_repeat=4), out)
    for row in range(3):
        expected[row] = model.gradient(points[row], model.minibatches.draw(3, 1, 2, 5, 4 + row))
    np.testing.assert_array_equal(out, expected)
    model.answer(points[:1], GradientAddress(3, 1, 2, 5, 4), out[:1])
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("engine", ["inline", "threads", pytest.param("processes", marks=pytest.mark.long)])
def test_a_run_whose_answers_have_addresses_replays(engine):
    model, kernel = Signed(), sg.SGLD(step_size=0.002)
    run = sg.sample(model, kernel, steps=120, servers=2, workers=3, seed=7, engine=engine, progress=False)
    np.testing.assert_array_equal(sg.replay(run.trace, model, kernel).draws, run.draws)
    assert not np.array_equal(sg.replay(run.trace, model.model, kernel).draws, run.draws)


def test_repetitions_have_addresses_of_their_own():
    model, kernel, trace = Signed(), sg.SGLD(step_size=0.002), sg.Trace.constant_staleness(2, 30, seed=1)
    many = sg.replay(trace, model, kernel, repeats=4)
    alone = sg.replay(trace, model, kernel, repeats=1, first_repeat=3)
    np.testing.assert_array_equal(many.draws[3], alone.draws[0])


def test_long_runs_do_not_take_the_compiled_way_past_it(monkeypatch):
    monkeypatch.setattr("stalegrad.protocol.executor.WORTH_A_BLOCK", 10)
    model, kernel, trace = Signed(), sg.SGLD(step_size=0.002), sg.Trace.constant_staleness(2, 30, seed=1)
    model.bound = model.model.bound
    blocked = sg.replay(trace, model, kernel)
    del model.bound
    np.testing.assert_array_equal(blocked.draws, sg.replay(trace, model, kernel).draws)


def test_shards_are_refused_where_workers_do_more_than_draw_minibatches():
    with pytest.raises(sg.ArgumentError, match="does not go with Signed"):
        sg.sample(
            Signed(),
            sg.SGLD(step_size=0.002),
            steps=10,
            workers=2,
            architecture=sg.Shards(),
            engine="inline",
            progress=False,
        )
