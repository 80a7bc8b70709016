"""What every architecture must promise, as a check that anybody can run on their own: :func:`check_architecture`."""

import tempfile
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from stalegrad.engines import Inline
from stalegrad.engines.simulation import Exponential
from stalegrad.kernels import SGLD, Kernel
from stalegrad.potentials import Potential
from stalegrad.protocol.architectures import Architecture, architecture_from_table, architecture_table
from stalegrad.protocol.architectures.base import Place
from stalegrad.protocol.chain import Chain, Each
from stalegrad.protocol.trace import Trace
from stalegrad.runs.replay import replay
from stalegrad.runs.result import Run
from stalegrad.runs.resume import load, resume
from stalegrad.runs.sample import sample
from stalegrad.testing.promises import promise, small_model


def check_architecture(
    architecture: Architecture,
    kernel: Kernel | None = None,
    *,
    potential: Potential | None = None,
    servers: int = 1,
    workers: int = 3,
    engines: tuple[str, ...] = ("inline", "threads", "processes"),
    steps: int = 60,
) -> None:
    """Raise AssertionError, naming the promise, unless an architecture keeps all promises.

    A trace says who sent what when, and nothing of what the workers or the server made of it: that must follow from
    the architecture, so everything in it is a function of addresses and of the order of the updates.

    Args:
        architecture: to be checked.
        kernel: a sampler that it goes with; None for SGLD.
        potential: a model that it goes with; None for a small one.
        servers: S.
        workers: W.
        engines: on which runs are made and replayed.
        steps: of these runs.

    >>> import stalegrad as sg
    >>> check_architecture(sg.Downpour(n_push=2), engines=("inline",))
    """
    model = small_model() if potential is None else potential
    sampler = SGLD(step_size=2e-3) if kernel is None else kernel
    table = architecture_table(architecture)
    promise(architecture_from_table(table) == architecture, f"its table {table} gives another architecture")
    fitted = architecture.fitted(model, workers)
    promise(fitted.fitted(model, workers) == fitted, "fitted() changes what has been fitted")
    _check_chain(fitted, sampler, model, workers)
    shape: dict[str, Any] = {"servers": servers, "workers": workers}
    for engine in engines:
        run = sample(
            model, sampler, steps=steps, seed=7, engine=engine, architecture=architecture, progress=False, **shape
        )
        _check_replay(run, model, sampler, engine)
        _check_resume(architecture, model, sampler, engine, steps, shape)
    _check_repetitions(architecture, model, sampler, steps, shape)
    promise(run.trace.architecture == fitted, "the trace does not say with which architecture it was made")
    spent = run.trace.cost()
    promise(spent.gradients > 0 and spent.messages >= 0, f"a run of {steps} updates is said to have cost {spent}")


def _check_chain(architecture: Architecture, kernel: Kernel, potential: Potential, workers: int) -> None:
    """A chain that is saved and restored, or sent elsewhere, goes on with the same bits."""
    kernel = kernel.for_model(potential.n_data, potential.batch_size)
    start = potential.initial()[None]
    chain, restored = (architecture.chain(kernel, Place(start, 5, 0), workers) for _ in range(2))
    rng = np.random.Generator(np.random.Philox(key=3))
    answers = rng.standard_normal((20, 1, potential.size)).astype(potential.dtype)
    keep = Each(lambda *_: None)

    def go(one: Chain, first: int, last: int) -> None:
        for k in range(first, last):
            one.point_for(k % workers, one.point)
            one.apply(answers[k], k % workers, keep)

    go(chain, 0, 10)
    restored.restore(chain.version, chain.snapshot())
    sent = cloudpickle.loads(cloudpickle.dumps(chain))
    for other in (chain, restored, sent):
        go(other, 10, 20)
    promise(chain.version == 20, f"a chain that was given 20 answers has version {chain.version}")
    promise(np.array_equal(chain.position, restored.position), "a chain that was saved and restored goes on elsewhere")
    promise(np.array_equal(chain.position, sent.position), "a chain that went through a pickle goes on elsewhere")


def _check_replay(run: Run, potential: Potential, kernel: Kernel, engine: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        loaded = Trace.load(run.trace.save(Path(folder) / "trace.npz"))
    again = replay(loaded, potential, kernel)
    promise(np.array_equal(again.draws, run.draws), f"engine {engine}: the replay of a saved trace differs")


def _check_resume(
    architecture: Architecture, potential: Potential, kernel: Kernel, engine: str, steps: int, shape: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "run"
        sample(
            potential, kernel, steps=steps // 2, seed=7, engine=engine, architecture=architecture, store=store,
            progress=False, **shape,
        )  # fmt: skip
        resume(store, potential, kernel, steps=steps, progress=False)
        stored = load(store, potential)
        again = replay(stored.trace, potential, kernel)
        same = np.array_equal(again.draws, np.asarray(stored.draws[:]))
        promise(same, f"engine {engine}: the replay of a resumed run differs")


def _check_repetitions(
    architecture: Architecture, potential: Potential, kernel: Kernel, steps: int, shape: dict[str, Any]
) -> None:
    engine = Inline(compute=Exponential(1.0))
    common: dict[str, Any] = {
        "steps": steps,
        "seed": 7,
        "engine": engine,
        "architecture": architecture,
        "progress": False,
        **shape,
    }
    one = sample(potential, kernel, **common)
    many = sample(potential, kernel, repeats=3, **common)
    promise(np.array_equal(many.draws[0], one.draws), "repetition 0 is not the run itself")
    promise(not np.array_equal(many.draws[1], one.draws), "repetitions do not differ")
