"""Servers elsewhere, without any elsewhere: desk, callers and followers, joined by threads that play tricks."""

import random
import threading
import time
from dataclasses import dataclass, field, replace

import cloudpickle
import numpy as np
import pytest

import stalegrad as sg
from stalegrad.admission import Assignment
from stalegrad.engines import Outcome
from stalegrad.engines.caller import MOST_LANES, Lanes, attend, worthwhile_lanes
from stalegrad.engines.conductor import elapsed, total
from stalegrad.engines.desk import Call, Desk, Work
from stalegrad.engines.far import FarServer, Follower
from stalegrad.engines.service import Care, Delivery, Failure, Ready, monotonic_clock
from stalegrad.server import Gradient
from stalegrad.testing import FaultyModel, check_engine, small_model

KERNEL = sg.SGHMC(step_size=0.02, friction=5.0)


@dataclass(frozen=True)
class Far:
    """An engine whose servers and workers are threads that know each other through calls and pickles alone.

    Args:
        tricks: seed of calls that raise although they were executed, and of answers that get lost; None for none.
        lose: after so many looks, servers are lost without a word.
        lanes: minibatches a call.
    """

    tricks: int | None = None
    lose: tuple[int, ...] = ()
    lanes: int | None = None
    restarts: int = 3
    calls: list = field(default_factory=list)

    def run(self, job):
        clock = monotonic_clock(elapsed(job))
        followers = [Follower(job, s, Care(None, self.restarts, None), 30.0, clock) for s in range(job.servers)]
        servers = [self._launch(job, follower) for follower in followers]
        rng = random.Random(self.tricks)
        looks = 0
        while not all(follower.ended for follower in followers):
            time.sleep(0.005)
            looks += 1
            for s, follower in enumerate(followers):
                if looks in self.lose and s == looks % len(followers):
                    servers[s].stop()  # the threads end; what they say from now on is not heard
                    follower.lost("for the test")
                    servers[s] = self._launch(job, follower)
                if follower.ended:
                    continue
                report = cloudpickle.loads(cloudpickle.dumps(servers[s].report(follower.known)))
                if self.tricks is None or rng.random() < 0.5:
                    follower.hear(report)
            if any(follower.failure for follower in followers):
                for server in servers:
                    server.stop()
        for follower in followers:
            follower.close()
        return Outcome(
            tuple(follower.trace for follower in followers),
            tuple(event for follower in followers for event in follower.events),
            total([follower.timing for follower in followers]),
            failure=next((follower.failure for follower in followers if follower.failure), None),
        )

    def _launch(self, job, follower):
        def hire(number, incarnation):
            flaky = Flaky(server.desk, self.tricks, self.calls, number)
            who = (job.potential, job.seed, follower.index, number, incarnation, flaky)
            threading.Thread(target=attend, args=who, kwargs={"lanes": self.lanes}, daemon=True).start()

        task = cloudpickle.loads(cloudpickle.dumps(follower.task()))
        server = FarServer(task, hire, lambda number: None)
        threading.Thread(target=server.run, daemon=True).start()
        return server


class Flaky:
    """Calls that are executed and raise all the same, are made twice at once, or come late once more."""

    def __init__(self, desk, seed, log, number):
        self.desk, self.log, self.rng = desk, log, None if seed is None else random.Random(seed + number)

    def __call__(self, call):
        call = cloudpickle.loads(cloudpickle.dumps(call))
        trick = 1.0 if self.rng is None else self.rng.random()
        self.log.append((call.sequence, trick))
        if trick < 0.2:
            self.desk.exchange(call)  # the answer is lost, and the worker calls again
        elif trick < 0.4:
            threading.Thread(target=self.desk.exchange, args=(call,), daemon=True).start()
        answer = self.desk.exchange(call)
        if trick > 0.9 and self.rng is not None:
            threading.Timer(0.002, self.desk.exchange, (call,)).start()  # an echo, when all is long done
        return cloudpickle.loads(cloudpickle.dumps(answer))


def sample(engine, model=None, **options):
    options = {"steps": 300, "workers": 3, "seed": 3, "progress": False, **options}
    return sg.sample(model or small_model(), KERNEL, engine=engine, **options)


def assert_sound(run, steps=300):
    for chain in run.trace.chains:
        assert chain.steps == steps
        assert chain.applied_twice() == 0
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), KERNEL).draws, run.draws)


def test_keeps_every_promise():
    check_engine(Far())


@pytest.mark.parametrize("lanes", [None, 1, 5])
def test_calls_that_are_made_again_are_applied_once(lanes):
    """A fifth of all calls is executed and raises; a fifth is made twice at once; a tenth comes again much later."""
    engine = Far(tricks=11, lanes=lanes)
    run = sample(engine, servers=2)
    assert_sound(run)
    assert run.events == ()  # the server refused nothing: it never saw a gradient twice
    assert sum(trick < 0.4 for _, trick in engine.calls) > 10
    assert not any((~chain.accepted).any() for chain in run.trace.chains)


@pytest.mark.parametrize("store", [False, True], ids=["memory", "store"])
def test_lost_servers_go_on_from_their_last_cut(store, tmp_path):
    model = FaultyModel(tmp_path / "calls", {}, seconds=0.002)
    where = {"store": tmp_path / "run", "checkpoint_every": 0.05} if store else {}
    run = sample(Far(lose=(50, 120, 121)), model, servers=2, steps=900, **where)
    assert_sound(run, 900)
    lost = [event for event in run.events if event.worker is None]
    assert len(lost) == 3
    assert "the server of chain 0 died: for the test" in str(lost[0])
    assert (np.diff(run.trace.chains[0].time) >= 0).all()


def test_workers_bring_several_gradients_a_call():
    """With k minibatches a call, lanes are workers of their own, and gradients of one call land one after another."""
    run = sample(Far(lanes=4), workers=2)
    assert_sound(run)
    (chain,) = run.trace.chains
    assert set(chain.worker.tolist()) == set(range(8))
    alone = sample(Far(lanes=4), workers=1).trace.chains[0]
    assert alone.staleness.tolist() == [0, 1, 2, 3] * 75  # all four lanes read the point after the last four


def test_the_bound_limits_how_many_gradients_a_call_brings():
    (chain,) = sample(Far(lanes=16), workers=2, max_staleness=7, policy="wait").trace.chains
    assert set(chain.worker.tolist()) == set(range(8))
    assert chain.staleness.max() <= 7
    assert chain.accepted.all()


def test_cheap_gradients_get_more_lanes_and_dear_ones_do_not():
    assert worthwhile_lanes(1e-3, 1e-6) == MOST_LANES
    for gradient, nbytes, wanted in ((1.0, 8, 1), (0.5e-3, 8, 2), (1e-6, 16 << 20, 2), (1e-6, 64 << 20, 1)):
        lanes = Lanes(nbytes=nbytes)
        for _ in range(8):
            assert lanes.wanted == 1
            lanes.note(1e-3, gradient)
        assert lanes.wanted == wanted
        lanes.note(1.0, 1e-6)
        assert lanes.wanted == wanted  # chosen once
    assert Lanes(3).wanted == 3


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def desk(workers=1, **options):
    hired = []
    made = Desk(workers, lambda *who: hired.append(who), lambda worker: None, held=0.01, **options)
    for worker in range(workers):
        made.start(worker, 0)
    return made


def gradient(lane, count, version=0):
    return 0.001, Gradient(lane, count, version, np.ones((1, 3)))


def test_a_call_is_handed_on_once_and_answered_alike():
    front = desk()
    assert front.exchange(Call(0, 0, 0)) == Work()
    assert front.receive(0.01) == Ready(0, 0, 1)
    front.send(Assignment(0, 0, 0), np.zeros((1, 3)))
    assert front.receive(0.01) is None
    first, again = (front.exchange(Call(0, 0, 0)) for _ in range(2))
    assert first.assignments == again.assignments == ((Assignment(0, 0, 0), 0),)
    assert front.receive(0.01) is None
    for _ in range(3):
        front.exchange(Call(0, 0, 1, results=(gradient(0, 0),)))
    assert front.exchange(Call(0, 0, 0)) == Work()  # an echo of the call before
    delivery = front.receive(0.01)
    assert isinstance(delivery, Delivery)
    assert delivery.gradient[:3] == (0, 0, 0)
    assert front.receive(0.01) is None


def test_what_a_replaced_worker_brings_is_not_looked_at():
    front = desk()
    front.discard(0)
    front.start(0, 1)
    assert front.exchange(Call(0, 0, 5, results=(gradient(0, 0),))) is None
    assert front.beat(0, 0) is False
    assert front.receive(0.01) is None
    assert front.beat(0, 1) is True


def test_gradients_are_copied_and_points_are_shared():
    """Arrays that arrive may be read-only; what several workers get of one version is one object."""
    front = desk(2)
    values = np.ones((1, 3))
    values.flags.writeable = False
    front.exchange(Call(0, 0, 0, results=((0.1, Gradient(0, 0, 0, values)),)))
    own = front.receive(0.01).gradient.values
    assert own.flags.writeable
    assert not np.shares_memory(own, values)
    point = np.zeros((1, 3))
    shared = desk(2, pack=lambda point: point)
    for worker in range(2):
        shared.exchange(Call(worker, 0, 0))
        shared.receive(0.01)
    for worker in range(2):
        shared.send(Assignment(worker, 0, 7), point)
    point += 1  # the server goes on
    shared.receive(0.01)
    (zero,), (one,) = (shared.exchange(Call(worker, 0, 0)).points for worker in range(2))
    assert zero is one
    assert zero.readers == {0, 1}
    assert (zero.values == 0).all()


def test_silence_is_found_by_the_clock_alone():
    clock = Clock()
    front = desk(2, silence=10.0, clock=clock)
    assert front.absent == 2
    front.exchange(Call(0, 0, 0))
    assert front.receive(0.01) == Ready(0, 0, 1)
    assert front.absent == 1
    for clock.now in (8.0, 16.0):
        front.beat(0, 0)
        assert front.receive(0.01) is None
    clock.now = 27.0
    silent = front.receive(0.01)
    assert silent == Failure(0, 0, "died", silent.details)
    assert "no sign of life for 11.0 s" in silent.details
    front.discard(0)
    clock.now = 1000.0
    assert front.receive(0.01) is None  # worker 1 was never there: it may be waiting for a node


def test_a_server_that_fails_tells_why_and_keeps_its_draws(tmp_path):
    forever = FaultyModel(tmp_path / "calls", dict.fromkeys(range(50, 10_000), "raise"))
    with pytest.raises(sg.RunFailed, match="injected fault") as failure:
        sample(Far(restarts=1), forever)
    run = failure.value.run
    assert 0 < run.trace.chains[0].steps < 300
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), KERNEL).draws, run.draws)


@pytest.mark.parametrize(
    "kernel", [KERNEL, sg.SGLD(step_size=0.01), sg.PSGLD(step_size=0.01), sg.SGNHT(step_size=0.02)]
)
def test_a_chain_out_of_a_pickle_goes_on_as_it_would_have(kernel):
    model = small_model()
    trace = sg.Trace.constant_staleness(0, 40)
    whole = sg.replay(trace, model, kernel).draws[0]

    from stalegrad.chain import Chain
    from stalegrad.worker import Worker

    fitted = kernel.for_model(model.n_data, model.batch_size)
    chain = Chain(fitted, model.initial()[None], 0, 0)
    values = np.empty_like(chain.point)
    for update in range(40):
        chain = cloudpickle.loads(cloudpickle.dumps(chain))
        Worker(model, 0, 0, 0).compute(chain.point, update, values)
        chain.advance(values)
        np.testing.assert_array_equal(chain.position[0], whole[update])


def test_a_model_that_loads_itself_takes_no_data_along(tmp_path):
    np.save(tmp_path / "data.npy", np.random.default_rng(1).standard_normal((5000, 20)))
    loads = tmp_path / "loads"

    def load(folder):
        with (folder / "loads").open("a") as file:
            file.write(".")
        return sg.potentials.GaussianMean(np.load(folder / "data.npy"), batch_size=10)

    model = sg.potentials.from_loader(load, tmp_path)
    pickled = cloudpickle.dumps(model)
    assert len(pickled) < 10_000
    again = cloudpickle.loads(pickled)
    assert loads.read_text() == ".."
    theta = np.linspace(0, 1, 20)
    np.testing.assert_array_equal(again.full_gradient(theta), model.full_gradient(theta))
    assert (again.size, again.n_data, again.batch_size, again.layout) == (20, 5000, 10, model.layout)
    with pytest.raises(sg.ArgumentError, match="gave a list, not a Potential"):
        sg.potentials.from_loader(list)


def test_events_of_servers_are_told_apart():
    event = sg.engines.Event(1.0, 2, None, "died", "why")
    assert str(event) == "[1.0 s] the server of chain 2 died: why"
    assert str(replace(event, worker=3)) == "[1.0 s] worker 3 of chain 2 died: why"
