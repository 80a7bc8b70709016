"""What every engine must promise, as checks that anybody can run on their own: :func:`check_engine`.

The strongest one is replay: run for real, execute the recorded trace inline, compare bits.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stalegrad.engines import Engine
from stalegrad.engines.hostile_network import HostileNetwork
from stalegrad.kernels import SGHMC, SGLD, Kernel
from stalegrad.potentials import control_variates, svrg
from stalegrad.protocol.architectures import Architecture, Downpour, Elastic, Shards, StaleGradients, WorkerNoise
from stalegrad.runs.failures import RunFailed
from stalegrad.runs.replay import replay
from stalegrad.runs.result import Run
from stalegrad.runs.sample import sample
from stalegrad.testing.faulty_model import FaultyModel
from stalegrad.testing.kernels import example_kernels
from stalegrad.testing.promises import promise, small_logistic, small_model

ARCHITECTURES: tuple[Architecture, ...] = (
    Downpour(n_push=2),
    Downpour(n_push=2, n_fetch=6),
    WorkerNoise(),
    Elastic(rho=5.0, alpha=0.5),
)
FORESEEING = StaleGradients(linear=20.0, look_ahead="auto", tame=0.2)
"""The paper's architecture with all that keeps gradients from being stale; for kernels with a momentum."""

HOSTILE = HostileNetwork(
    seed=5, drop=0.1, delay=0.1, duplicate=0.1, reorder=0.1, truncate=0.05, flip=0.05, seconds=0.005
)
"""The network that engines are checked on: half of all messages arrive as they were sent, once, and in time."""

KERNELS: tuple[Kernel, ...] = tuple(k for k in example_kernels().values() if not k.takes_natural_gradients)
_LANGEVIN = SGLD(step_size=0.002)
_SPLITTING = SGHMC(step_size=0.02, friction=5.0, integrator="splitting")


def check_engine(
    engine: Engine,
    *,
    servers: Sequence[int] = (1, 3),
    workers: Sequence[int] = (1, 4),
    steps: int = 150,
    folder: Path | None = None,
) -> None:
    """Raise AssertionError, naming the promise, unless an engine keeps all promises.

    Of an engine that spans several processes, such as MPI, all of them call this, and the run returns in each.

    Args:
        engine: to be checked.
        servers: the numbers of servers to try.
        workers: the numbers of workers a server to try.
        steps: updates of each chain.
        folder: an empty one that all these processes see; None makes one for a single process.

    >>> import stalegrad as sg
    >>> check_engine(sg.engines.Inline(), servers=(1,), workers=(2,), steps=30)
    """
    for s in servers:
        for w in workers:
            check_replay(engine, KERNELS[(s + w) % len(KERNELS)], servers=s, workers=w, steps=steps)
    check_bound(engine, steps=steps)
    check_step_size_per_chain(engine, steps=steps)
    check_shards(engine, steps=steps)
    check_architectures(engine, steps=steps)
    check_variance_reduction(engine, steps=steps)
    check_hostile_network(engine, steps=steps)
    with tempfile.TemporaryDirectory() as own:
        check_faults(engine, steps=steps, folder=folder or Path(own))


def check_replay(engine: Engine, kernel: Kernel, *, servers: int, workers: int, steps: int) -> Run:
    """A run replays bit for bit, has all its updates and uses no gradient twice.

    >>> import stalegrad as sg
    >>> engine, kernel = sg.engines.Inline(), sg.SGLD(step_size=0.002)
    >>> check_replay(engine, kernel, servers=1, workers=2, steps=20).draws.shape
    (1, 20, 5)
    """
    potential = small_model()
    run = sample(
        potential, kernel, steps=steps, servers=servers, workers=workers, seed=7, engine=engine, progress=False
    )
    what = f"{type(engine).__name__} with {servers} servers of {workers} workers"
    promise(run.draws.shape == (servers, steps, potential.size), f"{what}: the draws have shape {run.draws.shape}")
    for chain in run.trace.chains:
        promise(chain.steps == steps, f"{what}: a chain made {chain.steps} updates")
        promise(chain.applied_twice() == 0, f"{what}: a gradient was used twice")
        promise(bool((chain.staleness <= chain.version).all()), f"{what}: a gradient came from the future")
    again = replay(run.trace, potential, kernel)
    promise(np.array_equal(again.draws, run.draws), f"{what}: the replay differs")
    return run


def check_bound(engine: Engine, *, steps: int) -> None:
    """The staleness bound holds; ``drop`` drops what is late and ``wait`` drops nothing.

    >>> import stalegrad as sg
    >>> check_bound(sg.engines.Inline(), steps=50)
    """
    potential, kernel = small_model(), _SPLITTING
    for policy in ("drop", "wait"):
        run = sample(
            potential, kernel, steps=steps, workers=4, max_staleness=2, policy=policy, seed=7, engine=engine,
            progress=False,
        )  # fmt: skip
        (chain,) = run.trace.chains
        largest = chain.updates().staleness.max()
        promise(largest <= 2, f"policy={policy!r}: an accepted gradient was {largest} versions old, the bound is 2")
        promise(policy == "drop" or bool(chain.accepted.all()), "policy='wait' dropped a gradient")
        again = replay(run.trace, potential, kernel)
        promise(np.array_equal(again.draws, run.draws), f"policy={policy!r}: the replay differs")


def check_step_size_per_chain(engine: Engine, *, steps: int) -> None:
    """Each server uses its own kernel.

    >>> import stalegrad as sg
    >>> check_step_size_per_chain(sg.engines.Inline(), steps=50)
    """
    potential = small_model()
    kernels = [SGLD(step_size=h) for h in (0.001, 0.003)]
    run = sample(potential, kernels, steps=steps, servers=2, workers=2, seed=7, engine=engine, progress=False)
    promise(bool((run.step_sizes[0] == 0.001).all() and (run.step_sizes[1] == 0.003).all()), "step sizes were mixed up")
    again = replay(run.trace, potential, kernels)
    promise(np.array_equal(again.draws, run.draws), "the replay differs with a kernel per server")


def check_shards(engine: Engine, *, steps: int) -> None:
    """Data in shards, plain and compensated: a run replays bit for bit, weights of gradients included.

    >>> import stalegrad as sg
    >>> check_shards(sg.engines.Inline(), steps=50)
    """
    potential, sizes = small_model(), [14, 10, 8, 8]
    compensated = Shards(sizes, linear=20.0, look_ahead="auto", tame=0.2)
    for architecture, kernel in ((Shards(sizes), _LANGEVIN), (compensated, _SPLITTING)):
        run = sample(
            potential, kernel, steps=steps, workers=4, seed=7, engine=engine, progress=False, architecture=architecture
        )
        promise(run.trace.architecture == architecture, "the trace does not say how the data were cut into shards")
        again = replay(run.trace, potential, kernel)
        promise(np.array_equal(again.draws, run.draws), "the replay differs with data in shards")
        whole = replay(run.trace, potential, kernel, architecture=StaleGradients())
        promise(not np.array_equal(whole.draws, run.draws), "shards make no difference")


def check_architectures(engine: Engine, *, steps: int) -> None:
    """Every architecture that any number of workers can make: a run replays bit for bit from what its trace says.

    >>> import stalegrad as sg
    >>> check_architectures(sg.engines.Inline(), steps=30)
    """
    potential = small_model()
    for architecture, kernel in (*((each, _LANGEVIN) for each in ARCHITECTURES), (FORESEEING, _SPLITTING)):
        run = sample(
            potential, kernel, steps=steps, workers=4, seed=7, engine=engine, progress=False, architecture=architecture
        )
        again = replay(run.trace, potential, kernel)
        promise(np.array_equal(again.draws, run.draws), f"{architecture}: the replay differs")
        plain = replay(run.trace, potential, kernel, architecture=StaleGradients())
        promise(run.draws.shape == plain.draws.shape, f"{architecture}: the draws have shape {run.draws.shape}")
        promise(not np.array_equal(run.draws, plain.draws), f"{architecture} makes no difference")


def check_variance_reduction(engine: Engine, *, steps: int) -> None:
    """Gradients with an anchor, that of the model or those that workers take: a run replays bit for bit.

    >>> import stalegrad as sg
    >>> check_variance_reduction(sg.engines.Inline(), steps=50)
    """
    plain, kernel = small_logistic(), SGLD(step_size=0.01)
    anchored = control_variates(plain, np.full(plain.size, 0.5))
    for model in (anchored, svrg(plain, refresh=7)):
        run = sample(model, kernel, steps=steps, servers=2, workers=3, seed=7, engine=engine, progress=False)
        again = replay(run.trace, model, kernel)
        promise(np.array_equal(again.draws, run.draws), f"the replay differs with {type(model).__name__}")
        other = replay(run.trace, plain, kernel)
        promise(not np.array_equal(other.draws, run.draws), f"{type(model).__name__} makes no difference")


def check_hostile_network(engine: Engine, *, steps: int) -> None:
    """Messages that get lost, late, repeated, reordered and damaged: the run completes and replays bit for bit.

    Of the engines whose messages travel, and that can be put over such a network (``Engine.over``).

    >>> import stalegrad as sg
    >>> check_hostile_network(sg.engines.Inline(), steps=30)  # nothing travels there: there is nothing to check
    """
    hostile = engine.over(HOSTILE)
    if hostile is None:
        return
    kernel, anchored = SGLD(step_size=0.01), svrg(small_logistic(), refresh=7)
    for model in (small_logistic(), anchored):  # workers of the second one must not compute anything twice
        run = sample(model, kernel, steps=steps, servers=2, workers=2, seed=7, engine=hostile, progress=False)
        what = f"{type(engine).__name__} over a hostile network"
        for chain in run.trace.chains:
            promise(chain.steps == steps, f"{what}: a chain made {chain.steps} updates")
            promise(chain.applied_twice() == 0, f"{what}: a gradient was used twice")
        again = replay(run.trace, model, kernel)
        promise(np.array_equal(again.draws, run.draws), f"{what}: the replay differs")
        promise(not run.events, f"{what}: a worker was taken for failed: {run.events}")
        timing = run.timing
        promise(timing is not None and timing.sent_again > 0, f"{what}: nothing was sent again")


def check_faults(engine: Engine, *, steps: int, folder: Path) -> None:
    """A worker that raises or sends NaN is reported and replaced; if all fail for good, the draws so far are kept.

    >>> import stalegrad as sg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_faults(sg.engines.Threads(), steps=60, folder=Path(folder))
    """
    if not engine.has_workers:
        return  # there are no workers to fail
    kernel = _SPLITTING
    potential = FaultyModel(folder / "calls", {20: "raise", 40: "nan"})
    # One worker, so that the run cannot end before its faults are reported.
    run = sample(potential, kernel, steps=steps, workers=1, seed=7, engine=engine, progress=False)
    kinds = sorted(event.kind for event in run.events)
    promise(kinds == ["raised", "refused"], f"faults were reported as {kinds}")
    details = next(event.details for event in run.events if event.kind == "raised")
    promise("injected fault" in details, f"the worker's own traceback is missing: {details}")
    promise(run.trace.chains[0].steps == steps, "the run did not complete after faults")
    again = replay(run.trace, small_model(), kernel)
    promise(np.array_equal(again.draws, run.draws), "the replay differs after faults")
    forever = FaultyModel(folder / "forever", dict.fromkeys(range(30, 10_000), "raise"))
    try:
        sample(forever, kernel, steps=steps, workers=2, seed=7, engine=engine, progress=False)
    except RunFailed as failure:
        made = failure.run.trace.chains[0].steps
        promise(0 < made < steps, f"{made} updates were kept of a run that failed half way")
        promise(len(failure.run.draws[0]) == made, "draws were lost")
        promise("injected fault" in str(failure), f"the failure does not say why: {failure}")
    else:
        promise(False, "workers that always fail did not end the run")
