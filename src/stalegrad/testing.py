"""What every engine must promise, as checks that anybody can run on their own: :func:`check_engine`.

The strongest one is replay: run for real, execute the recorded trace inline, compare bits.
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad.architectures import Architecture, Downpour, Elastic, StaleGradients, WorkerNoise
from stalegrad.engines import Engine
from stalegrad.kernels import BAOAB, PSGLD, SGHMC, SGLD, SGNHT, SGRLD, UBU, Kernel
from stalegrad.metrics import Diagonal
from stalegrad.potentials import GaussianMean, Logistic, Potential, control_variates, svrg
from stalegrad.result import Run, RunFailed
from stalegrad.run import replay, sample
from stalegrad.types import Array, IntArray

ARCHITECTURES: tuple[Architecture, ...] = (
    Downpour(n_push=2),
    Downpour(n_push=2, n_fetch=6),
    WorkerNoise(),
    Elastic(rho=5.0, alpha=0.5),
)


def _inverse(theta: Any) -> Any:
    return 1 + theta * theta / (1 + theta * theta)


def _divergence(theta: Any) -> Any:
    return 2 * theta / ((1 + theta * theta) * (1 + theta * theta))


KERNELS: tuple[Kernel, ...] = (
    SGHMC(step_size=0.02, friction=5.0, integrator="splitting"),
    SGLD(step_size=0.002),
    SGHMC(step_size=0.02, friction=5.0),
    SGNHT(step_size=0.02, noise=2.0),
    PSGLD(step_size=0.002),
    BAOAB(step_size=0.02, friction=5.0),
    UBU(step_size=0.02, friction=5.0),
    SGRLD(step_size=0.002, metric=Diagonal(_inverse, _divergence)),
)


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
    """
    for s in servers:
        for w in workers:
            check_replay(engine, KERNELS[(s + w) % len(KERNELS)], servers=s, workers=w, steps=steps)
    check_bound(engine, steps=steps)
    check_own_step_sizes(engine, steps=steps)
    check_shards(engine, steps=steps)
    check_architectures(engine, steps=steps)
    check_variance_reduction(engine, steps=steps)
    with tempfile.TemporaryDirectory() as own:
        check_faults(engine, steps=steps, folder=folder or Path(own))


def check_replay(engine: Engine, kernel: Kernel, *, servers: int, workers: int, steps: int) -> Run:
    """A run replays bit for bit, has all its updates and uses no gradient twice."""
    potential = small_model()
    run = sample(
        potential, kernel, steps=steps, servers=servers, workers=workers, seed=7, engine=engine, progress=False
    )
    what = f"{type(engine).__name__} with {servers} servers of {workers} workers"
    _promise(run.draws.shape == (servers, steps, potential.size), f"{what}: the draws have shape {run.draws.shape}")
    for chain in run.trace.chains:
        _promise(chain.steps == steps, f"{what}: a chain made {chain.steps} updates")
        _promise(chain.applied_twice() == 0, f"{what}: a gradient was used twice")
        _promise(bool((chain.staleness <= chain.version).all()), f"{what}: a gradient came from the future")
    again = replay(run.trace, potential, kernel)
    _promise(np.array_equal(again.draws, run.draws), f"{what}: the replay differs")
    return run


def check_bound(engine: Engine, *, steps: int) -> None:
    """The staleness bound holds; ``drop`` drops what is late and ``wait`` drops nothing."""
    potential, kernel = small_model(), KERNELS[0]
    for policy in ("drop", "wait"):
        run = sample(
            potential, kernel, steps=steps, workers=4, max_staleness=2, policy=policy, seed=7, engine=engine,
            progress=False,
        )  # fmt: skip
        (chain,) = run.trace.chains
        largest = chain.updates().staleness.max()
        _promise(largest <= 2, f"policy={policy!r}: an accepted gradient was {largest} versions old, the bound is 2")
        _promise(policy == "drop" or bool(chain.accepted.all()), "policy='wait' dropped a gradient")
        again = replay(run.trace, potential, kernel)
        _promise(np.array_equal(again.draws, run.draws), f"policy={policy!r}: the replay differs")


def check_own_step_sizes(engine: Engine, *, steps: int) -> None:
    """Each server uses its own kernel."""
    potential = small_model()
    kernels = [SGLD(step_size=h) for h in (0.001, 0.003)]
    run = sample(potential, kernels, steps=steps, servers=2, workers=2, seed=7, engine=engine, progress=False)
    _promise(
        bool((run.step_sizes[0] == 0.001).all() and (run.step_sizes[1] == 0.003).all()), "step sizes were mixed up"
    )
    again = replay(run.trace, potential, kernels)
    _promise(np.array_equal(again.draws, run.draws), "the replay differs with a kernel per server")


def check_shards(engine: Engine, *, steps: int) -> None:
    """Data in shards: a run replays bit for bit, weights of gradients included."""
    potential, kernel, sizes = small_model(), KERNELS[1], [14, 10, 8, 8]
    run = sample(potential, kernel, steps=steps, workers=4, shard=sizes, seed=7, engine=engine, progress=False)
    _promise(run.trace.about["shards"] == sizes, "the trace does not say how the data were cut into shards")
    again = replay(run.trace, potential, kernel)
    _promise(np.array_equal(again.draws, run.draws), "the replay differs with data in shards")
    whole = replay(run.trace, potential, kernel, shard=False)
    _promise(not np.array_equal(whole.draws, run.draws), "shards make no difference")


def check_architectures(engine: Engine, *, steps: int) -> None:
    """Every architecture that any number of workers can make: a run replays bit for bit from what its trace says."""
    potential, kernel = small_model(), KERNELS[1]
    for architecture in ARCHITECTURES:
        run = sample(
            potential, kernel, steps=steps, workers=4, seed=7, engine=engine, progress=False, architecture=architecture
        )
        again = replay(run.trace, potential, kernel)
        _promise(np.array_equal(again.draws, run.draws), f"{architecture}: the replay differs")
        plain = replay(run.trace, potential, kernel, architecture=StaleGradients())
        _promise(run.draws.shape == plain.draws.shape, f"{architecture}: the draws have shape {run.draws.shape}")
        _promise(not np.array_equal(run.draws, plain.draws), f"{architecture} makes no difference")


def check_variance_reduction(engine: Engine, *, steps: int) -> None:
    """Gradients with an anchor, that of the model or those that workers take: a run replays bit for bit."""
    plain, kernel = small_logistic(), SGLD(step_size=0.01)
    anchored = control_variates(plain, np.full(plain.size, 0.5))
    for model in (anchored, svrg(plain, refresh=7)):
        run = sample(model, kernel, steps=steps, servers=2, workers=3, seed=7, engine=engine, progress=False)
        again = replay(run.trace, model, kernel)
        _promise(np.array_equal(again.draws, run.draws), f"the replay differs with {type(model).__name__}")
        other = replay(run.trace, plain, kernel)
        _promise(not np.array_equal(other.draws, run.draws), f"{type(model).__name__} makes no difference")


def check_faults(engine: Engine, *, steps: int, folder: Path) -> None:
    """A worker that raises or sends NaN is reported and replaced; if all fail for good, the draws so far are kept."""
    if type(engine).__name__ == "Inline":
        return  # there are no workers to fail
    kernel = KERNELS[0]
    potential = FaultyModel(folder / "calls", {20: "raise", 40: "nan"})
    run = sample(potential, kernel, steps=steps, workers=2, seed=7, engine=engine, progress=False)
    kinds = sorted(event.kind for event in run.events)
    _promise(kinds == ["raised", "refused"], f"faults were reported as {kinds}")
    told = next(event.details for event in run.events if event.kind == "raised")
    _promise("injected fault" in told, f"the worker's own traceback is missing: {told}")
    _promise(run.trace.chains[0].steps == steps, "the run did not complete after faults")
    again = replay(run.trace, small_model(), kernel)
    _promise(np.array_equal(again.draws, run.draws), "the replay differs after faults")
    forever = FaultyModel(folder / "forever", dict.fromkeys(range(30, 10_000), "raise"))
    try:
        sample(forever, kernel, steps=steps, workers=2, seed=7, engine=engine, progress=False)
    except RunFailed as failure:
        made = failure.run.trace.chains[0].steps
        _promise(0 < made < steps, f"{made} updates were kept of a run that failed half way")
        _promise(len(failure.run.draws[0]) == made, "draws were lost")
        _promise("injected fault" in str(failure), f"the failure does not say why: {failure}")
    else:
        _promise(False, "workers that always fail did not end the run")


def small_model() -> GaussianMean:
    """Forty data in five dimensions, in minibatches of four."""
    data = np.random.Generator(np.random.Philox(key=1)).standard_normal((40, 5))
    return GaussianMean(data, batch_size=4)


def small_logistic() -> Logistic:
    """A logistic regression of forty data on three features, in minibatches of four."""
    rng = np.random.Generator(np.random.Philox(key=1))
    return Logistic(rng.standard_normal((40, 3)), rng.integers(0, 2, 40), batch_size=4)


class FaultyModel(Potential):
    """:func:`small_model` with faults at given calls, counted over all workers and processes.

    Args:
        counter: a file whose length counts the calls.
        faults: call number to ``"raise"``, ``"nan"``, ``"kill"`` or ``"hang"``.
        seconds: how long a good gradient takes.
    """

    def __init__(self, counter: Path, faults: Mapping[int, str], seconds: float = 0.001) -> None:
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)
        self._model, self._counter, self._faults, self._seconds = model, counter, dict(faults), seconds

    def gradient(self, theta: Array, indices: IntArray) -> Array:
        """The model's gradient, or a fault."""
        time.sleep(self._seconds)
        file = os.open(self._counter, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(file, b".")
            call = os.lseek(file, 0, os.SEEK_CUR)
        finally:
            os.close(file)
        result: Array = _FAULTS[self._faults.get(call, "none")](self._model.gradient(theta, indices))
        return result


def _raise(gradient: Array) -> Array:
    raise RuntimeError("injected fault")


def _kill(gradient: Array) -> Array:
    os.kill(os.getpid(), signal.SIGKILL)
    return gradient


def _hang(gradient: Array) -> Array:
    time.sleep(3600)
    return gradient


_FAULTS: dict[str, Callable[[Array], Any]] = {
    "none": lambda gradient: gradient,
    "nan": lambda gradient: gradient * np.float32(np.nan),
    "raise": _raise,
    "kill": _kill,
    "hang": _hang,
}


def _promise(kept: bool, otherwise: str) -> None:
    if not kept:
        raise AssertionError(otherwise)
