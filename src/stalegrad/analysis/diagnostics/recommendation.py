"""One recommendation for all findings of a diagnosis: a call to make, with numbers that agree with each other.

A check does not recommend numbers. It says what it asks of the next run (:class:`Advice`): a step no longer than so
many times this one, so many times the draws, a model in another form. :func:`joint` then chooses numbers that satisfy
all of them at once:

- **model first**: where the posterior's shape is the trouble, no setting helps; the model is to be rewritten, and what
  is sampled then is another chain, so that nothing is carried over but the number of workers and chains.
- **networks keep their kernel**: they have no mode and too many weights for coordinates, and their steps are those that
  they are trained with. What asks for coordinates elsewhere asks there for a longer run of the same, ten times at most.
- **coordinates next**: a chain that has not arrived, or scales that differ too much, ask for a kernel whose numbers the
  warm-up finds, with coordinates in which all directions are alike. No step size is recommended beside it.
- **otherwise numbers**: the largest step that all findings allow. Noise of minibatches goes as h/J: up to half of the
  step is given up for it, beyond that the minibatch is made larger. With a step f times as long, the same stretch of
  time takes 1/f times the updates, and so do burn-in and the draws in between.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import ceil, floor, log10
from typing import Any

from stalegrad._internal.numbers_file import without_nan
from stalegrad.kernels import Kernel, kernel_table
from stalegrad.kernels.code import kernel_code, literal
from stalegrad.protocol.architectures import StaleGradients, architecture_table
from stalegrad.protocol.settings import Settings

LONGEST = 10.0
"""From so many times the updates on, more of them are no remedy: the chain needs other coordinates."""

SHAPE = (
    "The coordinates are those of a warm-up already, so it is the posterior's shape that is in the way: write the "
    "model in other parameters, or sample it with NUTS."
)
OWNED = StaleGradients(linear=1.0, look_ahead="auto", course="turning")
"""What a warm-up chooses: in its coordinates the curvature is 1."""
_LEAST_STEP = 0.5  # below this share of the step that the rest allows, the minibatch is made larger instead
_COLUMNS = 80


@dataclass(frozen=True)
class Advice:
    """What a finding asks of the next run; by default nothing.

    Args:
        step: the step may be at most so many times this run's.
        noise: gradient noise times the step may be at most so many times this run's.
        if_unexplained: as ``step``, unless another finding names a cause.
        longer: so many times the draws after burn-in, each of them worth as much as now.
        burn_in: at least so many updates.
        max_staleness: the bound on staleness.
        unbounded: no bound at all, whatever else is advised.
        warmup: leave the kernel's numbers and the coordinates to the warm-up.
        model: how to rewrite the model, in words.
    """

    step: float | None = None
    noise: float | None = None
    if_unexplained: float | None = None
    longer: float = 1.0
    burn_in: int = 0
    max_staleness: int | None = None
    unbounded: bool = False
    warmup: bool = False
    model: str = ""


NOTHING = Advice()


@dataclass(frozen=True)
class Recommendation:
    """What to do about all findings together. ``sg.sample(potential, **recommendation.arguments)`` does it.

    Args:
        settings: arguments of :func:`stalegrad.sample` besides model and kernel.
        kernels: one of each chain; none where the warm-up finds one, or where that of the run is not known.
        batch_size: of the model's minibatches, if it should be another.
        model: how to rewrite the model, in words; empty if it can stay as it is.
        warmup: whether the kernel's numbers and the coordinates are left to the warm-up.

    >>> import stalegrad as sg
    >>> advised = Recommendation(settings={"steps": 20_000}, kernels=(sg.SGLD(step_size=1e-3),))
    >>> advised.arguments
    {'kernel': SGLD(step_size=0.001, temperature=1.0), 'steps': 20000}
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    kernels: tuple[Kernel, ...] = ()
    batch_size: int | None = None
    model: str = ""
    warmup: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """Of :func:`stalegrad.sample`, all but the model."""
        if not self.kernels:
            return dict(self.settings)
        alike = all(kernel == self.kernels[0] for kernel in self.kernels)
        return {"kernel": self.kernels[0] if alike else list(self.kernels), **self.settings}

    @property
    def step_size(self) -> float | None:
        """h, the largest of all chains; None where the warm-up finds it."""
        return max((float(kernel.schedule(0)) for kernel in self.kernels), default=None)

    def call(self) -> str:
        """The call, as one would write it."""
        code = list(dict.fromkeys(kernel_code(kernel_table(kernel)) for kernel in self.kernels))
        if not code:
            kernel = [] if self.warmup else ["kernel"]
        else:
            kernel = code if len(code) == 1 else [f"[{', '.join(kernel_code(kernel_table(k)) for k in self.kernels)}]"]
        words = [f"{name}={_written(value)}" for name, value in self.settings.items()]
        return f"sg.sample({', '.join(['potential', *kernel, *words])})"

    def as_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has, and the call as text."""
        plain = {
            name: value if isinstance(value, int | float | str) else architecture_table(value)
            for name, value in self.settings.items()
        }
        found: dict[str, Any] = without_nan({
            "model": self.model,
            "batch_size": self.batch_size,
            "kernels": [kernel_table(kernel) for kernel in self.kernels],
            "settings": plain,
            "call": self.call(),
        })  # fmt: skip
        return found

    def __str__(self) -> str:
        lines = ["What to do about all of it together:"]
        if self.model:
            lines.append(_filled(self.model, "  "))
        if self.batch_size is not None:
            lines.append(f"  make the potential with batch_size={literal(self.batch_size)}, then")
        lines.append(_filled(self.call(), "  ", "      "))
        if self.warmup:
            lines.append("  (no kernel: start, step size, friction and coordinates are found first)")
        return "\n".join(lines)


@dataclass(frozen=True)
class Circumstances:
    """What a recommendation is made from, beside the findings.

    Args:
        settings: of the run.
        kernels: of each chain; none if they are not known.
        steps: h of each chain, on average.
        batch_size: the minibatch with so many times the noise of this run's; None without a model.
        n_data: N, more than which no minibatch can have.
        room: how many times as long a step could be by theory; None if that is not known.
        warmed: whether the run's coordinates are those of a warm-up already.
        network: whether the model is a network, whose kernel is kept.
    """

    settings: Settings
    kernels: tuple[Kernel, ...] = ()
    steps: Sequence[float] = ()
    batch_size: Callable[[float], int] | None = None
    n_data: int = 0
    room: Callable[[], float | None] = lambda: None
    warmed: bool = False
    network: bool = False


def joint(advice: Sequence[Advice], about: Circumstances) -> Recommendation | None:
    """Numbers that satisfy every advice at once; None if there is nothing to do, or no setting does it."""
    advice = [each for each in advice if each != NOTHING]
    if not advice:
        return None
    if about.network and about.kernels:
        advice = [replace(each, warmup=False, longer=min(each.longer, LONGEST)) for each in advice]
    model = " ".join(dict.fromkeys(each.model for each in advice if each.model))
    bounds = [each.max_staleness for each in advice if each.max_staleness is not None]
    kept: dict[str, Any] = {
        name: getattr(about.settings, name)
        for name in ("servers", "workers", "max_staleness", "policy", "architecture")
        if getattr(about.settings, name) != _DEFAULTS.get(name)
    }
    if about.warmed and kept.get("architecture") == OWNED:
        del kept["architecture"]  # the warm-up's own choice
    if bounds:
        kept["max_staleness"] = max(bounds)
    if any(each.unbounded for each in advice):
        kept.pop("max_staleness", None)
    warmup = any(each.warmup for each in advice)
    if warmup and about.warmed:
        model, warmup = model or SHAPE, False
    if warmup or model:
        return Recommendation({"steps": _rounded_up(about.settings.steps), **kept}, model=model, warmup=True)
    longer, given = max(each.longer for each in advice), about.settings
    factor, batch_size = _step(advice, longer, about)
    slower = min(1.0, factor)  # a longer step is taken for more effective draws, not for fewer updates
    burn_in = max([given.burn_in, *(each.burn_in for each in advice)]) / slower
    draws = (given.steps - given.burn_in) * max(1.0, longer / max(1.0, factor)) / slower
    numbers: dict[str, Any] = {"steps": _rounded_up(_rounded_up(burn_in) + draws)}
    if burn_in:
        numbers["burn_in"] = _rounded_up(burn_in)
    if (thin := round(given.thin / slower)) > 1:
        numbers["thin"] = thin
    if about.warmed:  # the numbers of the kernels are for its coordinates
        numbers["warmup"] = True
    return Recommendation(
        {**numbers, **kept},
        tuple(
            kernel if factor == 1 else kernel.with_step_size(_two_digits(factor * float(h)))
            for kernel, h in zip(about.kernels, about.steps, strict=True)
        ),
        batch_size,
    )


def _step(advice: Sequence[Advice], longer: float, about: Circumstances) -> tuple[float, int | None]:
    """By what to multiply the step, and the minibatch that goes with it, if it should be another."""
    causes = [each.step for each in advice if each.step is not None]
    noise = min((each.noise for each in advice if each.noise is not None), default=1.0)
    vague = [each.if_unexplained for each in advice if each.if_unexplained is not None]
    if causes or noise < 1:
        step = min([1.0, *causes])
        if noise >= _LEAST_STEP * step or about.batch_size is None:
            return min(step, noise), None
        wanted = about.batch_size(noise / step)
        return step * min(1.0, about.n_data / wanted), min(wanted, about.n_data)
    if vague:
        return min(vague), None
    room = about.room() if longer > 1 else None
    return (1.0 if room is None or room < 1 / _LEAST_STEP else min(room, longer)), None


_DEFAULTS = {each.name: each.default for each in fields(Settings)} | {"architecture": Settings(steps=1).architecture}


def _rounded_up(number: float) -> int:
    """To two digits.

    >>> _rounded_up(12345), _rounded_up(20000), _rounded_up(7.2)
    (13000, 20000, 8)
    """
    unit: int = 10 ** max(0, floor(log10(max(number, 1.0))) - 1)
    return ceil(number / unit) * unit


def _two_digits(number: float) -> float:
    """Rounded down.

    >>> _two_digits(0.00123), _two_digits(0.5)
    (0.0012, 0.5)
    """
    unit = floor(log10(number)) - 1
    return float(f"{floor(number / 10.0**unit * (1 + 1e-12))}e{unit}")


def _written(value: Any) -> str:
    if isinstance(value, int | float | str):
        return literal(value)
    table = architecture_table(value) or {}
    settings = ", ".join(f"{name}={literal(entry)}" for name, entry in table.items() if name != "name")
    return f"sg.{table.get('name', type(value).__name__)}({settings})"


def _filled(text: str, indent: str, further: str | None = None) -> str:
    return textwrap.fill(
        text, _COLUMNS, initial_indent=indent, subsequent_indent=indent if further is None else further,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
