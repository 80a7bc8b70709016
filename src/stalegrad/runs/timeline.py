"""Who computed when, for how long, as Chrome's trace format: Perfetto (https://ui.perfetto.dev) opens it.

A chain is a process and a worker a thread of it. Every gradient is a slice that ends when its server dealt with it and
is as long as its worker computed; what is between two slices of a worker is exchange and waiting. Gradients that came
too late are named so. Faults are instants.
"""

import gzip
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.files import PARTIAL
from stalegrad._internal.validation import real_number
from stalegrad.engines import Event
from stalegrad.protocol.chain_trace import ChainTrace
from stalegrad.protocol.trace import Trace

_MICROSECONDS = 1e6


def write_timeline(
    trace: Trace, path: str | os.PathLike[str], *, events: Sequence[Event] = (), begin: float = 0.0, end: float = inf
) -> int:
    """Write the timeline of a run to a file; the number of gradients in it.

    A row takes about 150 bytes, a tenth of it in a file whose name ends in ``.gz``, which Perfetto opens as well. Of a
    long run take a part: Perfetto itself takes a few million slices.

    Args:
        trace: of the run.
        path: of the file.
        events: faults of workers.
        begin: from which second of the run on.
        end: up to which.
    """
    real_number("begin", begin, least=0)
    if not end > begin:
        raise ArgumentError("end", end, f"is not after begin={begin:g}", "Give a later second of the run.")
    if not any(chain.seconds for chain in trace.chains):
        problem = "has no times: no run has left it"
        raise ArgumentError("trace", trace, problem, "Take that of a run, or of sg.simulate(...).")
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    count = 0
    try:
        with open(descriptor, "wb") as raw:
            out: Any = gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=4) if path.suffix == ".gz" else raw
            text = io.TextIOWrapper(out, "utf-8", write_through=False)
            text.write('{"displayTimeUnit":"ms","traceEvents":[\n')
            text.write(",\n".join(map(json.dumps, _names(trace))))
            for s, chain in enumerate(trace.chains):
                for slices, number in _slices(s, chain, begin, end):
                    text.write(slices)
                    count += number
            for event in events:
                if begin <= event.time <= end:
                    text.write(",\n" + json.dumps(_instant(event)))
            text.write("\n]}\n")
            text.flush()
            text.detach()
            if out is not raw:
                out.close()
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return count


def _names(trace: Trace) -> Iterator[dict[str, Any]]:
    for s in range(len(trace)):
        yield {"ph": "M", "name": "process_name", "pid": s, "args": {"name": f"chain {s}"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": s, "args": {"sort_index": s}}
        for worker in range(trace.workers):
            yield {"ph": "M", "name": "thread_name", "pid": s, "tid": worker, "args": {"name": f"worker {worker}"}}


def _slices(s: int, chain: ChainTrace, begin: float, end: float) -> Iterator[tuple[str, int]]:
    """The rows of a chain in this time as text, a block at a time, each with the comma before it; and how many."""
    version = 0
    for block in chain.blocks():
        accepted = np.asarray(block.accepted, bool)
        versions = version + np.cumsum(accepted) - accepted
        version += int(np.count_nonzero(accepted))
        time = np.full(len(block), np.nan) if block.time is None else np.asarray(block.time)
        seconds = np.zeros(len(block)) if block.gradient_seconds is None else np.nan_to_num(block.gradient_seconds)
        rows = np.flatnonzero((time >= begin) & (time - seconds <= end))
        if not len(rows):
            continue
        columns: Iterable[tuple[Any, ...]] = zip(
            block.worker[rows].tolist(), block.count[rows].tolist(), block.staleness[rows].tolist(),
            accepted[rows].tolist(), versions[rows].tolist(), time[rows].tolist(), seconds[rows].tolist(), strict=True,
        )  # fmt: skip
        lines = [
            f',\n{{"ph":"X","pid":{s},"tid":{worker},"name":"{"gradient" if taken else "dropped"}",'
            f'"ts":{(at - took) * _MICROSECONDS:.3f},"dur":{took * _MICROSECONDS:.3f},'
            f'"args":{{"minibatch":{count},"staleness":{tau},"version":{made}}}'
            + ("}" if taken else ',"cname":"terrible"}')
            for worker, count, tau, taken, made, at, took in columns
        ]
        yield "".join(lines), len(lines)


def _instant(event: Event) -> dict[str, Any]:
    return {
        "ph": "i", "pid": event.chain, "tid": event.worker or 0, "ts": event.time * _MICROSECONDS,
        "s": "p" if event.worker is None else "t", "name": event.kind, "args": {"details": event.details},
    }  # fmt: skip
