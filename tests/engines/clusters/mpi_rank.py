"""What the ranks of the tests of the MPI engine execute: ``mpiexec -n K python -m mpi4py mpi_rank.py CASE FOLDER``."""

import json
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import stalegrad as sg
from stalegrad.engines import ServerLoop
from stalegrad.potentials import Minibatches, Potential
from stalegrad.protocol.server import Server
from stalegrad.testing import (
    HOSTILE,
    KERNELS,
    FaultyModel,
    check_engine,
    check_hostile_network,
    check_replay,
    small_model,
)  # fmt: skip

KERNEL = sg.SGHMC(step_size=0.02, friction=5.0)
ARCHITECTURES = (
    sg.Downpour(n_push=3), sg.Downpour(n_push=2, n_fetch=6), sg.WorkerNoise(), sg.Elastic(rho=5.0, alpha=0.5),
    sg.VisitingShards((20, 12, 8), lengths=(4, 3, 2)), sg.Consensus((25, 15)),
)  # fmt: skip


def world():
    from mpi4py import MPI  # not before: workers that join do without

    return MPI.COMM_WORLD


def report(**facts):
    """One line for the test to read."""
    print(json.dumps(facts), flush=True)


def replayed(run):
    """Whether a run replays bit for bit, chain by chain."""
    again = sg.replay(run.trace, small_model(), KERNEL)
    return all(np.array_equal(a, b) for a, b in zip(again.chain_draws, run.chain_draws, strict=True))


def conformance(folder):
    """The whole suite on five ranks, with as many or fewer workers than servers; then every shape of run, in turn."""
    checks = [(5, check_all(folder)), *[(s + s * w, check_shape(s, w)) for s in (1, 3) for w in (1, 2, 4)]]
    rank = world().rank
    comms = [world().Split(rank < ranks) for ranks, _ in checks]  # now: waiting for each other would burn cores
    for (ranks, check), comm in zip(checks, comms, strict=True):
        if rank < ranks:
            reported = check(sg.engines.MPI(everywhere=True, comm=comm))
            if rank == 0:
                report(ranks=ranks, **reported)


def check_all(folder):
    def check(engine):
        check_engine(engine, steps=100, folder=folder)
        return {"suite": "kept"}

    return check


def check_shape(servers, workers):
    def check(engine):
        run = check_replay(engine, KERNELS[workers], servers=servers, workers=99, steps=100)
        return {"servers": servers, "workers": run.trace.workers, "events": len(run.events)}

    return check


def hostile(folder):
    """Two servers with a worker each, or with one between them, where every other message is spoilt; then faults."""
    engine = sg.engines.MPI(everywhere=True)
    check_hostile_network(engine, steps=100)
    model = FaultyModel(folder / "calls", {20: "raise", 40: "nan"}, seconds=0.0)
    run = sg.sample(
        model, KERNEL, steps=100, servers=world().size // 2, seed=3, engine=engine.over(HOSTILE), progress=False
    )
    if world().rank == 0:
        report(
            kinds=sorted(event.kind for event in run.events), same=replayed(run), timing=asdict(run.timing),
            steps=[chain.steps for chain in run.trace.chains], twice=[c.applied_twice() for c in run.trace.chains],
        )  # fmt: skip


def express(folder):
    """Runs whose gradients come so fast that compiled code deals with most of them; in the second some are faulty."""
    from stalegrad.engines.mpi import express as module
    from stalegrad.engines.mpi import express_worker
    from stalegrad.engines.waiting import AdaptiveWait

    module.WORTH_COMPILING = module.FIRST = express_worker.FIRST = 1
    module._BRIEF, module._FEW = sys.maxsize, 0  # whatever else runs here, every arrival counts as fast and worth it
    run_express, dealt_with = module.Express.run, [0]

    def counted(self):
        found = run_express(self)
        dealt_with[0] += found[0]
        return found

    module.Express.run = counted
    turn_around, turned = express_worker.ExpressWorker.turn_around, [0]

    def counted_turn(self, *arguments):
        found = turn_around(self, *arguments)
        turned[0] += found == express_worker.PLAIN
        return found

    express_worker.ExpressWorker.turn_around = counted_turn
    AdaptiveWait.brief = property(lambda self: True)
    # compiled before the server loop goes on, which might otherwise be done before
    module.threading = express_worker.threading = SimpleNamespace(
        Thread=lambda target, args=(), **_: SimpleNamespace(start=lambda: target(*args))
    )
    engine = sg.engines.MPI(everywhere=True)
    for bound, faults in ((None, {}), (1, {}), (None, {700: "raise", 900: "nan", 1100: "nan"})):
        dealt_with[0] = turned[0] = 0
        model = FaultyModel(folder / f"calls-{bound}-{len(faults)}", faults, seconds=0.0)
        run = sg.sample(
            model, KERNEL, steps=3000, thin=3, seed=3, engine=engine, max_staleness=bound, progress=False,
        )  # fmt: skip
        turned_at_all = sum(world().allgather(turned[0]))
        if world().rank == 0:
            (chain,) = run.trace.chains
            report(
                kinds=sorted(event.kind for event in run.events), same=replayed(run), steps=chain.steps,
                twice=chain.applied_twice(), dealt_with=dealt_with[0], turned=turned_at_all,
                counted=run.timing.count - len(chain),
                bound=bound is None or bool(chain.updates().staleness.max() <= bound), kept=run.draws.shape[1],
            )  # fmt: skip


def architectures(folder):
    """Every architecture on two servers with a worker each."""
    engine = sg.engines.MPI(everywhere=True)
    for architecture in ARCHITECTURES:
        run = sg.sample(
            small_model(), KERNEL, steps=80, servers=2, seed=4, engine=engine, progress=False, architecture=architecture
        )
        if world().rank == 0:
            report(name=type(run.trace.architecture).__name__, workers=run.trace.workers, replayed=replayed(run))


def lora(folder):
    """A language model of dict batches, whose adapters are sampled: run, resumed, and replayed by one rank."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "potentials" / "frontends"))
    from transformers_models import lora_potential

    model, kernel = lora_potential(), sg.SGHMC(step_size=1e-3, friction=20.0)
    options = {"engine": sg.engines.MPI(everywhere=True), "progress": False}
    sg.sample(model, kernel, steps=30, seed=4, store=folder / "run", **options)
    run = sg.resume(folder / "run", model, steps=60, **options)
    if world().rank == 0:
        again = sg.replay(run.trace, model, kernel)
        report(
            workers=run.trace.workers, steps=run.trace.chains[0].steps, moved=bool(np.ptp(run.draws, axis=1).min() > 0),
            same=again.draws.tobytes() == np.asarray(run.draws[:]).tobytes(), events=len(run.events),
        )  # fmt: skip


def broken_server(folder):
    """Something unforeseen happens to the server of chain 1."""
    if world().rank == 1:
        receive = Server.receive

        def broken(server, *arguments, **options):
            if server.chain.version >= 50:
                raise LookupError("unforeseen")
            return receive(server, *arguments, **options)

        Server.receive = broken
    sg.sample(
        small_model(), KERNEL, steps=10**6, servers=2, engine="mpi", progress=False, store=folder / "run",
        checkpoint_every=0,
    )  # fmt: skip


def killed_worker(folder):
    model = FaultyModel(folder / "calls", {200: "kill"}, seconds=0.002)
    sg.sample(
        model, KERNEL, steps=10**6, servers=1, engine="mpi", progress=False, store=folder / "run", checkpoint_every=0
    )


def missing_data(folder):
    """A rank fails before it has come to sampling."""
    sg.engines.MPI().begin()
    if world().rank == 1:
        raise FileNotFoundError("the data of rank 1")
    sg.sample(small_model(), KERNEL, steps=100, engine="mpi", progress=False)


def too_few(folder):
    sg.sample(small_model(), KERNEL, steps=100, servers=2, engine="mpi", progress=False)


def unlike(folder):
    """Ranks that disagree; and, on all of them, what is raised is the same."""
    try:
        sg.sample(
            small_model(), KERNEL, steps=100, seed=world().rank, engine=sg.engines.MPI(everywhere=True),
            progress=False,
        )  # fmt: skip
    except sg.ArgumentError as error:
        report(rank=world().rank, refused=str(error))


def hung(folder):
    """One of two workers never answers again. The other ranks end with the run; what follows it is rank 0's alone."""
    model = FaultyModel(folder / "calls", {20: "hang"}, seconds=0.02)
    engine = sg.engines.MPI(patience=0.5)
    run = sg.sample(model, KERNEL, steps=100, engine=engine)
    kinds = [event.kind for event in run.events]
    report(rank=world().rank, kinds=kinds, steps=run.trace.chains[0].steps, same=replayed(run))
    try:
        sg.sample(model, KERNEL, steps=100, engine=engine)
    except sg.ArgumentError as error:
        report(refused=str(error))


class UntilHealed(FaultyModel):
    """Slow until there is a file ``healed``."""

    def __init__(self, folder):
        super().__init__(folder / "calls", {}, seconds=0.01)
        self._healed = folder / "healed"

    def gradient(self, theta, indices):
        if not self._healed.exists():
            time.sleep(0.05)
        return super().gradient(theta, indices)


def behind_a_cable(folder):
    """Worker 1 is on another host, and cannot be reached for a while."""
    engine = sg.engines.MPI(patience=1.0)
    run = sg.sample(UntilHealed(folder), KERNEL, steps=300, engine=engine, progress=False, store=folder / "run")
    report(
        kinds=[event.kind for event in run.events], workers=[event.worker for event in run.events],
        steps=run.trace.chains[0].steps, same=replayed(run),
    )  # fmt: skip


class Sleepy(FaultyModel):
    """A gradient that takes 0.4 s of sleep, the first one until all workers have come to theirs."""

    def __init__(self, counter, workers):
        super().__init__(counter, {}, seconds=0.0)
        self._file, self._workers, self.seen = counter, workers, []

    def gradient(self, theta, indices):
        self.seen.append((time.perf_counter(), time.process_time()))
        result = super().gradient(theta, indices)
        while self._file.stat().st_size < self._workers:
            time.sleep(0.01)
        time.sleep(0.4)
        return result


def idle(folder):
    """Each rank's CPU time over that which passes between its third and its last gradient or update."""
    model = Sleepy(folder / "calls", workers=world().size - 1)
    deliver = ServerLoop._deliver

    def noted(*arguments):
        model.seen.append((time.perf_counter(), time.process_time()))
        return deliver(*arguments)

    ServerLoop._deliver = noted
    sg.sample(model, KERNEL, steps=11, engine=sg.engines.MPI(everywhere=True), progress=False)
    (begun, cpu_begun), (ended, cpu_ended) = model.seen[2], model.seen[-1]
    report(rank=world().rank, passed=ended - begun, share=(cpu_ended - cpu_begun) / (ended - begun))


def elastic_architecture(folder):
    """A run of the architecture that is named, by a server and a worker that joins."""
    engine = sg.engines.MPI(elastic=folder / "ports")
    architecture = {"downpour": sg.Downpour(n_push=3), "worker_noise": sg.WorkerNoise(), "none": None}[
        os.environ["ARCHITECTURE"]
    ]
    kernel = sg.SGLD(step_size=os.environ.get("STEP_SIZE", 0.002))
    run = sg.sample(
        small_model(), kernel, steps=60, workers=2, seed=int(os.environ["SEED"]), engine=engine, progress=False,
        architecture=architecture, store=folder / "run",
    )  # fmt: skip
    again = sg.replay(run.trace, small_model(), kernel)
    same = bool(np.array_equal(again.draws, run.draws))
    report(steps=run.trace.chains[0].steps, same=same, events=len(run.events))


def elastic_twice(folder):
    """A run in a folder that another uses, or that is a link to it."""
    engine = sg.engines.MPI(elastic=folder / "ports")
    sg.sample(small_model(), KERNEL, steps=10, workers=2, engine=engine, progress=False)


class Wide(Potential):
    """A Gaussian of so many coordinates that a point does not fit into one packet of the network.

    Args:
        counter: a file whose length counts the calls.
        seconds: how long a gradient takes.
    """

    def __init__(self, counter, seconds):
        super().__init__(50_000, Minibatches(40, 4), np.dtype(np.float32))
        self._counter, self._seconds = counter, seconds

    def gradient(self, theta, indices):
        if self._seconds:
            time.sleep(self._seconds)
            with self._counter.open("ab") as file:
                file.write(b".")
        return theta + np.float32(indices.mean())


def elastic(folder):
    """A run whose workers come and go, until it is interrupted; the same for servers and workers."""
    seconds, heartbeat = float(os.environ.get("SECONDS_A_GRADIENT", "0.005")), float(os.environ["HEARTBEAT"])
    engine = sg.engines.MPI(elastic=folder / "ports", heartbeat=heartbeat)
    kernel = sg.SGHMC(step_size=0.02, friction=5.0)
    run = sg.sample(
        Wide(folder / "calls", seconds), kernel, steps=10**5, thin=50, workers=2, engine=engine, progress=False,
        store=folder / "run", checkpoint_every=0.5,
    )  # fmt: skip
    again = sg.replay(run.trace, Wide(folder / "calls", 0.0), kernel)
    (chain,) = run.trace.chains
    report(
        interrupted=run.interrupted, same=bool(np.array_equal(again.draws, run.draws)), draws=run.draws.shape[1],
        expected=chain.steps // 50, twice=chain.applied_twice(), kinds=[event.kind for event in run.events],
        details=[event.details for event in run.events],
    )  # fmt: skip


def no_ports(folder):
    """Servers are to listen on an address that this machine does not have."""
    engine = sg.engines.MPI(elastic=folder / "ports")
    try:
        sg.sample(small_model(), KERNEL, steps=10, engine=engine, progress=False, store=folder / "run")
    except sg.StalegradError as error:
        report(error=str(error))


if __name__ == "__main__":
    signal.alarm(240)  # no test leaves a rank behind
    globals()[sys.argv[1]](Path(sys.argv[2]))
