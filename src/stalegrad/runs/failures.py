"""Runs that are not whole: exceptions that hold what was sampled so far."""

from stalegrad._internal.errors import GradientError, StalegradError
from stalegrad.runs.result import Run


class RunFailed(StalegradError, RuntimeError):
    """A run that could not go on. ``run`` holds everything sampled until then.

    >>> import numpy as np, stalegrad as sg
    >>> def gradient(theta, indices):
    ...     return 10 * theta if abs(theta[0]) < 1e6 else np.full(1, np.nan)
    >>> model = sg.potentials.from_gradient(gradient, size=1, n_data=1, initial=[1.0])
    >>> try:
    ...     sg.sample(model, sg.SGLD(step_size=1.0), steps=1000, engine="inline", progress=False)
    ... except RunFailed as failed:
    ...     print(failed.run.draws.shape[1] < 1000)
    True
    """

    def __init__(self, reason: str, run: Run) -> None:
        super().__init__(f"{reason}. All {run.draws.shape[-2]:,} draws so far are in the exception's .run")
        self.run = run


class Diverged(RunFailed, GradientError):
    """A run of which a chain has diverged. ``run`` holds what was kept of it; the message says how to go on."""

    def __init__(self, reason: str, run: Run, smaller: float) -> None:
        self.run, self.reason = run, reason
        self.smaller = smaller
        """A step size to go on with."""
        StalegradError.__init__(self, f"{reason}. {self._way_on()}")

    def _way_on(self) -> str:
        if self.run.store is None:
            way = f"step_size={self.smaller:g}, or without a kernel, so that one is found"
            return f"Begin again with {way}. The draws until then are in the exception's .run"
        place = repr(str(self.run.store))
        way = f"Go on from its last good checkpoint: sg.resume({place}, …, step_size={self.smaller:g}), or begin again"
        return f"{way}: sg.sample(…, store={place}, overwrite=True)"
