"""What a report is made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stalegrad._internal.tables import OPAQUE, Table
from stalegrad.analysis.diagnostics import Findings
from stalegrad.analysis.plots import Chosen
from stalegrad.analysis.report.summaries import Summary
from stalegrad.analysis.sampled import Sampled
from stalegrad.protocol.run_record import RunRecord


@dataclass(frozen=True, eq=False)
class Material:
    """A run, and all that was worked out of it.

    Args:
        run: the run.
        chosen: the quantities that are shown.
        summaries: their numbers.
        findings: of ``run.diagnose()``; None without a diagnosis.
        about: what is known beyond the run itself, such as what a store keeps.
        light: the pictures by name, as PNG.
        dark: the same for dark screens.
    """

    run: Sampled
    chosen: Chosen
    summaries: tuple[Summary, ...]
    findings: Findings | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    light: Mapping[str, bytes] = field(default_factory=dict)
    dark: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def record(self) -> RunRecord | None:
        """What is remembered of the run; None of a trace that no run has left."""
        return self.run.trace.record

    @property
    def kernels(self) -> tuple[Table, ...]:
        """The tables of the samplers, if they are known."""
        return () if self.record is None else self.record.kernels

    @property
    def engine(self) -> str:
        """The engine's name, if it is known."""
        return "" if self.record is None else str(self.record.engine.get("name", self.record.engine.get(OPAQUE, "")))
