"""The one place that puts the parts together: :func:`sample`, :func:`replay` and the :class:`Run` they return."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stalegrad.admission import POLICIES, Admission, Policy
from stalegrad.chain import Chain
from stalegrad.checks import finite_array, one_of, whole_number
from stalegrad.engines import Engine, Inline, Job
from stalegrad.engines.inline import execute
from stalegrad.errors import ArgumentError, GradientError, TraceError
from stalegrad.estimates import Estimate, estimate, running_average
from stalegrad.kernels import Kernel
from stalegrad.noise import MAX_CHAINS, MAX_REPEATS, MAX_UPDATES, MAX_WORKERS
from stalegrad.potentials import Potential
from stalegrad.server import Record
from stalegrad.trace import MAX_SEED, ChainTrace, Trace
from stalegrad.types import Array, IntArray

ENGINES: dict[str, Callable[[], Engine]] = {"inline": Inline}

TestFunction = Callable[[Array], Any]
Kernels = Kernel | Sequence[Kernel]


@dataclass(frozen=True, eq=False)
class Run:
    """What sampling gives.

    Args:
        draws: (chain, draw, parameter), or (repetition, chain, draw, parameter) when ``repeats`` was given.
        trace: all that is needed to repeat the run bit for bit.
    """

    draws: Array
    trace: Trace

    @property
    def staleness(self) -> tuple[IntArray, ...]:
        """τ_l of every gradient that reached each chain, accepted or dropped."""
        return tuple(chain.staleness for chain in self.trace.chains)

    @property
    def accepted(self) -> tuple[Array, ...]:
        """Whether each of those gradients updated its chain."""
        return tuple(chain.accepted for chain in self.trace.chains)

    @property
    def step_sizes(self) -> Array:
        """h of the update behind each draw, (chain, draw): the weights of averages."""
        kept = _kept(self.trace)
        return np.stack([_steps(chain)[kept] for chain in self.trace.chains])

    def evaluate(self, phi: TestFunction, *, batched: bool = False) -> Array:
        """φ of every draw, (…, chain, draw) and then the shape of φ's value.

        Args:
            phi: the test function of one draw θ, or of an array (draw, parameter) of them if ``batched``.
            batched: whether phi takes many draws at once, which is faster.
        """
        rows = self.draws.reshape(-1, self.draws.shape[-1])
        values = np.asarray(phi(rows)) if batched else np.array([phi(row) for row in rows])
        if values.shape[:1] != rows.shape[:1]:
            raise ArgumentError(
                "phi", phi, f"gave shape {values.shape} for {len(rows)} draws", "A batched phi returns one row a draw."
            )
        return values.reshape(self.draws.shape[:-1] + values.shape[1:])

    def estimate(self, phi: TestFunction, *, batched: bool = False) -> Estimate:
        """φ̂ = Σ_s (T_s/T) φ̂_s, where φ̂_s = Σ_l h_l φ(θ_l) / Σ_l h_l, with its Monte Carlo standard error.

        With ``repeats`` the estimate of every repetition is given.
        """
        values = self.evaluate(phi, batched=batched)
        if self._repeated:
            values = np.moveaxis(values, 0, 2)  # repetitions become part of φ's shape
        return estimate(values, step_sizes=self.step_sizes)

    def running(self, phi: TestFunction, *, batched: bool = False) -> Array:
        """φ̂_s at every draw of every chain: the estimate as the run went on."""
        values = self.evaluate(phi, batched=batched)
        axis = 2 if self._repeated else 1
        weights = self.step_sizes.reshape(self.step_sizes.shape + (1,) * (values.ndim - axis - 1))
        return running_average(values, np.broadcast_to(weights, values.shape), axis=axis)

    @property
    def _repeated(self) -> bool:
        return self.draws.ndim == 4

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.draws.shape))
        tau = np.concatenate(self.staleness)
        dropped = 1 - np.concatenate(self.accepted).mean()
        return f"Run(draws {shape}, mean staleness {tau.mean():.2f}, max {tau.max()}, dropped {dropped:.1%})"


def sample(
    potential: Potential,
    kernel: Kernels,
    *,
    steps: int,
    workers: int = 1,
    servers: int = 1,
    max_staleness: int | None = None,
    policy: Policy = "drop",
    seed: int = 0,
    engine: str | Engine = "inline",
    initial: Any = None,
    burn_in: int = 0,
    thin: int = 1,
    repeats: int | None = None,
) -> Run:
    """Sample a posterior with S servers, each with its own chain and W workers that send it stale gradients.

    Args:
        potential: the model, see :mod:`stalegrad.potentials`.
        kernel: the sampler; a sequence gives every server its own, with its own step size.
        steps: L, accepted updates of each chain.
        workers: W, workers of each server.
        servers: S, independent chains.
        max_staleness: τ, the bound on staleness; None for no bound.
        policy: at the bound ``"drop"`` the gradient (the paper's) or let workers ``"wait"`` so that it holds.
        seed: of everything random; the same seed gives the same bits.
        engine: ``"inline"``, or an engine object.
        initial: θ_0, (n,) for all chains or (S, n); None for the model's own start.
        burn_in: updates of each chain that are not kept.
        thin: keep every thin-th update after that.
        repeats: run R independent repetitions of the same trace in one pass (inline engine only).

    Returns:
        A :class:`Run`.
    """
    _check_potential(potential)
    steps = whole_number("steps", steps, least=1, most=MAX_UPDATES)
    workers = whole_number("workers", workers, least=1, most=MAX_WORKERS)
    servers = whole_number("servers", servers, least=1, most=MAX_CHAINS)
    seed = whole_number("seed", seed, most=MAX_SEED)
    max_staleness = None if max_staleness is None else whole_number("max_staleness", max_staleness)
    one_of("policy", policy, POLICIES)
    Admission(max_staleness, policy)  # refuses a bound that cannot be used, before anything runs
    kernels = _kernels(kernel, servers, potential)
    chosen = _engine(engine)
    if repeats is not None and not isinstance(chosen, Inline):
        raise ArgumentError("repeats", repeats, f"does not go with engine {engine!r}", "Use engine='inline'.")
    start, given = _initial(initial, servers, potential)
    recorder = Recorder(repeats, servers, steps, burn_in, thin, potential)
    rows = recorder.rows
    job = Job(
        potential=potential,
        chain=lambda s: Chain(kernels[s], np.repeat(start[s : s + 1], rows, axis=0), seed, s),
        record=recorder.of,
        steps=steps,
        workers=workers,
        servers=servers,
        max_staleness=max_staleness,
        policy=policy,
        seed=seed,
    )
    trace = chosen.run(job)
    about = {
        "kernels": [k.describe() for k in kernels],
        "workers": workers, "max_staleness": max_staleness, "policy": policy,
    }  # fmt: skip
    kept = Trace(trace.chains, seed=seed, burn_in=burn_in, thin=thin, initial=given, about=about)
    return Run(recorder.draws, kept)


def replay(
    trace: Trace,
    potential: Potential,
    kernel: Kernels,
    *,
    seed: int | None = None,
    initial: Any = None,
    burn_in: int | None = None,
    thin: int | None = None,
    repeats: int | None = None,
    first_repeat: int = 0,
) -> Run:
    """Execute a trace in this process: with the model and kernel of the run it came from, the same draws bit for bit.

    Args:
        trace: from ``run.trace``, :func:`stalegrad.simulate`, :meth:`Trace.load` or the constructors of :class:`Trace`.
        potential: the model.
        kernel: the sampler, or one per chain. Step sizes that the trace has recorded are used as they were.
        seed: in place of the trace's own.
        initial: θ_0 in place of the trace's own.
        burn_in: in place of the trace's own.
        thin: in place of the trace's own.
        repeats: run R independent repetitions in one pass.
        first_repeat: number of the first repetition; repetition 0 is the run itself.
    """
    if not isinstance(trace, Trace) or not trace.chains:
        raise ArgumentError("trace", trace, "is not a trace", "Give run.trace, sg.simulate(...) or sg.Trace.load(...).")
    _check_potential(potential)
    servers = len(trace)
    lengths = {chain.steps for chain in trace.chains}
    if len(lengths) != 1:
        raise TraceError(f"the chains have different numbers of updates: {sorted(lengths)}")
    seed = trace.seed if seed is None else whole_number("seed", seed, most=MAX_SEED)
    burn_in = trace.burn_in if burn_in is None else burn_in
    thin = trace.thin if thin is None else thin
    first_repeat = whole_number("first_repeat", first_repeat, most=MAX_REPEATS - 1)
    kernels = _kernels(kernel, servers, potential)
    start, given = _initial(trace.initial if initial is None else initial, servers, potential)
    recorder = Recorder(repeats, servers, lengths.pop(), burn_in, thin, potential)
    chains = []
    for s, chain_trace in enumerate(trace.chains):
        chain = Chain(kernels[s], np.repeat(start[s : s + 1], recorder.rows, axis=0), seed, s, first_repeat)
        chains.append(execute(chain_trace, potential, chain, recorder.of(s)))
    again = Trace(tuple(chains), seed=seed, burn_in=burn_in, thin=thin, initial=given, about=trace.about)
    return Run(recorder.draws, again)


class Recorder:
    """Keeps the draws of all chains in one array that is allocated before the run starts."""

    def __init__(
        self, repeats: int | None, servers: int, steps: int, burn_in: int, thin: int, potential: Potential
    ) -> None:
        self.burn_in = whole_number("burn_in", burn_in)
        self.thin = whole_number("thin", thin, least=1)
        self.rows = 1 if repeats is None else whole_number("repeats", repeats, least=1, most=MAX_REPEATS)
        kept = max(0, steps - self.burn_in) // self.thin
        if kept == 0:
            problem = f"and thin={thin} leave no draw of {steps} steps"
            raise ArgumentError("burn_in", burn_in, problem, "Keep at least one: burn_in + thin ≤ steps.")
        self._draws = np.empty((self.rows, servers, kept, potential.size), potential.dtype)
        self._squeeze = repeats is None

    @property
    def draws(self) -> Array:
        """(chain, draw, parameter), with repetitions first where they were asked for.

        No gradient is taken at the last points, so nobody else would notice that they overflowed. NaN and infinity stay
        in θ once they are there: the last draw of a chain tells for all of them.
        """
        diverged = ~np.isfinite(self._draws[:, :, -1]).all(axis=(0, 2))
        if diverged.any():
            raise GradientError(
                f"chain {diverged.argmax()} has diverged: its last draw is NaN or infinite. Use a smaller step_size; "
                "a stale chain is stable only while step_size · largest curvature · (staleness + ½) stays below about 1"
            )
        return self._draws[0] if self._squeeze else self._draws

    def of(self, server: int) -> Record:
        """The recorder of one server."""
        draws, burn_in, thin, kept = self._draws[:, server], self.burn_in, self.thin, self._draws.shape[2]

        def record(update: int, position: Array) -> None:
            index, rest = divmod(update + 1 - burn_in, thin)
            if rest == 0 and 0 < index <= kept:
                draws[:, index - 1] = position

        return record


def _kept(trace: Trace) -> slice:
    """Which updates became draws."""
    steps = trace.chains[0].steps
    kept = max(0, steps - trace.burn_in) // trace.thin
    return slice(trace.burn_in + trace.thin - 1, trace.burn_in + kept * trace.thin, trace.thin)


def _steps(chain: ChainTrace) -> Array:
    """The step sizes of the accepted updates."""
    assert chain.step_size is not None, "an executed trace has step sizes"
    used: Array = chain.step_size[np.asarray(chain.accepted, bool)]
    return used


def _check_potential(potential: Any) -> None:
    if not isinstance(potential, Potential):
        raise ArgumentError(
            "potential", potential, f"is a {type(potential).__name__}, not a Potential",
            "Use one of sg.potentials, such as Logistic, or wrap a function with sg.potentials.from_gradient.",
        )  # fmt: skip


def _kernels(kernel: Any, servers: int, potential: Potential) -> list[Kernel]:
    kernels = [kernel] * servers if isinstance(kernel, Kernel) else list(kernel) if isinstance(kernel, Sequence) else []
    if len(kernels) != servers or not all(isinstance(k, Kernel) for k in kernels):
        remedy = f"Give one kernel, such as sg.SGLD(step_size=1e-3), or a sequence of {servers}, one per server."
        raise ArgumentError("kernel", kernel, "is neither a kernel nor one per server", remedy)
    return [k.for_model(potential.n_data, potential.batch_size) for k in kernels]


def _engine(engine: Any) -> Engine:
    if isinstance(engine, str):
        return ENGINES[one_of("engine", engine, tuple(ENGINES))]()
    if not hasattr(engine, "run") or isinstance(engine, type):
        raise ArgumentError("engine", engine, "is not an engine", f"Give one of {', '.join(map(repr, ENGINES))}.")
    chosen: Engine = engine
    return chosen


def _initial(initial: Any, servers: int, potential: Potential) -> tuple[Array, Array | None]:
    """θ_0 of every chain, and the same again if the user gave it."""
    if initial is None:
        return np.repeat(potential.initial()[None], servers, axis=0), None
    array = finite_array("initial", initial, potential.dtype)
    if array.shape not in ((potential.size,), (servers, potential.size)):
        raise ArgumentError(
            "initial", initial, f"has shape {array.shape}",
            f"Give shape ({potential.size},), or ({servers}, {potential.size}) for a start per chain.",
        )  # fmt: skip
    array = np.array(np.broadcast_to(array, (servers, potential.size)))
    return array, array
