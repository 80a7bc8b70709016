"""The processor seconds of a run, divided into what its warm-up took and what the sampling took."""

import time
from typing import Any, ClassVar, NamedTuple

from stalegrad.engines import Inline
from stalegrad.engines.base import Job, Outcome


class SplitRun(NamedTuple):
    """A run and its processor seconds."""

    run: Any
    warmup: float
    sampling: float

    @property
    def share(self) -> float:
        """Of the warm-up in the whole."""
        return self.warmup / (self.warmup + self.sampling)


class Marking(Inline):
    """The inline engine, which remembers when it was asked to sample: everything before was the warm-up."""

    begun: ClassVar[float] = 0.0

    def run(self, job: Job) -> Outcome:
        """Sample."""
        Marking.begun = time.process_time()
        return super().run(job)


def sample(potential: Any, **options: Any) -> SplitRun:
    """``sg.sample(potential, **options)`` on the inline engine. Processor time: others may use the machine as well."""
    import stalegrad as sg

    begun = time.process_time()
    run = sg.sample(potential, engine=Marking(), progress=False, **options)
    return SplitRun(run, Marking.begun - begun, time.process_time() - Marking.begun)
