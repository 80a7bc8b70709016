"""How to reproduce a run: bit for bit from its trace, or anew."""

import json
import shlex
from collections.abc import Mapping
from textwrap import wrap

from stalegrad.analysis.report.markup import code, paragraph, section
from stalegrad.analysis.report.material import Material
from stalegrad.analysis.report.settings import counted
from stalegrad.kernels.code import kernel_code, literal
from stalegrad.protocol.architectures import architecture_table

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
        *(f"{key}={literal(value)}," for key, value in arguments.items() if value is not None),
        *_architecture(material),
    ]
    return "\n".join(["run = sg.sample(", *wrap(" ".join(words), 76, initial_indent=_IN, subsequent_indent=_IN), ")"])


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
    settings = ", ".join(f"{name}={literal(value)}" for name, value in table.items() if name != "name")
    return [*f"architecture=sg.{table['name']}({settings}),".split()]


def _model(material: Material) -> list[str]:
    """The function that makes the model, if the job's file named one; else it is for the reader to fill in."""
    job = material.about.get("job")
    model = job.get("model") if isinstance(job, Mapping) else None
    module, _, function = str(model.get("function", "")).partition(":") if isinstance(model, Mapping) else ("", "", "")
    if not isinstance(model, Mapping) or not function:
        size = material.run.draws.shape[-1]
        return [f"model = ...  # the potential of this run, with {counted(size, 'parameter')}"]
    arguments = ", ".join(f"{name}={literal(value)}" for name, value in (model.get("arguments") or {}).items())
    return [f"from {module} import {function}", f"model = {function}({arguments})"]


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
