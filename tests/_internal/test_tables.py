"""Kernels, schedules and engines as plain tables: there and back to the last bit, and what is wrong with a bad one."""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stalegrad as sg
from stalegrad.engines import MPI, Inline, Processes, Ray, Threads, engine_from_table, engine_table
from stalegrad.engines.simulation import Constant as ConstantTime
from stalegrad.engines.simulation import Exponential, Law, LogNormal, Network
from stalegrad.engines.simulation.laws import Several
from stalegrad.engines.tables import ENGINES, LAWS
from stalegrad.kernels import Kernel, kernel_from_table, kernel_table
from stalegrad.kernels.push import Push
from stalegrad.kernels.quiet import Quiet
from stalegrad.kernels.schedules import Auto, Changed, Constant, Cyclical, Inverse, Polynomial
from stalegrad.kernels.tables import KERNELS, SCHEDULES

AWKWARD = 0.1 + 0.2  # has no short decimal

STEPS = [
    AWKWARD, 1, np.float32(0.1), np.float64(1e-300), Constant(AWKWARD), Polynomial(AWKWARD, 2.5, 1 / 3),
    Inverse(AWKWARD), Inverse(base=1e-3, gamma=AWKWARD, power=2 / 3), Cyclical(AWKWARD, 100), Cyclical(0.1, 7, 1e-9),
    Changed(AWKWARD, Cyclical(0.1, 7), at=99),
]  # fmt: skip
SAMPLERS = [
    sg.SGLD(step_size=0.1),
    sg.SGLD(step_size=0.1, temperature=AWKWARD),
    sg.SGHMC(step_size=1e-3, friction=AWKWARD),
    sg.SGHMC(step_size=1e-3, friction=7, integrator="splitting", temperature=0.0),
    sg.SGHMC.from_sgd(lr=0.01, momentum=0.9, n_data=60_000, gamma=1e-4),
    sg.SGNHT(step_size=0.1, noise=AWKWARD, thermostats="each", integrator="splitting"),
    sg.PSGLD(step_size=0.1),
    sg.PSGLD(step_size=0.1, decay=0.5, floor=AWKWARD, divergence=True, n_data=np.int64(10), batch_size=3),
    sg.Harmonic(step_size=AWKWARD, friction=AWKWARD, curvature=AWKWARD, temperature=0.5),
    sg.BAOAB(step_size=AWKWARD, friction=AWKWARD, temperature=0.5),
    sg.UBU(step_size=AWKWARD, friction=7),
    sg.SGRLD(step_size=AWKWARD, metric=sg.metrics.ExpandedMean(), natural=True),
]
CLUSTERS = [
    Threads(),
    Threads(patience=AWKWARD, restarts=0, slow={3: AWKWARD, 0: 1}),
    Processes(),
    Processes(patience=5, restarts=9, threads=2, slow={1: 0.5}),
    MPI(),
    MPI(patience=5, restarts=9, everywhere=True, elastic=Path("ports"), heartbeat=AWKWARD, slow={1: 0.5}),
    Ray(),
    Ray("10.0.0.7:6379", 0.5, 1, {"accelerator": AWKWARD}, {"stable": 1}, 4, 1.0, 9, 5, restarts=9, insecure=True),
    Inline(),
    Inline(compute=AWKWARD, network=1e-4, update=np.float64(1e-3)),
    Inline(compute=ConstantTime(2.0), network=Network(latency=AWKWARD)),
    Inline(compute=Exponential(AWKWARD, factors={2: 5.0}), network=Network(1e-4, 1.25e9, 4 * 431_080)),
    Inline(compute=LogNormal(AWKWARD, 0.5, factors=(1.0, 2.0, AWKWARD)), update=0.1),
]


def as_toml(table):
    """An inline table, as somebody would write it."""
    words = {True: "true", False: "false"}
    if isinstance(table, dict):
        return "{" + ", ".join(f"{key} = {as_toml(value)}" for key, value in table.items()) + "}"
    if isinstance(table, list):
        return "[" + ", ".join(map(as_toml, table)) + "]"
    return words[table] if isinstance(table, bool) else json.dumps(table)


def through_files(table):
    """The same table once it has been in a JSON file and in a TOML file."""
    again = json.loads(json.dumps(table, allow_nan=False))
    assert again == table
    written = tomllib.loads(f"table = {as_toml(table)}")["table"]
    assert written == table
    return written


@pytest.mark.parametrize("step_size", STEPS, ids=str)
def test_every_schedule_comes_back(step_size):
    kernel = sg.SGLD(step_size=step_size)
    again = kernel_from_table(through_files(kernel_table(kernel)))
    assert again == kernel
    updates = [0, 1, 2, 99, 100, 12_345]
    assert [again.schedule(l) for l in updates] == [kernel.schedule(l) for l in updates]  # noqa: E741


@pytest.mark.parametrize("kernel", SAMPLERS, ids=repr)
def test_every_kernel_comes_back(kernel):
    again = kernel_from_table(through_files(kernel_table(kernel)))
    assert again == kernel
    assert type(again) is type(kernel)


@pytest.mark.parametrize("engine", CLUSTERS, ids=repr)
def test_every_engine_comes_back(engine):
    assert engine_from_table(through_files(engine_table(engine))) == engine


@given(st.floats(min_value=5e-324, max_value=1e300), st.floats(min_value=5e-324, max_value=1e300))
def test_every_bit_comes_back(step_size, friction):
    table = kernel_table(sg.SGHMC(step_size=step_size, friction=friction, integrator="splitting"))
    again = kernel_from_table(json.loads(json.dumps(table)))
    assert (again.step_size.hex(), again.friction.hex()) == (step_size.hex(), friction.hex())


def subclasses(base):
    return {sub for direct in base.__subclasses__() for sub in (direct, *subclasses(direct))}


def test_nothing_of_ours_is_left_out():
    """A new kernel, schedule, law or engine has to be made known, here and to the families."""
    ours = {sub for sub in subclasses(Kernel) if sub.__module__.startswith("stalegrad.")}
    ours -= {Push, Quiet}  # which architectures make of a user's kernel
    ours -= {sg.kernels.Overdamped, sg.kernels.Kinetic, sg.kernels.Linear}  # which are bases
    assert set(KERNELS.members.values()) == ours - {sg.Recipe} == {type(kernel) for kernel in SAMPLERS}
    schedules = {
        value for name, value in vars(sg.schedules).items() if isinstance(value, type) and not name.startswith("_")
    }
    assert set(SCHEDULES.members.values()) == {
        s for s in schedules if s.__module__ == "stalegrad.kernels.schedules"
    } - {Auto}  # which a kernel writes as "auto"
    laws = {sub for sub in subclasses(Law) if sub.__module__.startswith("stalegrad.engines.")}  # not experiments' own
    assert set(LAWS.members.values()) == laws - {Several}  # which the inline engine makes of another
    with pytest.raises(sg.ArgumentError) as caught:
        sg.sample(sg.potentials.GaussianMean([1.0]), sg.SGLD(step_size=0.1), steps=1, engine="?")
    assert set(re.findall(r"'(\w+)'", caught.value.remedy)) == set(ENGINES.members)
    assert {type(step) for step in STEPS} >= set(SCHEDULES.members.values())
    assert {type(engine) for engine in CLUSTERS} == set(ENGINES.members.values())


def warm_up(l):  # noqa: E741
    return 0.1 / (1 + l)


@dataclass(frozen=True, kw_only=True)
class Own(sg.SGLD):
    """A user's own kernel."""

    knob: float = 1.0


@dataclass(frozen=True, kw_only=True)
class WithFunction(sg.SGLD):
    """A user's own kernel, made of a function."""

    knob: Any


class OwnKernels:
    @dataclass(frozen=True, kw_only=True)
    class Inner(sg.SGLD):
        """A class inside another is not found by a module and a name."""


def local_kernel():
    @dataclass(frozen=True, kw_only=True)
    class Own(sg.SGLD):
        """Gone with the function."""

    return Own(step_size=0.1)


class Plain:
    """A user's own schedule, whose repr has an address in it."""

    def __call__(self, l):  # noqa: E741
        return 0.1


class OwnEngine:
    def run(self, job):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (lambda: kernel_table(sg.SGLD(step_size=warm_up))["step_size"], f"function {__name__}.warm_up"),
        (lambda: kernel_table(sg.SGLD(step_size=Plain()))["step_size"], f"<{__name__}.Plain object>"),
        (
            lambda: kernel_table(local_kernel()),
            "local_kernel.<locals>.Own(step_size=0.1, temperature=1.0)",
        ),
        (lambda: engine_table(OwnEngine()), f"<{__name__}.OwnEngine object>"),
    ],
)
def test_what_is_not_ours_is_told_in_words_without_addresses(table, words):
    assert table() == {"opaque": words}


def test_what_is_made_of_functions_is_refused_with_a_reason():
    with pytest.raises(sg.ArgumentError, match=r"kernel\.name='Recipe': is made of Python functions"):
        kernel_from_table({"name": "Recipe", "step_size": 0.1})
    with pytest.raises(sg.ArgumentError, match=r"kernel\.metric\.name='Diagonal': is no metric that is known"):
        kernel_from_table({"name": "SGRLD", "step_size": 0.1, "metric": {"name": "Diagonal"}})
    own = sg.SGRLD(step_size=0.1, metric=sg.metrics.Diagonal(inverse=warm_up, divergence=warm_up))
    table = through_files(kernel_table(own))
    assert " at 0x" not in str(table)
    with pytest.raises(sg.ArgumentError, match=r"kernel\.metric='Diagonal.*warm_up.*stands for one of your own"):
        kernel_from_table(table)
    assert " at 0x" not in str(kernel_table(sg.Recipe(warm_up, step_size=0.1)))


def test_what_is_not_ours_cannot_be_rebuilt():
    table = through_files(kernel_table(sg.SGLD(step_size=warm_up)))
    with pytest.raises(sg.ArgumentError, match=r"kernel\.step_size='function .*warm_up': stands for one of your own"):
        kernel_from_table(table)
    with pytest.raises(sg.ArgumentError, match=r"engine='<.*OwnEngine object>': stands for one of your own"):
        engine_from_table(engine_table(OwnEngine()))


def test_a_class_of_another_package_is_named_by_its_module_and_imported_from_there():
    kernel = Own(step_size=Polynomial(AWKWARD, 2.5, 1 / 3), knob=AWKWARD)
    table = through_files(kernel_table(kernel))
    assert table["name"] == f"{__name__}:Own"
    assert table["knob"] == AWKWARD
    assert kernel_from_table(table) == kernel
    assert type(kernel_from_table(table)) is Own


def test_a_class_that_cannot_be_found_again_stays_opaque(monkeypatch):
    assert list(kernel_table(OwnKernels.Inner(step_size=0.1))) == ["opaque"]
    assert list(kernel_table(Push(step_size=0.1))) == ["opaque"]  # ours, and not for users
    monkeypatch.setattr(Own, "__module__", "__main__")
    assert list(kernel_table(Own(step_size=0.1))) == ["opaque"]


def test_a_setting_that_no_table_holds_is_refused_when_it_is_read():
    table = through_files(kernel_table(WithFunction(step_size=0.1, knob=warm_up)))
    with pytest.raises(sg.ArgumentError, match=r"kernel\.knob='function .*warm_up': stands for one of your own"):
        kernel_from_table(table)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no.such.module:Own", r"cannot be imported \(ModuleNotFoundError: No module named 'no'\)"),
        (f"{__name__}:Owm", "cannot be imported .AttributeError"),
        (f"{__name__}:", "cannot be imported .AttributeError"),
        (":Own", "cannot be imported .ValueError"),
        ("..x:Own", "cannot be imported .TypeError"),
        (f"{__name__}:Plain", "is no kernel. Give a dataclass that is derived from stalegrad's Kernel"),
        (f"{__name__}:warm_up", "is no kernel"),
        ("stalegrad:SGLD.order", "cannot be imported"),
    ],
)
def test_what_is_no_class_of_the_family_is_refused(name, problem):
    with pytest.raises(sg.ArgumentError, match=rf"kernel\.name={name!r}: {problem}"):
        kernel_from_table({"name": name, "step_size": 0.1})


def test_mistakes_in_the_settings_of_another_packages_class_are_told_by_path():
    with pytest.raises(sg.ArgumentError, match=r"kernel\.knop=1: is not known\. Did you mean 'knob'\? Own takes: "):
        kernel_from_table({"name": f"{__name__}:Own", "step_size": 0.1, "knop": 1})


def test_a_family_without_a_base_knows_its_members_alone():
    with pytest.raises(sg.ArgumentError, match="is no schedule that is known"):
        SCHEDULES.read({"name": f"{__name__}:Plain"}, "step_size")


BAD_KERNELS = [
    ("{}", "kernel={}: has no name. Name the kernel, one of: 'BAOAB', 'Harmonic', 'PSGLD', 'SGHMC', 'SGLD'"),
    ("'SGLD'", '''kernel='SGLD': is not a table. Give a table such as {name = "BAOAB", …}.'''),
    ("{name = 'sgdl'}",
     "kernel.name='sgdl': is no kernel that is known. Did you mean 'SGLD'? Give one of: 'BAOAB', 'Harmonic', 'PSG"),
    ("{name = 3}", "kernel.name=3: is no kernel that is known. Give one of: "),
    ("{name = ['SGLD']}", "kernel.name=['SGLD']: is no kernel that is known."),
    ("{name = 'SGHMC', friction = 'none'}", "kernel.friction='none': is a str, not a number."),
    ("{name = 'SGLD', step_size = 0.1, temprature = 1}",
     "kernel.temprature=1: is not known. Did you mean 'temperature'?"),
    ("{name = 'SGLD', step_size = 0.1, sgd = {}}", "kernel.sgd={}: is not known. SGLD takes: step_size, temperature."),
    ("{name = 'SGLD', step_size = -1}", "kernel.step_size=-1: is out of range. Give a finite number > 0."),
    ("{name = 'SGLD', step_size = '0.1'}", "kernel.step_size='0.1': is a str, not a number. Give a finite number > 0."),
    ("{name = 'SGLD', step_size = true}", "kernel.step_size=True: is a bool, not a number."),
    ("{name = 'SGLD', step_size = inf}", "kernel.step_size=inf: is out of range."),
    ("{name = 'SGLD', step_size = [0.1]}", "kernel.step_size=[0.1]: is not a number."),
    ("{name = 'SGLD', step_size = {a = 1}}",
     "kernel.step_size={'a': 1}: has no name. Name the schedule, one of: 'Cons"),
    ("{name = 'SGLD', step_size = {name = 'Polynom'}}",
     "kernel.step_size.name='Polynom': is no schedule that is known. Did you mean 'Polynomial'? Give one of: 'C"),
    ("{name = 'SGLD', step_size = {name = 'Polynomial'}}",
     "kernel.step_size={'name': 'Polynomial'}: has no a. Polynomial takes: a, b, gamma."),
    ("{name = 'SGLD', step_size = {name = 'Polynomial', a = 1, b = 0}}", "kernel.step_size.b=0: is out of range."),
    ("{name = 'SGLD', step_size = {name = 'Cyclical', peak = 1, period = 1.5}}", "kernel.step_size.period=1.5: is not"),
    ("{name = 'SGLD', step_size = {name = 'Constant', value = 0}}", "kernel.step_size=0: is out of range."),
    ("{name = 'PSGLD', step_size = 1, divergence = 'yes'}", "kernel.divergence='yes': is not a boolean. Give true or"),
    ("{name = 'PSGLD', step_size = 1, decay = 2}", "kernel.decay=2: is out of range. Give α in [0, 1], such as 0.99."),
    ("{name = 'SGNHT', step_size = 1, thermostats = 'one'}",
     "kernel.thermostats='one': is not known. Give one of: 'sh"),
    ("{name = 'SGHMC', step_size = 1.0, friction = 3}",
     "kernel.friction=3: times step_size 1 is ≥ 2, where Euler's mom"),
    ("{name = 'SGHMC', sgd = {lr = 1}}",
     "kernel.sgd={'lr': 1}: has no momentum. It takes: lr, momentum, gamma, power."),
    ("{name = 'SGHMC', sgd = 0.1}",
     "kernel.sgd=0.1: is not a table. Give a table such as {lr = 0.01, momentum = 0.9}."),
    ("{name = 'SGHMC', sgd = {lr = 1, momentun = 0}}", "kernel.sgd.momentun=0: is not known. Did you mean 'momentum'?"),
    ("{name = 'SGHMC', sgd = {lr = 0, momentum = 0}}", "kernel.sgd.lr=0: is out of range. Give a finite number > 0."),
    ("{name = 'SGHMC', sgd = {lr = 1, momentum = 1}}", "kernel.sgd.momentum=1: leaves no friction. Give a number in"),
    ("{name = 'SGHMC', sgd = {lr = 1, momentum = 0}, friction = 1}", "kernel.friction=1: does not go with kernel.sgd"),
    ("{name = 'SGHMC', sgd = {lr = 1, momentum = 0}, noise = 1}", "kernel.noise=1: is not known. SGHMC with sgd takes"),
    ("{name = 'SGHMC', sgd = {lr = 1, momentum = 0}, integrator = 'rk4'}", "kernel.integrator='rk4': is not known."),
]  # fmt: skip


@pytest.mark.parametrize(("toml", "message"), BAD_KERNELS)
def test_a_bad_kernel_is_refused_by_the_path_of_its_key(toml, message):
    with pytest.raises(sg.ArgumentError) as caught:
        kernel_from_table(tomllib.loads(f"kernel = {toml}")["kernel"], n_data=100)
    assert str(caught.value).startswith(message)


BAD_ENGINES = [
    ("{name = 'thread'}",
     "engine.name='thread': is no engine that is known. Did you mean 'threads'? Give one of: 'thre"),
    ("{name = 'threads', threads = 2}", "engine.threads=2: is not known. Did you mean 'update_threads'? "),
    ("{name = 'threads', patience = 0}", "engine.patience=0: is out of range. Give a finite number > 0."),
    ("{name = 'threads', restarts = 1.5}", "engine.restarts=1.5: is not a whole number."),
    ("{name = 'processes', threads = 0}", "engine.threads=0: is out of range. Give a whole number ≥ 1."),
    ("{name = 'processes', slow = 1}", "engine.slow=1: is not a mapping. Give a number by worker, such as {3: 0.5}."),
    ("{name = 'processes', slow = {first = 1}}", "engine.slow.first=1: is not under the number of a worker. Count fro"),
    (f"{{name = 'processes', slow = {{{'1' * 5000} = 1}}}}", f"engine.slow.{'1' * 5000}=1: is not under the number of"),
    ("{name = 'processes', slow = {1 = -1}}", "engine.slow=-1: is out of range. Give a finite number ≥ 0."),
    ("{name = 'mpi', slow = {1 = -1}}", "engine.slow=-1: is out of range. Give a finite number ≥ 0."),
    ("{name = 'mpi', heartbeat = 0}", "engine.heartbeat=0: is out of range. Give a finite number > 0."),
    ("{name = 'mpi', elastic = 1}", "engine.elastic=1: is not a path. Give the name of a folder."),
    ("{name = 'mpi', comm = 'world'}", "engine.comm='world': cannot be given in a table. Leave it out, or write a sc"),
    ("{name = 'inline', compute = -1}", "engine.compute=-1: is out of range. Give a finite number ≥ 0."),
    ("{name = 'inline', compute = {name = 'Normal'}}",
     "engine.compute.name='Normal': is no law that is known. Did you"),
    ("{name = 'inline', compute = {name = 'LogNormal', mean = 0}}", "engine.compute.mean=0: is out of range."),
    ("{name = 'inline', compute = {name = 'LogNormal', mean = 1, factors = {x = 1}}}", "engine.compute.factors.x=1:"),
    ("{name = 'inline', compute = {name = 'LogNormal', mean = 1, factors = [0]}}", "engine.compute.factors=0: is out"),
    ("{name = 'inline', network = 'fast'}", "engine.network='fast': is a str, not a number."),
    ("{name = 'inline', network = {lag = 1}}",
     "engine.network.lag=1: is not known. Network takes: latency, bandwidth,"),
    ("{name = 'inline', network = {latency = -1}}", "engine.network.latency=-1: is out of range."),
]  # fmt: skip


@pytest.mark.parametrize(("toml", "message"), BAD_ENGINES)
def test_a_bad_engine_is_refused_by_the_path_of_its_key(toml, message):
    with pytest.raises(sg.ArgumentError) as caught:
        engine_from_table(tomllib.loads(f"engine = {toml}")["engine"])
    assert str(caught.value).startswith(message)


def test_sgd_units_are_those_of_from_sgd():
    table = {"name": "SGHMC", "sgd": {"lr": 0.01, "momentum": 0.9, "gamma": 1e-4, "power": 0.5}, "temperature": 0.5}
    expected = sg.SGHMC.from_sgd(0.01, 0.9, 1234, gamma=1e-4, power=0.5, temperature=0.5)
    assert kernel_from_table(table, n_data=1234) == expected
    with pytest.raises(sg.ArgumentError, match=r"n_data=None: is what kernel\.sgd needs"):
        kernel_from_table(table)
