"""What the ranks of the tests of the MPI engine execute: ``mpiexec -n K python -m mpi4py mpi_rank.py CASE FOLDER``."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import stalegrad as sg
from stalegrad.engines.service import Service
from stalegrad.server import Server
from stalegrad.testing import KERNELS, FaultyModel, check_engine, check_replay, small_model

KERNEL = sg.SGHMC(step_size=0.02, friction=5.0)


def world():
    from mpi4py import MPI  # not before: with elastic workers the engine has to prepare it

    return MPI.COMM_WORLD


def tell(**facts):
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
            told = check(sg.engines.MPI(everywhere=True, comm=comm))
            if rank == 0:
                tell(ranks=ranks, **told)


def check_all(folder):
    def check(engine):
        check_engine(engine, steps=100, folder=folder)
        return {"suite": "kept"}

    return check


def check_shape(servers, workers):
    def check(engine):
        run = check_replay(engine, KERNELS[workers], servers=servers, workers=99, steps=100)
        return {"servers": servers, "workers": run.trace.about["workers"], "events": len(run.events)}

    return check


def interrupted(folder):
    """Goes on until it is interrupted, or to the end that a resumed run has."""
    model = FaultyModel(folder / "calls", {}, seconds=0.002)
    engine, store = sg.engines.MPI(), folder / "run"
    if store.exists():
        run = sg.resume(store, model, KERNEL, steps=int(os.environ["STEPS"]), engine=engine, progress=False)
    else:
        store = store if world().rank == 0 else folder / "another"  # the leader's counts
        run = sg.sample(
            model, KERNEL, steps=10**6, servers=2, engine=engine, progress=False, store=store, checkpoint_every=0.2
        )
    tell(interrupted=run.interrupted, steps=[chain.steps for chain in run.trace.chains], same=replayed(run),
         draws=[len(draws) for draws in run.chain_draws], workers=run.trace.about["workers"])  # fmt: skip


def broken_server(folder):
    """Something unforeseen happens to the server of chain 1."""
    if world().rank == 1:
        receive = Server.receive

        def broken(server, *arguments):
            if server.chain.version == 50:
                raise LookupError("unforeseen")
            return receive(server, *arguments)

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
            small_model(), KERNEL, steps=100, seed=world().rank // 2, engine=sg.engines.MPI(everywhere=True),
            progress=False,
        )  # fmt: skip
    except sg.ArgumentError as error:
        tell(rank=world().rank, refused=str(error))


def twice(folder):
    """The other ranks end with the first run; what follows it is rank 0's alone."""
    sg.sample(small_model(), KERNEL, steps=100, engine="mpi", progress=True)
    tell(rank=world().rank)
    sg.sample(small_model(), KERNEL, steps=100, engine="mpi", progress=False)


def hung(folder):
    """One of two workers never answers again."""
    model = FaultyModel(folder / "calls", {20: "hang"}, seconds=0.02)
    run = sg.sample(model, KERNEL, steps=100, engine=sg.engines.MPI(patience=0.5), progress=False)
    tell(kinds=[event.kind for event in run.events], steps=run.trace.chains[0].steps, same=replayed(run))


def idle(folder):
    """Each rank's CPU time over that which passes between its first and its last gradient or update."""
    seen = []

    def noting(function):
        def noted(*arguments):
            seen.append((time.perf_counter(), time.process_time()))
            return function(*arguments)

        return noted

    FaultyModel.gradient, Service._deliver = noting(FaultyModel.gradient), noting(Service._deliver)
    model = FaultyModel(folder / "calls", {}, seconds=0.4)  # it sleeps
    sg.sample(model, KERNEL, steps=13, engine=sg.engines.MPI(everywhere=True), progress=False)
    (begun, cpu_begun), (ended, cpu_ended) = seen[2], seen[-1]
    tell(rank=world().rank, passed=ended - begun, share=(cpu_ended - cpu_begun) / (ended - begun))


def elastic(folder):
    """A run whose workers come and go; the same for servers and workers."""
    model = UntilToldToStop(folder)
    engine = sg.engines.MPI(elastic=folder / "ports", heartbeat=1.5)
    run = sg.sample(model, KERNEL, steps=2000, workers=2, engine=engine, progress=False)
    tell(
        steps=run.trace.chains[0].steps, same=replayed(run), kinds=[event.kind for event in run.events],
        details=[event.details for event in run.events], twice=run.trace.chains[0].applied_twice(),
    )  # fmt: skip


class UntilToldToStop(FaultyModel):
    """Slow until there is a file ``stop``, so that the run lasts as long as the test wants."""

    def __init__(self, folder):
        super().__init__(folder / "calls", {}, seconds=0.0)
        self._folder = folder

    def gradient(self, theta, indices):
        if not (self._folder / "stop").exists():
            time.sleep(0.05)
        return super().gradient(theta, indices)


if __name__ == "__main__":
    signal.alarm(120)  # no test leaves a rank behind
    globals()[sys.argv[1]](Path(sys.argv[2]))
