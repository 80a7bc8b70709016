"""What a server in another process reports to the run: how it is doing, and its chain as it is between two updates."""

from collections.abc import Sequence
from typing import NamedTuple

from stalegrad._internal.errors import StalegradError
from stalegrad._internal.types import Array
from stalegrad.engines.base import Event, Outcome, Timing
from stalegrad.engines.local_servers import ChainResult, outcome_of
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.collector import DrawBlock
from stalegrad.protocol.server import ChainStatus


class Snapshot(NamedTuple):
    """A chain as it is between two updates: its state, and what has come since the snapshot before.

    Args:
        number: of the snapshot, from 0.
        version: of the chain.
        state: of its sampler; empty if the run cannot go on from here.
        rows: of the trace, since the snapshot before.
        draws: since the snapshot before; None where they travel by themselves, or are on disk.
        events: faults of workers, since the snapshot before.
    """

    number: int
    version: int
    state: dict[str, Array]
    rows: ChainTrace
    draws: DrawBlock | None
    events: tuple[Event, ...]


class Report(NamedTuple):
    """How a server elsewhere is doing.

    Args:
        status: how far the chain is.
        timing: where its seconds went.
        snapshot: the oldest one that the reader does not have yet.
        ended: whether this is the last report: there will be no other snapshot.
        failure: why it ended before its time.
        absent: workers that were to start and have given no sign of life yet.
        interrupted: whether a signal to stop reached it.
    """

    status: ChainStatus
    timing: Timing
    snapshot: Snapshot | None
    ended: bool
    failure: Exception | None = None
    absent: int = 0
    interrupted: bool = False


def outcome_of_reports(reports: Sequence[Report]) -> Outcome:
    """The outcome of a run out of the last reports of its servers, each with a snapshot of the whole chain."""
    results = []
    for report in reports:
        assert report.snapshot is not None, "a last report has the whole chain"
        results.append(ChainResult(report.snapshot.rows, report.snapshot.events, report.timing))
    failures = [report.failure for report in reports if isinstance(report.failure, StalegradError)]
    interrupted = any(report.interrupted for report in reports)
    return outcome_of(results, interrupted=interrupted, failure=failures[0] if failures else None)
