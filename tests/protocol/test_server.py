"""A server and its workers joined by a fake network: every order of arrival replays bit for bit."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.protocol.admission import Admission
from stalegrad.protocol.chain import Chain
from stalegrad.protocol.past import Past
from stalegrad.protocol.server import ChainStatus, Gradient, Server
from stalegrad.protocol.trace import Trace
from stalegrad.protocol.worker import Worker

N, SIZE, STEPS = 40, 5, 120
KERNEL = sg.SGHMC(step_size=0.01, friction=5.0, integrator="splitting")


@pytest.fixture
def potential():
    data = np.random.default_rng(0).standard_normal((N, SIZE))
    return sg.potentials.GaussianMean(data, batch_size=4)


def server_of(potential, *, steps=STEPS, max_staleness=None, policy="drop", draws=None):
    chain = Chain(KERNEL, potential.initial()[None], seed=9, chain=2)
    kept = [] if draws is None else draws
    return Server(
        chain, Admission(max_staleness, policy), steps, lambda _, chain, gradient: kept.append(chain.position[0].copy())
    )


class FakeNetwork:
    """Delivers in an order drawn from a seed; whoever is told to compute, computes at once."""

    def __init__(self, server, potential, workers, order):
        self.server, self.order = server, np.random.default_rng(order)
        self.workers = [Worker(potential, 9, 2, w) for w in range(workers)]
        self.under_way = []
        for w in range(workers):
            self.send(server.join(w))

    def send(self, assignments):
        for worker, count, version in assignments:
            values = np.empty_like(self.server.chain.position)
            self.workers[worker].compute(self.server.chain.point, count, values)
            self.under_way.append(Gradient(worker, count, version, values))

    def deliver(self):
        message = self.under_way.pop(self.order.integers(len(self.under_way)))
        self.send(self.server.receive(message))
        return message


@pytest.mark.parametrize("order", range(5))
@pytest.mark.parametrize(("bound", "policy"), [(None, "drop"), (3, "drop"), (6, "wait")])
def test_any_order_of_arrival_replays_bit_for_bit(potential, order, bound, policy):
    draws = []
    server = server_of(potential, max_staleness=bound, policy=policy, draws=draws)
    network = FakeNetwork(server, potential, workers=5, order=order)
    while not server.done:
        network.deliver()
    chain = server.trace
    if bound is not None:
        assert chain.updates().staleness.max() <= bound
    assert (policy == "drop" and bound is not None) == (not chain.accepted.all())
    assert chain.applied_twice() == 0
    replayed = sg.replay(Trace((chain,) * 3, seed=9), potential, KERNEL)
    np.testing.assert_array_equal(replayed.draws[2], draws)


def bad(values, change):
    values = values.copy()
    values[0, 1] = change
    return values


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda v: bad(v, np.nan), "1 of 5 entries"),
        (lambda v: bad(v, np.inf), "1 of 5 entries"),
        (lambda v: v[:, :-1], r"shape \(1, 4\)"),
        (lambda v: v.astype(np.float64), "float64"),
        (lambda v: v.tolist(), "list"),
    ],
)
def test_bad_gradients_never_touch_the_chain(potential, spoil, reason):
    server = server_of(potential)
    server.join(0)
    before = [np.copy(a) for a in server.chain.state]
    good = np.ones_like(server.chain.position)
    (again,) = server.receive(Gradient(0, 0, 0, spoil(good)))
    assert (again.count, again.version) == (1, 0)  # fresh work at the same version
    for a, b in zip(server.chain.state, before, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(server.trace) == 0
    (refusal,) = server.refusals
    assert "worker 0, minibatch 0" in refusal
    assert re.search(reason, refusal)
    assert server.receive(Gradient(0, 1, 0, good))  # and the worker can go on


def test_duplicates_and_strangers_are_refused_and_counted(potential):
    server = server_of(potential)
    server.join(0)
    good = np.ones_like(server.chain.position)
    server.receive(Gradient(0, 0, 0, good))
    after = server.chain.position.copy()
    assert server.receive(Gradient(0, 0, 0, good)) == []
    assert server.receive(Gradient(5, 0, 0, good)) == []
    assert server.receive(Gradient(0, 1, 99, good)) == []
    np.testing.assert_array_equal(server.chain.position, after)
    assert len(server.refusals) == 3
    assert len(server.trace) == 1


def test_a_server_that_is_done_hands_out_nothing_and_ignores_the_late(potential):
    server = server_of(potential, steps=1)
    server.join(0)
    server.join(1)
    good = np.ones_like(server.chain.position)
    assert server.receive(Gradient(0, 0, 0, good)) == []
    assert server.done
    assert server.receive(Gradient(1, 0, 0, good)) == []
    assert server.join(2) == []
    assert server.trace.steps == 1


def test_the_status_counts_what_was_accepted_dropped_and_refused(potential):
    """Worker 1 reads version 0 and comes when the others have made three updates, which is too late."""
    server = server_of(potential, max_staleness=2)
    good = np.ones_like(server.chain.position)
    for worker in range(3):
        server.join(worker)
    server.receive(Gradient(0, 0, 0, good))  # fresh
    server.receive(Gradient(2, 0, 0, good))  # one behind
    server.receive(Gradient(0, 1, 1, good))  # one behind
    server.receive(Gradient(1, 0, 0, good))  # three behind
    server.receive(Gradient(1, 0, 0, good))  # again
    assert server.status == ChainStatus(accepted=3, dropped=1, refused=1, staleness_sum=2, staleness_max=1)
    resumed = ChainStatus.after(Past.of(server.trace))
    assert resumed == ChainStatus(accepted=3, dropped=1, refused=0, staleness_sum=2, staleness_max=1)


def test_of_gradients_that_came_together_the_last_releases_their_workers(potential):
    server = server_of(potential)
    good = np.ones_like(server.chain.position)
    server.join(0)
    server.join(1)
    assert server.receive(Gradient(0, 0, 0, good), more=True) == []
    assert [(a.worker, a.version) for a in server.receive(Gradient(1, 0, 0, good))] == [(0, 2), (1, 2)]


def test_what_was_dealt_with_elsewhere_is_as_if_it_had_been_received_here(potential):
    """Versions, counts, trace, status and record go on from there."""
    received, told = server_of(potential, max_staleness=1), server_of(potential, max_staleness=1)
    filled, flying = [], {}
    told._record = SimpleNamespace(filled=filled.append)
    for server in (received, told):
        for worker in range(3):
            flying |= {assignment.worker: assignment for assignment in server.join(worker)}
    values = np.zeros((1, potential.size), potential.dtype)
    for worker in (0, 1, 2, 0, 2):
        worker, count, version = flying[worker]
        (flying[worker],) = received.receive(Gradient(worker, count, version, values), 0.5)
    told.chain.restore(0, received.chain.snapshot())
    told.went_on(received.trace, sorted(flying.values(), key=lambda flight: flight.version))
    assert told.chain.version == received.chain.version
    assert told.admission.version == received.admission.version
    assert set(told.admission.flying) == set(received.admission.flying)
    assert told.admission.held == received.admission.held == ()
    assert told.status == received.status
    for name, column in received.trace.columns().items():
        np.testing.assert_array_equal(told.trace.columns()[name], column)
    assert filled == [received.chain.version]
