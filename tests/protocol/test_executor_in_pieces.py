"""A trace on its way through a chain: in pieces it is the same as at once."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines.simulation import LogNormal, simulate
from stalegrad.protocol import executor as executors
from stalegrad.protocol.chain import Chain, Each
from stalegrad.protocol.chain_trace import joined
from stalegrad.protocol.executor import Executor, execute
from stalegrad.protocol.past import Past
from stalegrad.protocol.server import ChainStatus
from stalegrad.testing import small_model

KERNEL = sg.SGHMC(step_size=0.02, friction=5.0)
TRACE = sg.Trace.random_staleness([1, 1, 1, 1], 60, seed=4).chains[0]


def new_chain():
    return Chain(KERNEL, small_model().initial()[None], seed=4, chain=0)


def test_in_pieces(monkeypatch):
    """With minibatches drawn a few at a time, the status and the trace after each piece."""
    whole = []
    execute(TRACE, small_model(), new_chain(), lambda *update: whole.append(update[1].position.copy()))
    monkeypatch.setattr(executors, "_BLOCK_ENTRIES", 7 * small_model().batch_size)
    pieces, status = [], ChainStatus()
    record = Each(lambda *update: pieces.append(update[1].position.copy()))
    executor = Executor(TRACE, small_model(), new_chain(), record, status)
    made = 0
    for piece in (5, 1, 23, None):
        executor.advance(piece)
        made = 60 if piece is None else made + piece
        staleness = TRACE.staleness[:made]
        assert status == ChainStatus(made, 0, 0, staleness.sum(), staleness.max())
        assert len(executor.trace) == executor.trace.steps == made
        assert executor.done == (made == 60)
    np.testing.assert_array_equal(pieces, whole)


@pytest.mark.parametrize("staleness", [[1], [1, 1, 1, 1]])
def test_another_executor_goes_on_with_the_rest_of_a_trace(staleness):
    """From the chain's state and the last points, of which gradients that are on their way were computed at."""
    trace = sg.Trace.random_staleness(staleness, 60, seed=4).chains[0]
    nothing, whole = Each(lambda *update: None), new_chain()
    execute(trace, small_model(), whole, nothing)
    first = Executor(trace, small_model(), new_chain(), nothing)
    first.advance(23)
    chain = new_chain()
    chain.restore(23, first.chain.snapshot())
    rest = Executor(trace.part(slice(23, None)), small_model(), chain, nothing, points=first.points)
    rest.advance()
    np.testing.assert_array_equal(chain.position, whole.position)
    np.testing.assert_array_equal(rest.points[-1], whole.point)


def test_minibatches_go_on_after_the_past_of_each_worker():
    """Worker 0 had three, worker 1 one, worker 2 none; with an epoch of four all begin a new one."""
    past = sg.engines.simulation.simulate(
        workers=2, steps=4, compute=sg.engines.simulation.Constant(1.0, factors=[1, 3])
    )
    assert Past.of(past.chains[0]).next_counts() == {0: 3, 1: 1}
    trace = simulate(workers=3, steps=6).chains[0]
    record = Each(lambda *update: None)
    for epoch, first in ((1, [3, 1, 0]), (4, [4, 4, 0])):
        model = small_model()
        model.epoch = epoch
        executor = Executor(trace, model, new_chain(), record, past=Past.of(past.chains[0]))
        executor.advance()
        rows = executor.trace
        assert [rows.count[rows.worker == worker].tolist() for worker in range(3)] == [[k, k + 1] for k in first]


def test_time_goes_on_after_the_past():
    (trace,) = simulate(workers=2, steps=6).chains
    executor = Executor(trace, small_model(), new_chain(), Each(lambda *update: None), past=Past.of(trace))
    executor.advance()
    np.testing.assert_array_equal(executor.trace.time, trace.time + trace.time[-1])


def test_rows_that_are_taken_in_pieces_have_the_step_sizes_of_their_updates():
    """The step size changes with every update, and some gradients are dropped."""
    kernel = sg.SGLD(step_size=sg.schedules.Polynomial(0.02, 5.0, 0.4))
    (trace,) = simulate(workers=5, steps=60, compute=LogNormal(1.0, 0.7), max_staleness=4).chains
    assert trace.steps < len(trace)
    chain = Chain(kernel, small_model().initial()[None], seed=4, chain=0)
    executor = Executor(trace, small_model(), chain, Each(lambda *update: None))
    pieces = []
    while not executor.done:
        executor.advance(7)
        pieces.append(executor.take_rows())
    rows = joined(pieces)
    np.testing.assert_array_equal(rows.count, trace.count)
    np.testing.assert_array_equal(rows.step_size[rows.accepted], [kernel.schedule(update) for update in range(60)])
    assert np.isnan(rows.step_size[~rows.accepted]).all()


def test_a_gradient_that_is_not_finite_is_refused():
    broken = sg.potentials.from_gradient(lambda theta, _: theta * np.nan, 3, n_data=2, dtype=np.float64)
    chain = Chain(KERNEL, np.zeros((1, 3)), seed=4, chain=0)
    with pytest.raises(sg.GradientError, match=r"chain 0 cannot begin: .* on minibatch 0 of worker 0"):
        execute(TRACE, broken, chain, lambda *update: None)
