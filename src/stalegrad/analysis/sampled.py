"""What pictures and reports need of a run, whatever made it."""

from collections.abc import Callable
from typing import Any, Protocol

from stalegrad._internal.types import Array
from stalegrad.analysis.estimates import Estimate
from stalegrad.engines import Event, Timing
from stalegrad.protocol.draws import DrawStats
from stalegrad.protocol.trace import Trace


class Sampled(Protocol):
    """A run, as far as it is looked at. Draws may be on disk: they are sliced, then read."""

    @property
    def draws(self) -> Array:
        """Draws that all chains have, (chain, draw, n)."""
        ...

    @property
    def chain_draws(self) -> tuple[Array, ...]:
        """All draws of each chain, (draw, n)."""
        ...

    @property
    def trace(self) -> Trace:
        """Who sent which gradient when, and what became of it."""
        ...

    @property
    def stats(self) -> DrawStats:
        """What was noted beside each draw that all chains have."""
        ...

    @property
    def events(self) -> tuple[Event, ...]:
        """What went wrong with workers, in order."""
        ...

    @property
    def timing(self) -> Timing | None:
        """Where the time went; None if it was virtual."""
        ...

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped before its end."""
        ...

    @property
    def variables(self) -> Callable[[Array], dict[str, Array]]:
        """Turns draws (…, n) into named variables."""
        ...

    def estimate(self, phi: Callable[[Array], Any], *, batched: bool = False) -> Estimate:
        """φ̂ over all chains with its Monte Carlo standard error."""
        ...
