"""What was run: model, sampler, workers, length, and the versions of everything."""

import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from stalegrad.plots.components import Components
from stalegrad.plots.quantities import chain_draws, virtual_time
from stalegrad.progress import duration
from stalegrad.report.markup import code, definitions, folded, section
from stalegrad.report.material import Material

_PACKAGES = ("stalegrad", "numpy", "numba", "matplotlib", "arviz-stats")
_MOST_VARIABLES = 12


def settings(material: Material) -> str:
    """The section."""
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
    names = " and ".join(dict.fromkeys(kernel_name(kernel) for kernel in material.known("kernels") or ()))
    return (
        f"{f'{names} on ' if names else ''}{counted(material.run.draws.shape[-1], 'parameter')}: "
        f"{counted(len(trace), 'chain')} of {steps:,} updates, with gradients from "
        f"{counted(material.workers, 'worker')}{' each' * (len(trace) > 1)}."
    )


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "worker"), counted(1200, "draw")
    ('1 worker', '1,200 draws')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def kernel_name(kernel: Mapping[str, Any]) -> str:
    """SGLD, SGHMC, …"""
    return str(kernel.get("kernel") or kernel.get("name") or kernel)


def kernel_settings(kernel: Mapping[str, Any]) -> dict[str, Any]:
    """Its settings by name, without those that are not set."""
    return {name: value for name, value in kernel.items() if name not in ("kernel", "name") and value is not None}


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
        "architecture": _words("", material.known("architecture") or "").strip(),
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
    described = material.known("model")
    nested = described if isinstance(described, Mapping) else {}
    name = nested.get("type") if nested else described
    n_data, batch = (nested.get(key) or material.known(key) for key in ("n_data", "batch_size"))
    parts = [str(name) if name else "", counted(material.run.draws.shape[-1], "parameter")]
    parts += [f"{int(n_data):,} data in minibatches of {int(batch):,}"] if n_data and batch else []
    return ", ".join(filter(None, parts))


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
    for kernel in material.known("kernels") or ():
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
    servers, engine = len(material.run.trace), material.known("engine")
    name = engine.get("name") if isinstance(engine, Mapping) else engine
    on = f", on engine “{str(name).lower()}”" if name else ""
    return f"{counted(servers, 'server')} × {counted(material.workers, 'worker')}{on}"


def _bound(material: Material) -> str:
    bound, policy = material.known("max_staleness"), material.known("policy")
    if bound is None:
        return "without a bound"
    done = {"drop": "gradients beyond are dropped", "wait": "workers wait so that it holds"}.get(str(policy), "")
    return f"at most {bound:,}" + (f"; {done}" if done else "")


def _time(material: Material) -> str:
    run = material.run
    if run.timing is not None:
        return _seconds(run.timing.wall)
    ends = [float(chain.time[-1]) for chain in run.trace.chains if chain.time is not None and len(chain)]
    if not ends:
        return ""
    if virtual_time(run):
        return f"{max(ends):,.6g} virtual seconds"
    return f"{_seconds(max(ends))}, of the run that this one replays"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 120 else duration(seconds)
