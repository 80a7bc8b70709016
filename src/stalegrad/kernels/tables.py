"""Kernels and their schedules as plain tables, see :mod:`stalegrad._internal.tables`.

``{"name": "SGHMC", "step_size": {"name": "Polynomial", "a": 0.1}, "friction": 10.0}`` is a kernel with a schedule.
SGHMC may be given in the units of SGD with momentum as well, by ``{"name": "SGHMC", "sgd": {"lr": 0.01, "momentum":
0.9}}``; see :meth:`SGHMC.from_sgd`, whose other arguments are ``gamma`` and ``power``. SGRLD is known with the metric
``{"name": "ExpandedMean"}``; a metric or a recipe made of Python functions is beyond a table.
"""

from collections.abc import Mapping
from typing import Any

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.tables import NumberOr, Registry, Table, check_keys, check_table
from stalegrad.kernels.base import SAMPLERS, Kernel
from stalegrad.kernels.metrics import ExpandedMean
from stalegrad.kernels.samplers.sghmc import SGHMC
from stalegrad.kernels.schedules import Changed, Constant, Cyclical, Inverse, Polynomial
from stalegrad.kernels.temperatures import Annealing, Exploration

_PARTS: dict[str, Any] = {}  # of a schedule, that are schedules themselves
SCHEDULES: Registry[Any] = Registry(
    "schedule", {member.__name__: member for member in (Constant, Polynomial, Inverse, Cyclical, Changed)}, _PARTS
)
_PARTS.update(before=NumberOr(SCHEDULES), after=NumberOr(SCHEDULES))
_STAGES: dict[str, Any] = {}  # parts of a temperature, that are temperatures themselves
TEMPERATURES: Registry[Any] = Registry(
    "temperature", {"Exploration": Exploration, "Annealing": Annealing, **SCHEDULES.members}, _STAGES
)
_STAGES.update(before=NumberOr(TEMPERATURES), after=NumberOr(TEMPERATURES))
METRICS: Registry[Any] = Registry("metric", {"ExpandedMean": ExpandedMean})
KERNELS: Registry[Kernel] = Registry(
    "kernel",
    {name: sampler for name, sampler in SAMPLERS.items() if not sampler.made_of_functions},
    {"step_size": NumberOr(SCHEDULES), "temperature": NumberOr(TEMPERATURES), "metric": METRICS},
    base=Kernel,
)
_SGD = ("lr", "momentum", "gamma", "power")


def kernel_table(kernel: Kernel) -> Table:
    """The plain table of a kernel, from which :func:`kernel_from_table` makes an equal one, to the last bit.

    A kernel of your own, a dataclass in a module, is named ``"package.module:ClassName"`` and imported from there. What
    no table describes, such as a function for a schedule, becomes ``{"opaque": "what it is, in words"}``, which can be
    compared and shown, and not rebuilt.

    >>> from stalegrad.kernels import SGLD
    >>> kernel_table(SGLD(step_size=1e-3))
    {'name': 'SGLD', 'step_size': 0.001, 'temperature': 1.0}
    """
    name = type(kernel).__name__
    if SAMPLERS.get(name) is type(kernel) and kernel.made_of_functions:
        return {"name": name, **KERNELS.settings(kernel)}
    return KERNELS.write(kernel)


def kernel_from_table(table: Mapping[str, Any], *, n_data: int | None = None, path: str = "kernel") -> Kernel:
    """The kernel that a table describes.

    Args:
        table: its name and settings.
        n_data: N of the model, which a kernel in the units of SGD needs.
        path: where the table stands, for messages.

    >>> kernel_from_table({"name": "SGHMC", "sgd": {"lr": 0.01, "momentum": 0.9}}, n_data=10_000).step_size
    0.001
    """
    name = table.get("name") if isinstance(table, Mapping) else None
    if isinstance(name, str) and name in SAMPLERS and SAMPLERS[name].made_of_functions:
        problem = "is made of Python functions, which no table can hold"
        remedy = f"Call sg.sample(…, sg.{name}(…)) from Python, or name another kernel."
        raise ArgumentError(f"{path}.name", name, problem, remedy)
    if KERNELS.name_of(table, path) == "SGHMC":
        return _from_sgd(table, n_data, path) if "sgd" in table else KERNELS.build(SGHMC, table, path, also=("sgd",))
    return KERNELS.read(table, path)


def _from_sgd(table: Mapping[str, Any], n_data: int | None, path: str) -> SGHMC:
    sgd, settings = table["sgd"], {key: value for key, value in table.items() if key not in ("name", "sgd")}
    for key in ("step_size", "friction"):
        if key in settings:
            problem = f"does not go with {path}.sgd, from which it follows"
            raise ArgumentError(f"{path}.{key}", settings[key], problem, f"Leave out {key}, or sgd.")
    check_keys(settings, ("integrator", "temperature"), path, "SGHMC with sgd takes: sgd, integrator, temperature.")
    check_table(sgd, f"{path}.sgd", "Give a table such as {lr = 0.01, momentum = 0.9}.")
    taken = f"It takes: {', '.join(_SGD)}."
    check_keys(sgd, _SGD, f"{path}.sgd", taken)
    for name in ("lr", "momentum"):
        if name not in sgd:
            raise ArgumentError(f"{path}.sgd", sgd, f"has no {name}", taken)
    if n_data is None:
        raise ArgumentError("n_data", None, f"is what {path}.sgd needs", "Give the number of data of the model.")
    try:
        return SGHMC.from_sgd(n_data=n_data, **sgd, **settings)
    except ArgumentError as error:
        raise error.inside(f"{path}.sgd" if error.name in sgd else path) from None
