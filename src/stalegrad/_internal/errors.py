"""Every exception that stalegrad raises on purpose, and the one way in which argument errors are worded."""

from typing import Any


class StalegradError(Exception):
    """Base class: ``except sg.StalegradError`` catches whatever this package raises on purpose."""


class ArgumentError(StalegradError, ValueError):
    """An argument that cannot be used. The message names it, shows what was given and says what to do."""

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
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: pip install 'stalegrad[{extra}]'")
        self.feature, self.extra = feature, extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.feature, self.extra)


class GradientError(StalegradError, RuntimeError):
    """A gradient that must not touch the chain: not finite, of the wrong shape or of the wrong type."""


class NotFinite(GradientError):
    """A gradient with NaN or infinity in it: most often that of a chain that has diverged."""


class DatasetError(StalegradError, RuntimeError):
    """A data set that is damaged, or neither at hand nor to be had. The message says what to put where."""


class JobError(StalegradError, ValueError):
    """A job file that cannot be read, or a model that it names and that cannot be made. The message says where."""


class TraceError(StalegradError, ValueError):
    """A trace that contradicts itself, does not fit the model, or is damaged on disk."""


class StoreError(StalegradError, RuntimeError):
    """A store on disk that cannot be read, written or continued. The message says what is the matter and what to do."""


class _Shown(str):
    """A value that is text already: it came out of a pickle."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({type(value).__name__})"
