"""How to reproduce a run: bit for bit from its trace, or anew."""

import json
import re
import shlex
from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from stalegrad._internal.tables import OPAQUE
from stalegrad.analysis.report.markup import code, paragraph, section
from stalegrad.analysis.report.material import Material
from stalegrad.analysis.report.settings import counted, kernel_name, kernel_settings
from stalegrad.protocol.architectures import architecture_table

_DEFAULTS = {"temperature": 1.0}
_HOMES = {"step_size": "sg.schedules.", "metric": "sg.metrics."}
_IN = "    "


def reproduce(material: Material) -> str:
    """The section with the code that repeats the run, from its trace or anew."""
    seed = material.run.trace.seed
    return section(
        "reproduce",
        "How to reproduce it",
        paragraph("The trace holds who sent which gradient when; with the model it gives the same draws, bit for bit:"),
        code(replay_code(material)),
        paragraph(
            f"A new run with the same settings. Seed {seed} fixes all noise and all minibatches; on a real engine the "
            "order in which gradients arrive is up to the machine, so that estimates differ within their errors:"
        ),
        code(sample_code(material)),
        _commands(material),
    )


def replay_code(material: Material) -> str:
    """Python that replays the run."""
    path = material.about.get("path")
    if path is None:
        trace = 'trace = sg.Trace.load("trace.npz")  # kept with run.trace.save("trace.npz")'
    else:
        trace = f"trace = sg.load({json.dumps(str(path), ensure_ascii=False)}).trace"
    lines = ["import stalegrad as sg", "", trace, *_model_and_kernel(material), "run = sg.replay(trace, model, kernel)"]
    return "\n".join(lines)


def sample_code(material: Material) -> str:
    """Python that makes a new run with the same settings."""
    trace = material.run.trace
    settings = None if material.record is None else material.record.settings
    arguments = {
        "steps": max(chain.steps for chain in trace.chains),
        "servers": len(trace),
        "workers": trace.workers,
        "max_staleness": None if settings is None else settings.max_staleness,
        "policy": None if settings is None else settings.policy,
        "burn_in": trace.burn_in,
        "thin": trace.thin,
        "seed": trace.seed,
        "engine": material.engine or None,
    }
    words = [
        "model,",
        "kernel,",
        *(f"{key}={_literal(value)}," for key, value in arguments.items() if value is not None),
        *_architecture(material),
    ]
    return "\n".join(["run = sg.sample(", *wrap(" ".join(words), 76, initial_indent=_IN, subsequent_indent=_IN), ")"])


def kernel_code(kernel: Mapping[str, Any]) -> str:
    """The kernel as one would write it.

    >>> kernel_code({"name": "SGLD", "step_size": 0.001, "temperature": 1.0})
    'sg.SGLD(step_size=0.001)'
    """
    if "name" not in kernel:
        return f"...  # {kernel_name(kernel)}"
    given = {k: v for k, v in kernel_settings(kernel).items() if k not in _DEFAULTS or v != _DEFAULTS[k]}
    return f"sg.{kernel_name(kernel)}({', '.join(f'{k}={_setting(k, v)}' for k, v in given.items())})"


def _model_and_kernel(material: Material) -> list[str]:
    kernels = [kernel_code(kernel) for kernel in material.kernels]
    if not kernels:
        kernel = "...  # the sampler of this run"
    elif len(set(kernels)) == 1:
        kernel = kernels[0]
    else:
        kernel = f"[{', '.join(kernels)}]"
    return [*_model(material), f"kernel = {kernel}"]


def _architecture(material: Material) -> list[str]:
    """The words of the argument, if it is not the default."""
    table = architecture_table(material.run.trace.architecture)
    if not table or "name" not in table:
        return []
    settings = ", ".join(f"{name}={_literal(value)}" for name, value in table.items() if name != "name")
    return [*f"architecture=sg.{table['name']}({settings}),".split()]


def _model(material: Material) -> list[str]:
    """The function that makes the model, if the job's file named one; else it is for the reader to fill in."""
    job = material.about.get("job")
    model = job.get("model") if isinstance(job, Mapping) else None
    module, _, function = str(model.get("function", "")).partition(":") if isinstance(model, Mapping) else ("", "", "")
    if not isinstance(model, Mapping) or not function:
        size = material.run.draws.shape[-1]
        return [f"model = ...  # the potential of this run, with {counted(size, 'parameter')}"]
    arguments = ", ".join(f"{name}={_literal(value)}" for name, value in (model.get("arguments") or {}).items())
    return [f"from {module} import {function}", f"model = {function}({arguments})"]


def _setting(name: str, value: Any) -> str:
    """A step size that is no number is a schedule, and metrics are objects, too; of functions there is the name."""
    if isinstance(value, Mapping) and OPAQUE in value:
        words = str(value[OPAQUE])
        function = re.fullmatch(r"function (?:.*\.)?([\w<>]+)", words)
        if function:
            return "..." if function[1] == "<lambda>" else function[1]
        return f"{_HOMES.get(name, 'sg.')}{words}"
    if isinstance(value, Mapping) and "name" in value:
        inner = ", ".join(f"{k}={_literal(v)}" for k, v in value.items() if k != "name")
        return f"{_HOMES.get(name, '')}{value['name']}({inner})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_setting(name, entry)}" for key, entry in value.items()) + "}"
    return _literal(value)


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def _commands(material: Material) -> str:
    """What the command line does with a stored run."""
    path = material.about.get("path")
    if path is None:
        return ""
    place = shlex.quote(str(path))
    commands = {
        f"stalegrad show {place}": "the numbers, in the terminal",
        f"stalegrad plot {place}": "the pictures, in files",
        f"stalegrad report {place}": "this page",
        f"stalegrad resume {place}": "go on with it",
    }
    width = max(map(len, commands))
    lines = [f"{command:{width}}  # {what}" for command, what in commands.items()]
    return paragraph("On the command line:") + code("\n".join(lines))
