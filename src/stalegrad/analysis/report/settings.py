"""What was run: model, sampler, workers, length, and the versions of everything."""

import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from stalegrad._internal.text import duration
from stalegrad.analysis.plots.components import Components
from stalegrad.analysis.plots.quantities import chain_draws, virtual_time
from stalegrad.analysis.report.markup import code, definitions, folded, section
from stalegrad.analysis.report.material import Material
from stalegrad.kernels.code import kernel_name, kernel_settings
from stalegrad.protocol.architectures import architecture_table

_PACKAGES = ("stalegrad", "numpy", "numba", "matplotlib", "arviz-stats")
_MOST_VARIABLES = 12


def settings(material: Material) -> str:
    """The section that lists the run's settings and all that was stored about it."""
    about = material.about
    everything = code(json.dumps(about, indent=1, ensure_ascii=False, default=str)) if about else ""
    return section(
        "settings", "What was run", definitions(_settings(material)),
        folded("Everything that was stored about this run", everything) if about else "",
    )  # fmt: skip


def lead(material: Material) -> str:
    """The run in one sentence."""
    trace = material.run.trace
    steps = max(chain.steps for chain in trace.chains)
    names = " and ".join(dict.fromkeys(kernel_name(kernel) for kernel in material.kernels))
    return (
        f"{f'{names} on ' if names else ''}{counted(material.run.draws.shape[-1], 'parameter')}: "
        f"{counted(len(trace), 'chain')} of {steps:,} updates, with gradients from "
        f"{counted(material.run.trace.workers, 'worker')}{' each' * (len(trace) > 1)}."
    )


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "worker"), counted(1200, "draw")
    ('1 worker', '1,200 draws')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def versions() -> str:
    """Of Python and of the packages that matter."""
    found = [f"python {platform.python_version()}"]
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def _settings(material: Material) -> dict[str, str]:
    run, trace = material.run, material.run.trace
    kept = [f"the first {trace.burn_in:,} updates of a chain left out"] if trace.burn_in else []
    kept += [f"one kept of every {trace.thin:,} updates"] if trace.thin > 1 else []
    return {
        "model": _model(material),
        "variables": _variables(material),
        "sampler": _kernels(material),
        "architecture": _words("", architecture_table(trace.architecture) or "").strip(),
        "cluster": _cluster(material),
        "staleness": _bound(material),
        "updates": ", ".join(dict.fromkeys(f"{chain.steps:,}" for chain in trace.chains)) + " a chain",
        "draws": "; ".join([f"{sum(map(len, chain_draws(run))):,} in all", *kept]),
        "seed": str(trace.seed),
        "start": "given by the user" if trace.initial is not None else "the model's own",
        "time": _time(material),
        "stored in": str(material.about.get("path", "")),
        "begun": str(material.about.get("created", "")).replace("T", " ").replace("+00:00", " UTC"),
        "state": str(material.about.get("state", "")),
        "versions": f"{versions()}, where this page was made",
    }


def _model(material: Material) -> str:
    size = counted(material.run.draws.shape[-1], "parameter")
    if material.record is None:
        return size
    model = material.record.model
    return f"{model.type}, {size}, {model.n_data:,} data in minibatches of {model.batch_size:,}"


def _variables(material: Material) -> str:
    """Names and shapes, unless there is but one vector without a name."""
    example = next((chain[0] for chain in chain_draws(material.run) if len(chain)), None)
    if example is None:
        return ""
    shapes = Components(material.run.variables, example).shapes
    if list(shapes) == ["theta"]:
        return ""
    words = [f"{name} ({' × '.join(map(str, shape)) or 'a number'})" for name, shape in shapes.items()]
    more = f" and {len(words) - _MOST_VARIABLES:,} more" * (len(words) > _MOST_VARIABLES)
    return ", ".join(words[:_MOST_VARIABLES]) + more


def _kernels(material: Material) -> str:
    kernels = []
    for kernel in material.kernels:
        words = ", ".join(_words(name, value) for name, value in kernel_settings(kernel).items())
        kernels.append(f"{kernel_name(kernel)} with {words}" if words else kernel_name(kernel))
    if len(set(kernels)) <= 1:
        return "".join(kernels[:1])
    return "; ".join(f"chain {s}: {kernel}" for s, kernel in enumerate(kernels))


def _words(name: str, value: Any) -> str:
    """A setting, as one would say it."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} {entry}" for key, entry in value.items() if key != "name")
        value = f"{value.get('name', '')} ({inner})".strip()
    return f"{name.replace('_', ' ')} {f'{value:g}' if isinstance(value, float) else value}"


def _cluster(material: Material) -> str:
    servers = len(material.run.trace)
    on = f", on engine “{material.engine}”" if material.engine else ""
    return f"{counted(servers, 'server')} × {counted(material.run.trace.workers, 'worker')}{on}"


def _bound(material: Material) -> str:
    settings = None if material.record is None else material.record.settings
    if settings is None or settings.max_staleness is None:
        return "without a bound"
    done = {"drop": "gradients beyond are dropped", "wait": "workers wait so that it holds"}[settings.policy]
    return f"at most {settings.max_staleness:,}; {done}"


def _time(material: Material) -> str:
    run = material.run
    if run.timing is not None:
        return _seconds(run.timing.wall)
    end = max((chain.seconds for chain in run.trace.chains), default=0.0)
    if not end:
        return ""
    if virtual_time(run):
        return f"{end:,.6g} virtual seconds"
    return f"{_seconds(end)}, of the run that this one replays"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 120 else duration(seconds)
