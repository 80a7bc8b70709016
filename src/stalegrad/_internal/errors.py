"""Every exception that stalegrad raises on purpose, and the one way in which argument errors are worded."""

from typing import Any


class StalegradError(Exception):
    """Base class: ``except sg.StalegradError`` catches whatever this package raises on purpose.

    >>> import stalegrad as sg
    >>> try:
    ...     sg.SGLD(step_size=-1.0)
    ... except sg.StalegradError as error:
    ...     print(type(error).__name__)
    ArgumentError
    """


class ArgumentError(StalegradError, ValueError):
    """An argument that cannot be used. The message names it, shows what was given and says what to do.

    >>> print(ArgumentError("friction", -1, "is not positive", "Give a number > 0."))
    friction=-1: is not positive. Give a number > 0.
    """

    def __init__(self, name: str, given: Any, problem: str, remedy: str) -> None:
        self.name, self.given, self.problem, self.remedy = name, _short(given), problem, remedy
        super().__init__(f"{name}={self.given}: {problem}. {remedy}")

    def inside(self, table: str) -> "ArgumentError":
        """The same complaint with the name of the table that holds the argument, if any: ``kernel.friction``."""
        name = f"{table}.{self.name}" if table else self.name
        return ArgumentError(name, _Shown(self.given), self.problem, self.remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, _Shown(self.given), self.problem, self.remedy)


class MissingExtra(StalegradError, ImportError):
    """An optional dependency is not installed.

    >>> print(MissingExtra("from_torch", "torch"))
    from_torch needs an optional dependency: pip install 'stalegrad[torch]'
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: pip install 'stalegrad[{extra}]'")
        self.feature, self.extra = feature, extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.feature, self.extra)


class GradientError(StalegradError, RuntimeError):
    """A gradient that must not touch the chain: not finite, of the wrong shape or of the wrong type.

    >>> import numpy as np, stalegrad as sg
    >>> model = sg.potentials.from_gradient(lambda theta, indices: np.zeros(3), size=2, n_data=1)
    >>> try:
    ...     model.full_gradient(np.zeros(2))
    ... except GradientError as error:
    ...     print("(3,)" in str(error))
    True
    """


class NotFinite(GradientError):
    """A gradient with NaN or infinity in it: most often that of a chain that has diverged."""


class DatasetError(StalegradError, RuntimeError):
    """A data set that is damaged, or neither at hand nor to be had. The message says what to put where.

    >>> issubclass(DatasetError, StalegradError)
    True
    """


class JobError(StalegradError, ValueError):
    """A job file that cannot be read, or a model that it names and that cannot be made. The message says where.

    >>> import stalegrad as sg
    >>> from stalegrad.runs.jobs import JobFile
    >>> try:
    ...     JobFile.read("no-such-file.toml")
    ... except JobError as error:
    ...     print("no-such-file.toml" in str(error))
    True
    """


class TraceError(StalegradError, ValueError):
    """A trace that contradicts itself, does not fit the model, or is damaged on disk.

    >>> import stalegrad as sg
    >>> trace = sg.simulate(workers=2, steps=10)
    >>> try:
    ...     sg.replay(trace, sg.testing.small_model())
    ... except StalegradError as error:
    ...     print("kernel" in str(error))
    True
    """


class StoreError(StalegradError, RuntimeError):
    """A store on disk that cannot be read, written or continued. The message says what is the matter and what to do.

    >>> import stalegrad as sg
    >>> try:
    ...     sg.load("no-such-run")
    ... except StoreError as error:
    ...     print("no-such-run" in str(error))
    True
    """


class _Shown(str):
    """A value that is text already: it came out of a pickle."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({type(value).__name__})"
