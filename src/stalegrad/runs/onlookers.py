"""Everybody who looks on while a run is made: the progress display, observers and the live page."""

import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.version import VERSION
from stalegrad.engines import Job, Outcome
from stalegrad.runs.prepare import Prepared
from stalegrad.runs.result import TestFunction

_COLUMNS = 80  # as the findings below it

if TYPE_CHECKING:
    from stalegrad.runs.averages import Averages
    from stalegrad.runs.observers.live import LiveSource
    from stalegrad.runs.observers.observer import Observer
    from stalegrad.runs.progress import RunningAverages
    from stalegrad.runs.recorders.disk import DiskRecorder
    from stalegrad.runs.recorders.memory import Recorder
    from stalegrad.runs.recorders.stream import StreamRecorder
    from stalegrad.runs.watch.options import Watch


@dataclass(frozen=True)
class Onlookers:
    """Who looks on.

    Args:
        progress: whether there is a display on standard error, or in the notebook.
        functions: test functions to show averages of.
        observers: those of the user.
        watch: the live page, if there is to be one.
    """

    progress: bool = False
    functions: Mapping[str, TestFunction] = field(default_factory=dict)
    observers: Sequence["Observer"] = ()
    watch: "Watch | None" = None

    @classmethod
    def of(cls, progress: bool, functions: Any, observers: Any, watch: Any) -> "Onlookers":
        """As the arguments of a run say, checked before anything begins."""
        seen = cls(progress, _checked_functions(functions))
        if observers is not None:
            from stalegrad.runs.observers.tables import check_observers

            seen = replace(seen, observers=check_observers(observers))
        if watch is not False and watch is not None:
            from stalegrad.runs.watch.opening import require
            from stalegrad.runs.watch.options import Watch

            require()
            seen = replace(seen, watch=Watch.of(watch))
        return seen

    def run(
        self,
        prepared: Prepared,
        job: Job,
        recorder: "Recorder | DiskRecorder | StreamRecorder",
        store: Path | None = None,
        averages: "Averages | None" = None,
    ) -> Outcome:
        """Run the job while they look on. Those of other processes of a team do not.

        Where functions are averaged anyway, these are shown, and those of :attr:`functions` are not.
        """
        if not prepared.team.leads or not (self.progress or self.observers or self.watch):
            return prepared.engine.run(job)
        from stalegrad.runs.notebook import NotebookProgress, in_notebook
        from stalegrad.runs.progress import Progress, RunningAverages, verdict  # rich takes a while to import

        settings, running = prepared.settings, None
        with ExitStack() as stack:
            if self.functions and averages is None:
                running = RunningAverages(self.functions, recorder.draws_in_memory, prepared.kernels, settings.thinning)
            shown = averages or running
            finish = self._observed(stack, prepared, job, recorder, shown, store)
            if self.progress:
                display = NotebookProgress if in_notebook() else Progress
                stack.enter_context(display(job.status, settings.steps, shown))
            if running is not None:
                stack.enter_context(running)
            try:
                outcome = prepared.engine.run(job)
            except BaseException as failure:
                finish("failed", f"{type(failure).__name__}: {failure}")
                raise
            state = "failed" if outcome.failure else "interrupted" if outcome.interrupted else "finished"
            finish(state, str(outcome.failure) if outcome.failure else f"the run has {_ENDED[state]}")
        if self.progress and outcome.timing is not None and outcome.failure is None:
            said = verdict(outcome.timing, settings.servers, settings.workers, prepared.team.cores)
            print(textwrap.fill(said, _COLUMNS), file=sys.stderr)
        return outcome

    def _observed(
        self,
        stack: ExitStack,
        prepared: Prepared,
        job: Job,
        recorder: "Recorder | DiskRecorder | StreamRecorder",
        averages: "RunningAverages | Averages | None",
        store: Path | None,
    ) -> Callable[[str, str], None]:
        """Let observers see the run until the stack is left; what to call when it ends."""
        if not self.observers and self.watch is None:
            return lambda state, text: None
        from stalegrad.runs.observers.audience import Audience
        from stalegrad.runs.observers.sampler import Sampler
        from stalegrad.runs.observers.snapshot import Happening
        from stalegrad.runs.observers.stored import StoredSource

        source = live_source(prepared, job, recorder, averages, store)
        observers = list(self.observers)
        audience = Audience(observers, lambda: sampler.latest)
        sampler = Sampler(source, tell=audience.tell)
        if store is not None and any(past.rows for past in job.past):
            sampler.remember(StoredSource(store))
        if self.watch is not None:
            from stalegrad.runs.watch.opening import open_page

            page = open_page(self.watch, sampler, stop=job.ask_to_stop, secret=store)
            print(page.announcement(), file=sys.stderr)
        audience.begin(source.recipe)
        began = "goes on" if any(past.rows for past in job.past) else "has begun"
        source.happened(Happening("start", source.seconds(), f"the run {began}"))
        stack.callback(audience.end)
        stack.enter_context(sampler)
        return source.ended


_ENDED = {"finished": "finished", "interrupted": "been interrupted", "failed": "failed"}


def live_source(
    prepared: Prepared,
    job: Job,
    recorder: "Recorder | DiskRecorder | StreamRecorder",
    averages: "RunningAverages | Averages | None" = None,
    store: Path | None = None,
) -> "LiveSource":
    """What observers can see of a run that is made here."""
    from stalegrad.runs.observers.live import LiveSource
    from stalegrad.runs.observers.snapshot import Recipe
    from stalegrad.runs.warmup.record import WarmupRecord

    model, settings, warmup = prepared.potential, prepared.settings, prepared.warmup
    name = type(model).__name__ if store is None else store.name
    record = prepared.record().table()
    recipe = Recipe(name, record, not prepared.engine.has_workers, None if store is None else str(store), VERSION)
    coordinates = prepared.coordinates
    return LiveSource(
        recipe, job.status, settings, prepared.kernels, model, recorder.draws_in_memory, recorder.commits, averages,
        curvature=None if warmup is None else WarmupRecord.from_table(warmup).curvature,
        potential=prepared.target,
        to_coordinates=None if coordinates is None else coordinates.inverse,
        begun=max((past.seconds for past in job.past), default=0.0),
    )  # fmt: skip


def _checked_functions(functions: Any) -> Mapping[str, TestFunction]:
    if functions is None:
        return {}
    if not isinstance(functions, Mapping) or not all(callable(phi) for phi in functions.values()):
        remedy = 'Give a mapping from name to function of one draw, such as {"loss": test_loss}.'
        raise ArgumentError("functions", functions, "is not a mapping of functions", remedy)
    return functions
