"""What a report is made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stalegrad.plots import Chosen
from stalegrad.report.summaries import Summary
from stalegrad.result import Run


class Measured(Protocol):
    """What a check measured, in words."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def what(self) -> str: ...  # noqa: D102


class Finding(Protocol):
    """Something that ``run.diagnose()`` found: what it is, why it matters and what to set."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def measurement(self) -> Measured: ...  # noqa: D102
    @property
    def severity(self) -> str: ...  # noqa: D102
    @property
    def why(self) -> str: ...  # noqa: D102
    @property
    def remedy(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Material:
    """A run, and all that was worked out of it.

    Args:
        run: the run.
        chosen: the quantities that are shown.
        summaries: their numbers.
        findings: of ``run.diagnose()``; None if nobody looked.
        about: what is known beyond the run itself, such as what a store keeps.
        light: the pictures by name, as PNG.
        dark: the same for dark screens.
    """

    run: Run
    chosen: Chosen
    summaries: tuple[Summary, ...]
    findings: Sequence[Finding] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    light: Mapping[str, bytes] = field(default_factory=dict)
    dark: Mapping[str, bytes] = field(default_factory=dict)

    def known(self, name: str) -> Any:
        """A setting of the run: from the trace, or from the configuration in ``about``; None if it is in neither."""
        configuration = self.about.get("configuration")
        elsewhere = configuration.get(name) if isinstance(configuration, Mapping) else None
        return self.run.trace.about.get(name, elsewhere)

    @property
    def workers(self) -> int:
        """W: as it was set, or as many as sent gradients."""
        seen = max((int(chain.worker.max(initial=0)) for chain in self.run.trace.chains), default=0) + 1
        return int(self.known("workers") or seen)
