"""Servers elsewhere, without any elsewhere: links over calls and followers, joined by threads that play tricks."""

import contextlib
import itertools
import queue
import random
import threading
import time
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Engine, FaultPolicy, run_worker
from stalegrad.engines.hostile_network import HostileNetwork
from stalegrad.engines.local_servers import elapsed, outcome_of
from stalegrad.engines.ray import remote_server
from stalegrad.engines.ray.call_worker import CallWorker
from stalegrad.engines.ray.envelope import exchange
from stalegrad.engines.ray.hostile import HostileTransport
from stalegrad.engines.ray.lanes import MOST_LANES, LaneChoice, worthwhile_lanes
from stalegrad.engines.ray.reliable_calls import ReliableCalls
from stalegrad.engines.ray.remote_server import Follower, RemoteServer, RemoteTask
from stalegrad.engines.server_loop import monotonic_clock
from stalegrad.kernels.noise import MAX_WORKERS
from stalegrad.protocol.admission import Admission
from stalegrad.testing import FaultyModel, check_engine, small_model

KERNEL = sg.SGHMC(step_size=0.02, friction=5.0)


@dataclass(frozen=True)
class Remote(Engine):
    """An engine whose servers and workers are threads that know each other through calls and pickles alone.

    Args:
        tricks: seed of calls that raise although they were executed, and of answers that get lost; None for none.
        lose: after so many looks, servers are lost without a word,
        snapshots: but none before so many snapshots of it are known, and it has come further than the one before.
        lanes: minibatches a call.
        hostile: the network between workers and servers.
    """

    tricks: int | None = None
    lose: tuple[int, ...] = ()
    snapshots: int = 0
    lanes: int | None = None
    restarts: int = 3
    hostile: HostileNetwork | None = None
    calls: list = field(default_factory=list)
    went_on_from: list = field(default_factory=list)

    def run(self, job):
        clock = monotonic_clock(elapsed(job))
        followers = [
            Follower(job, s, FaultPolicy(None, self.restarts, None, 30.0), clock) for s in range(job.settings.servers)
        ]
        servers = [self._launch(job, follower) for follower in followers]
        rng = random.Random(self.tricks)
        looks, due = 0, list(self.lose)
        while not all(follower.ended for follower in followers):
            time.sleep(0.005)
            looks += 1
            for s, follower in enumerate(followers):
                before = max((version for lost, version, _ in self.went_on_from if lost == s), default=0)
                ready = follower.chain.version > before and follower.known + 1 >= self.snapshots
                if due and due[0] <= looks and s == due[0] % len(followers) and ready:
                    due.pop(0)
                    servers[s].stop()  # the threads end; what they send from now on is not read
                    self.went_on_from.append((s, follower.chain.version, follower._past.rows))
                    follower.lost("for the test")
                    servers[s] = self._launch(job, follower)
                if follower.ended:
                    continue
                report = cloudpickle.loads(cloudpickle.dumps(servers[s].report(follower.known)))
                if self.tricks is None or rng.random() < 0.5:
                    follower.take(report)
            if any(follower.failure for follower in followers):
                for server in servers:
                    server.stop()
        for follower in followers:
            follower.close()
        failure = next((follower.failure for follower in followers if follower.failure), None)
        return outcome_of([follower.result for follower in followers], interrupted=False, failure=failure)

    def _launch(self, job, follower):
        def start_worker(number, incarnation):
            call = Flaky(server.link, self.tricks, self.calls, number)
            if self.hostile is not None:
                transport = HostileTransport(
                    envelopes_to(server.link), self.hostile, follower.index, number, incarnation
                )
                call = ReliableCalls(transport, timeout=60.0)
            worker = CallWorker(
                job.potential, job.settings.seed, follower.index, number, incarnation, call, lanes=self.lanes
            )
            threading.Thread(target=run_worker, args=(worker,), daemon=True).start()

        task = cloudpickle.loads(cloudpickle.dumps(follower.task()))
        server = RemoteServer(task, start_worker, lambda number: None)
        threading.Thread(target=server.run, daemon=True).start()
        return server


class Flaky:
    """Calls that are executed and raise all the same, are made twice at once, or come late once more."""

    def __init__(self, link, seed, log, number):
        self.link, self.log, self.rng = link, log, None if seed is None else random.Random(seed + number)

    def __call__(self, call):
        call = cloudpickle.loads(cloudpickle.dumps(call))
        trick = 1.0 if self.rng is None else self.rng.random()
        self.log.append((call.sequence, trick))
        if trick < 0.2:
            self.link.exchange(call)  # the answer is lost, and the worker calls again
        elif trick < 0.4:
            threading.Thread(target=self.link.exchange, args=(call,), daemon=True).start()
        answer = self.link.exchange(call)
        if trick > 0.9 and self.rng is not None:
            threading.Timer(0.002, self.link.exchange, (call,)).start()  # an echo, when all is long done
        return cloudpickle.loads(cloudpickle.dumps(answer))


class Unhurried(FaultyModel):
    """After 300 gradients it crawls until all is done that the run must not end before."""

    def __init__(self, counter, done):
        super().__init__(counter, {}, seconds=0.002)
        self._calls, self._done = itertools.count(), done

    def gradient(self, theta, indices):
        if next(self._calls) > 300 and not self._done():
            time.sleep(0.2)
        return super().gradient(theta, indices)


def envelopes_to(link):
    """Envelopes that are pickled on their way, to a link that answers as long as there is somebody who asks."""

    class Transport:
        def __init__(self):
            self.answers = queue.SimpleQueue()

        def send(self, envelope, *, again):
            envelope = cloudpickle.loads(cloudpickle.dumps(envelope))
            threading.Thread(target=self.execute, args=(envelope,), daemon=True).start()

        def execute(self, envelope):
            self.answers.put(cloudpickle.loads(cloudpickle.dumps(exchange(link, envelope))))

        def receive(self, seconds):
            with contextlib.suppress(queue.Empty):
                return self.answers.get(timeout=seconds)

    return Transport()


def sample(engine, model=None, **options):
    options = {"steps": 300, "workers": 3, "seed": 3, "progress": False, **options}
    return sg.sample(model or small_model(), KERNEL, engine=engine, **options)


def assert_sound(run, steps=300):
    for chain in run.trace.chains:
        assert chain.steps == steps
        assert chain.applied_twice() == 0
    np.testing.assert_array_equal(sg.replay(run.trace, small_model(), KERNEL).draws, run.draws)


def test_keeps_every_promise():
    check_engine(Remote())


@pytest.mark.parametrize("lanes", [None, 1, 5])
def test_calls_that_are_made_again_are_applied_once(lanes):
    """A fifth of all calls is executed and raises; a fifth is made twice at once; a tenth comes again much later."""
    engine = Remote(tricks=11, lanes=lanes)
    run = sample(engine, servers=2)
    assert_sound(run)
    assert run.events == ()  # the server refused nothing: it never saw a gradient twice
    assert sum(trick < 0.4 for _, trick in engine.calls) > 10
    assert not any((~chain.accepted).any() for chain in run.trace.chains)


@pytest.mark.parametrize("lanes", [None, 1, 5])
def test_calls_over_a_hostile_network_are_applied_once(lanes):
    run = sample(Remote(hostile=HostileNetwork.evenly(0.1, seed=3), lanes=lanes), servers=2)
    assert_sound(run)
    assert run.events == ()
    assert min(run.timing.damaged, run.timing.repeated, run.timing.sent_again) > 0


@pytest.mark.parametrize("store", [False, True], ids=["memory", "store"])
def test_lost_servers_go_on_from_their_last_snapshot(store, tmp_path, monkeypatch):
    """Each has come further than the one before it: what was done up to its last snapshot is not done again."""
    monkeypatch.setattr(remote_server, "_EVERY", 0.02)  # else the run is over before there is any
    monkeypatch.setattr(remote_server, "_SHARE", 0.0)
    model = Unhurried(tmp_path / "calls", lambda: len(engine.went_on_from) == 3)
    where = {"store": tmp_path / "run", "checkpoint_every": 0.05} if store else {}
    engine = Remote(lose=(10, 20, 21), snapshots=2, lanes=1)
    run = sample(engine, model, servers=2, steps=900, **where)
    assert_sound(run, 900)
    assert [server for server, _, _ in engine.went_on_from] == [0, 0, 1]
    versions = [version for _, version, _ in engine.went_on_from]
    assert 0 < versions[0] < versions[1] < 900
    assert 0 < versions[2] < 900
    lost = [event for event in run.events if event.worker is None]
    assert len(lost) == 3
    assert "the server of chain 0 died: for the test" in str(lost[0])
    for server, version, rows in engine.went_on_from:
        chain = run.trace.chains[server]
        assert chain.accepted[:rows].sum() == version
    assert (np.diff(run.trace.chains[0].time) >= 0).all()


def test_workers_bring_several_gradients_a_call():
    """With k minibatches a call, lanes are workers of their own, and gradients of one call land one after another."""
    run = sample(Remote(lanes=4), workers=2)
    assert_sound(run)
    (chain,) = run.trace.chains
    assert set(chain.worker.tolist()) == set(range(8))
    alone = sample(Remote(lanes=4), workers=1).trace.chains[0]
    assert alone.staleness.tolist() == [0, 1, 2, 3] * 75  # all four lanes read the point after the last four


@pytest.mark.parametrize(("bound", "lanes"), [(7, 4), (6, 3), (5, 3)])
def test_the_bound_limits_how_many_gradients_a_call_brings(bound, lanes):
    """With τ + 1 gradients under way, and no more, none of them is ever held back."""
    (chain,) = sample(Remote(lanes=16), workers=2, max_staleness=bound, policy="wait").trace.chains
    assert set(chain.worker.tolist()) == set(range(2 * lanes))
    assert chain.staleness.max() <= bound
    assert chain.accepted.all()


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("bound", [*range(10), None])
def test_as_many_lanes_as_the_bound_lets_fly_together(bound, workers):
    """As many as the admission releases before any of them has landed."""
    settings = SimpleNamespace(max_staleness=bound, workers=workers)
    chain = SimpleNamespace(needs_all=False, per_worker_points=False)
    task = RemoteTask(SimpleNamespace(settings=settings, chain=chain), None, FaultPolicy(), 0.0)
    if bound is None:
        assert task.most_lanes * workers > MAX_WORKERS - workers
        return
    admission = Admission(bound, "wait")
    for lane in range(20):
        admission.join(lane)
    together = len(admission.release())
    assert together == bound + 1
    assert task.most_lanes == max(1, together // workers)
    chain.needs_all = True
    assert task.most_lanes == 1


def test_cheap_gradients_get_more_lanes_and_dear_ones_do_not():
    assert worthwhile_lanes(1e-3, 1e-6) == MOST_LANES
    for gradient, nbytes, wanted in ((1.0, 8, 1), (0.5e-3, 8, 2), (1e-6, 16 << 20, 2), (1e-6, 64 << 20, 1)):
        lanes = LaneChoice(nbytes=nbytes)
        for _ in range(8):
            assert lanes.wanted == 1
            lanes.note(1e-3, gradient)
        assert lanes.wanted == wanted
        lanes.note(1.0, 1e-6)
        assert lanes.wanted == wanted  # chosen once
    assert LaneChoice(3).wanted == 3


def test_a_server_that_fails_tells_why_and_keeps_its_draws(tmp_path):
    forever = FaultyModel(tmp_path / "calls", dict.fromkeys(range(50, 10_000), "raise"))
    with pytest.raises(sg.RunFailed, match="injected fault") as failure:
        sample(Remote(restarts=1), forever)
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

    from stalegrad.protocol.chain import Chain
    from stalegrad.protocol.worker import Worker

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
