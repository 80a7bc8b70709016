"""Every malformed argument is refused before anything runs, by name, with its value and with what to do instead."""

import pickle

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Inline, Processes, Threads
from stalegrad.engines.simulation import Constant

nan, inf = float("nan"), float("inf")


def never(theta, indices):
    raise AssertionError("a gradient was computed before all arguments were checked")


MODEL = sg.potentials.from_gradient(never, size=3, n_data=10, batch_size=2)
KERNEL = sg.SGLD(step_size=1e-3)
TRACE = sg.Trace.constant_staleness(1, 10, chains=2)


def sample(**changes):
    arguments = {"potential": MODEL, "kernel": KERNEL, "steps": 10, "progress": False}
    return lambda: sg.sample(**arguments | changes)


def replay(**changes):
    return lambda: sg.replay(**{"trace": TRACE, "potential": MODEL, "kernel": KERNEL} | changes)


def simulate(**changes):
    return lambda: sg.simulate(**{"workers": 2, "steps": 10} | changes)


def whole_numbers(make, name, least, most=None, *, optional=False):
    """What every whole number refuses; None as well, unless it stands for something."""
    wrong = [least - 1, -(10**30), 2.5, 3.0, nan, True, np.True_, "3", [3], 2j]
    wrong += [] if optional else [None]
    wrong += [] if most is None else [most + 1]
    remedy = f"Give a whole number ≥ {least}" if most is None else f"Give a whole number from {least} to {most}"
    return [(make(**{name: value}), name, value, remedy) for value in wrong]


def real_numbers(make, name, bound, wrong):
    return [(make(value), name, value, f"Give a finite number {bound}") for value in [*wrong, nan, inf, True, "1", 2j]]


NUMBERS = [
    *whole_numbers(sample, "steps", 1, 2**48),
    *whole_numbers(sample, "workers", 1, 2**16),
    *whole_numbers(sample, "servers", 1, 2**16),
    *whole_numbers(sample, "seed", 0, 2**64 - 1),
    *whole_numbers(sample, "max_staleness", 0, optional=True),
    *whole_numbers(sample, "burn_in", 0, optional=True),
    *whole_numbers(sample, "thin", 1),
    *whole_numbers(sample, "repeats", 1, 2**16, optional=True),
    *whole_numbers(replay, "seed", 0, 2**64 - 1, optional=True),
    *whole_numbers(replay, "first_repeat", 0, 2**16 - 1),
    *whole_numbers(replay, "repeats", 1, 2**16, optional=True),
    *whole_numbers(simulate, "workers", 1, 2**16),
    *whole_numbers(simulate, "steps", 1),
    *whole_numbers(simulate, "servers", 1, 2**16),
    *whole_numbers(simulate, "seed", 0, 2**64 - 1),
    *whole_numbers(simulate, "max_staleness", 0, optional=True),
    *whole_numbers(lambda staleness: lambda: sg.Trace.constant_staleness(staleness, 5), "staleness", 0),
    *whole_numbers(lambda steps: lambda: sg.Trace.constant_staleness(1, steps), "steps", 1),
    *whole_numbers(lambda chains: lambda: sg.Trace.constant_staleness(1, 5, chains=chains), "chains", 1),
    *whole_numbers(lambda seed: lambda: sg.Trace.constant_staleness(1, 5, seed=seed), "seed", 0, 2**64 - 1),
    *whole_numbers(lambda seed: lambda: sg.Trace.from_staleness([1, 2], seed=seed), "seed", 0, 2**64 - 1),
    *whole_numbers(lambda steps: lambda: sg.Trace.random_staleness([1.0], steps), "steps", 1),
    *whole_numbers(lambda seed: lambda: sg.Trace.random_staleness([1.0], 5, seed=seed), "seed", 0, 2**64 - 1),
    *whole_numbers(lambda period: lambda: sg.schedules.Cyclical(0.1, period), "period", 1),
    *whole_numbers(lambda n_data: lambda: sg.SGHMC.from_sgd(0.1, 0.9, n_data), "n_data", 1),
    *real_numbers(lambda v: lambda: sg.SGLD(step_size=v), "step_size", "> 0", [0, -1.0, None, [0.1], 10**400]),
    *real_numbers(lambda v: lambda: sg.schedules.Constant(v), "step_size", "> 0", [0, -1.0, None]),
    *real_numbers(lambda v: lambda: sg.SGLD(step_size=0.1, temperature=v), "temperature", "≥ 0", [-1e-9, None]),
    *real_numbers(lambda v: lambda: sg.SGHMC(step_size=0.1, friction=v), "friction", "> 0", [0, -1, None]),
    *real_numbers(lambda v: lambda: sg.SGNHT(step_size=0.1, noise=v), "noise", "≥ 0", [-1, None]),
    *real_numbers(lambda v: lambda: sg.PSGLD(step_size=0.1, floor=v), "floor", "> 0", [0, -1, None]),
    *real_numbers(lambda v: lambda: sg.SGHMC.from_sgd(v, 0.9, 100), "lr", "> 0", [0, -1, None]),
    *real_numbers(lambda v: lambda: sg.SGHMC.from_sgd(0.1, v, 100), "momentum", "≥ 0", [-0.1, None]),
    *real_numbers(lambda v: lambda: sg.schedules.Polynomial(v), "a", "> 0", [0, -1, None]),
    *real_numbers(lambda v: lambda: sg.schedules.Polynomial(1, b=v), "b", "> 0", [0, -1, None]),
    *real_numbers(lambda v: lambda: sg.schedules.Polynomial(1, gamma=v), "gamma", "≥ 0", [-1, None]),
    *real_numbers(lambda v: lambda: sg.schedules.Inverse(v), "base", "> 0", [0, -1, None]),
    *real_numbers(lambda v: lambda: sg.schedules.Inverse(1, gamma=v), "gamma", "≥ 0", [-1, None]),
    *real_numbers(lambda v: lambda: sg.schedules.Inverse(1, power=v), "power", "≥ 0", [-1, None]),
    *real_numbers(lambda v: lambda: sg.schedules.Cyclical(v, 10), "peak", "> 0", [0, -1, None]),
    *real_numbers(lambda v: lambda: sg.schedules.Cyclical(1, 10, v), "floor", "≥ 0", [-1, None]),
    *real_numbers(lambda v: lambda: sg.Exponential(v), "mean", "> 0", [0, -1, None]),
    *real_numbers(lambda v: lambda: sg.LogNormal(v), "mean", "> 0", [0, -1, None]),
    *real_numbers(lambda v: lambda: sg.LogNormal(1, v), "variation", "≥ 0", [-1, None]),
    *real_numbers(lambda v: lambda: Constant(v), "value", "≥ 0", [-1, None]),
    *real_numbers(lambda v: lambda: sg.Exponential(1.0, factors=[1.0, v]), "factors", "> 0", [0, -1, None]),
    *real_numbers(lambda v: lambda: sg.Network(latency=v), "latency", "≥ 0", [-1, None]),
    *real_numbers(lambda v: lambda: sg.Network(message_bytes=v), "message_bytes", "≥ 0", [-1, None]),
    *real_numbers(lambda v: lambda: sg.Network(gradient_bytes=v), "gradient_bytes", "≥ 0", [-1]),
    *[case for case in real_numbers(lambda v: lambda: sg.Network(bandwidth=v), "bandwidth", "> 0", [0, -1, None])
      if case[2] != inf],
    *real_numbers(lambda v: simulate(compute=v), "compute", "≥ 0", [-1, None]),
    *real_numbers(lambda v: simulate(update=v), "update", "≥ 0", [-1, None]),
    *real_numbers(lambda v: simulate(network=v), "network", "≥ 0", [-1]),
    *real_numbers(lambda v: lambda: sg.Trace.random_staleness([0.5, v], 5), "probabilities", "≥ 0", [-0.5, None]),
    *real_numbers(lambda v: lambda: Inline(compute=v), "compute", "≥ 0", [-1]),
    *real_numbers(lambda v: lambda: Inline(update=v), "update", "≥ 0", [-1, None]),
    *real_numbers(lambda v: lambda: Threads(patience=v), "patience", "> 0", [0, -1]),
    *whole_numbers(lambda restarts: lambda: Threads(restarts=restarts), "restarts", 0),
    *whole_numbers(lambda threads: lambda: Processes(threads=threads), "threads", 1),
]  # fmt: skip

OTHERS = [
    (sample(potential=never), "potential", never, "wrap a function with sg.potentials.from_gradient"),
    (sample(potential=None), "potential", None, "Use one of sg.potentials"),
    (replay(potential=np.zeros(3)), "potential", np.zeros(3), "Use one of sg.potentials"),
    (sample(kernel=sg.SGLD), "kernel", sg.SGLD, "such as sg.SGLD(step_size=1e-3)"),
    (sample(kernel=1e-3), "kernel", 1e-3, "Give one kernel"),
    (sample(kernel="SGLD"), "kernel", "SGLD", "Give one kernel"),
    (sample(kernel=[]), "kernel", [], "or a sequence of 1, one per server"),
    (sample(kernel=[KERNEL, KERNEL]), "kernel", [KERNEL, KERNEL], "or a sequence of 1, one per server"),
    (sample(kernel=[KERNEL], servers=2), "kernel", [KERNEL], "or a sequence of 2, one per server"),
    (sample(kernel=[KERNEL, None], servers=2), "kernel", [KERNEL, None], "or a sequence of 2"),
    (replay(kernel=[KERNEL] * 3), "kernel", [KERNEL] * 3, "or a sequence of 2"),
    (sample(engine="mpirun"), "engine", "mpirun", "Give one of: 'threads'"),
    (sample(engine=7), "engine", 7, "Give one of 'threads'"),
    (sample(engine=Inline), "engine", Inline, "Give one of 'threads'"),
    (sample(engine="threads", repeats=3), "repeats", 3, "Use engine='inline'"),
    (sample(policy="forget"), "policy", "forget", "Give one of: 'drop', 'wait'"),
    (sample(policy=None), "policy", None, "Give one of: 'drop', 'wait'"),
    (sample(policy="wait"), "max_staleness", None, "Give a bound, or policy='drop'"),
    (simulate(policy="forget"), "policy", "forget", "Give one of: 'drop', 'wait'"),
    (simulate(policy="wait"), "max_staleness", None, "Give a bound, or policy='drop'"),
    (sample(initial=[0, nan, 0]), "initial", [0, nan, 0], "every entry must be finite in float32"),
    (sample(initial=[0, 1e300, 0]), "initial", [0, 1e300, 0], "every entry must be finite in float32"),
    (sample(initial=[0, 1]), "initial", [0, 1], "Give shape (3,), or (1, 3) for a start per chain"),
    (sample(initial=0.0), "initial", 0.0, "Give shape (3,)"),
    (sample(initial=np.zeros((3, 3)), servers=2), "initial", np.zeros((3, 3)), "or (2, 3) for a start per chain"),
    (sample(initial="zero"), "initial", "zero", "Give an array of real numbers"),
    (sample(initial=[[0], [0, 0]]), "initial", [[0], [0, 0]], "Give an array of real numbers"),
    (replay(initial=[0, 1]), "initial", [0, 1], "Give shape (3,), or (2, 3)"),
    (sample(burn_in=10), "burn_in", 10, "Keep at least one: burn_in + thin ≤ steps"),
    (sample(burn_in=50), "burn_in", 50, "Keep at least one: burn_in + thin ≤ steps"),
    (sample(thin=11), "burn_in", 0, "Keep at least one: burn_in + thin ≤ steps"),
    (replay(burn_in=10), "burn_in", 10, "Keep at least one"),
    (replay(repeats=2, first_repeat=2**16 - 1), "repeats", 2, "from 1 to 1"),
    (replay(trace="run.npz"), "trace", "run.npz", "sg.Trace.load(...)"),
    (replay(trace=None), "trace", None, "Give run.trace"),
    (replay(trace=TRACE.chains[0]), "trace", TRACE.chains[0], "Give run.trace"),
    (simulate(compute=sg.Exponential(1, factors=[1, 2, 3])), "factors", (1.0, 2.0, 3.0), "Give one factor per worker"),
    (simulate(compute=sg.Exponential(1, factors={2: 5})), "factors", 2, "from 0 to 1"),
    (simulate(compute=sg.Exponential(1, factors={"w": 5})), "factors", "w", "from 0 to 1"),
    (lambda: sg.Exponential(1, factors=3.0), "factors", 3.0, "or a mapping from worker to factor"),
    (lambda: sg.SGLD(step_size=lambda step: 0.0), "step_size", None, "maps l = 0, 1, … to step sizes > 0"),
    (lambda: sg.SGLD(step_size=lambda step: "h"), "step_size", None, "maps l = 0, 1, … to step sizes > 0"),
    (lambda: sg.SGLD(step_size=lambda step: None), "step_size", None, "maps l = 0, 1, … to step sizes > 0"),
    (lambda: sg.SGLD(step_size=lambda step: np.zeros(2)), "step_size", None, "maps l = 0, 1, … to step sizes > 0"),
    (lambda: sg.SGHMC(step_size=0.1, friction=20.0), "friction", 20.0, "Give friction < 20"),
    (lambda: sg.SGHMC(step_size=0.1, friction=1, integrator="leap"), "integrator", "leap", "'euler', 'splitting'"),
    (lambda: sg.SGNHT(step_size=0.1, integrator="leap"), "integrator", "leap", "'euler', 'splitting'"),
    (lambda: sg.SGNHT(step_size=0.1, thermostats="two"), "thermostats", "two", "'shared', 'each'"),
    (lambda: sg.SGHMC.from_sgd(0.1, 1.0, 100), "momentum", 1.0, "Give a number in [0, 1), such as 0.9"),
    (lambda: sg.PSGLD(step_size=0.1, decay=1.1), "decay", 1.1, "Give α in [0, 1], such as 0.99"),
    (lambda: sg.PSGLD(step_size=0.1, n_data=0), "n_data", 0, "Give a whole number ≥ 1"),
    (lambda: sg.Trace.from_staleness([0.0, 1.0]), "staleness", [0.0, 1.0], "Give shape (steps,) or (chain, steps)"),
    (lambda: sg.Trace.from_staleness([0, -1]), "staleness", [0, -1], "Give shape (steps,)"),
    (lambda: sg.Trace.from_staleness([True]), "staleness", [True], "Give shape (steps,)"),
    (lambda: sg.Trace.from_staleness([]), "staleness", [], "Give shape (steps,)"),
    (lambda: sg.Trace.from_staleness(3), "staleness", 3, "Give shape (steps,)"),
    (lambda: sg.Trace.from_staleness([[0, 1], [0]]), "staleness", [[0, 1], [0]], "Give shape (steps,)"),
    (lambda: sg.Trace.from_staleness("012"), "staleness", "012", "Give shape (steps,)"),
    (lambda: sg.Trace.from_staleness(None), "staleness", None, "Give shape (steps,)"),
    (lambda: sg.Trace.random_staleness([], 5), "probabilities", [], "Give the weights of τ = 0, 1, 2, …"),
    (lambda: sg.Trace.random_staleness([0, 0], 5), "probabilities", [0, 0], "Give the weights of τ = 0, 1, 2, …"),
    (lambda: sg.Trace.random_staleness(0.5, 5), "probabilities", 0.5, "Give the weights of τ = 0, 1, 2, …"),
    (lambda: sg.potentials.from_gradient(3, 1, 1), "gradient", 3, "Give a function of (theta, indices)"),
    (lambda: sg.potentials.from_gradient(never, 0, 1), "size", 0, "Give a whole number ≥ 1"),
    (lambda: sg.potentials.GaussianMean([1.0, nan]), "data", [1.0, nan], "Clean the data"),
    (lambda: sg.potentials.GaussianMean([]), "data", [], "Give an array (N,) or (N, n), not empty"),
    (lambda: sg.potentials.GaussianMean([1.0], batch_size=2), "batch_size", 2, "from 1 to 1"),
    (lambda: sg.potentials.GaussianMean([1.0], scheme="all"), "scheme", "all", "'subset', 'replacement', 'reshuffle'"),
    (lambda: sg.potentials.GaussianMean([1.0], dtype=int), "dtype", int, "Give np.float32 or np.float64"),
]


def _label(case):
    return f"{case[1]}={case[2]!r}".partition(" at 0x")[0][:40]


@pytest.mark.parametrize(("call", "name", "value", "remedy"), NUMBERS + OTHERS, ids=map(_label, NUMBERS + OTHERS))
def test_refused_before_anything_runs(call, name, value, remedy):
    with pytest.raises(sg.ArgumentError) as caught:
        call()
    message = str(caught.value)
    assert caught.value.name == name
    assert message.startswith(f"{name}=")
    assert remedy in message
    if not (value is None and name == "step_size"):  # there, a function that has no name to look for
        assert message.startswith(f"{name}={repr(value)[:50]}")
    assert isinstance(caught.value, ValueError)


def test_an_argument_error_survives_a_trip_to_another_process():
    with pytest.raises(sg.ArgumentError) as caught:
        sample(workers=0)()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.name, copy.problem, copy.remedy) == (caught.value.name, caught.value.problem, caught.value.remedy)


def test_a_trace_of_another_model_is_refused():
    run = sg.sample(sg.potentials.GaussianMean(np.zeros((4, 2))), KERNEL, steps=5, initial=[1, 2], engine="inline",
                    progress=False)  # fmt: skip
    with pytest.raises(sg.ArgumentError, match=r"initial=.*has shape \(1, 2\).*Give shape \(3,\)"):
        sg.replay(run.trace, MODEL, KERNEL)
