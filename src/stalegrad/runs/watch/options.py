"""What a user may say about the live page."""

from dataclasses import dataclass
from typing import Any, Self

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.validation import whole_number

PORT = 8707
"""Where pages are served, or at one of the next numbers if it is taken."""


@dataclass(frozen=True)
class Watch:
    """A page that shows a run in a browser while it goes on.

    Args:
        host: the address to listen at. By default nobody but this machine can reach it. ``"0.0.0.0"`` opens it to the
            network: whoever has the address with its token can look on.
        port: where; None for 8707 or the next that is free.
        names: host names under which browsers may ask for it, besides the usual ones of ``host``: all others are
            refused, so that no other site can have a browser ask on its behalf.
        allow_stop: whether there is a second token that lets its holder stop the run.

    >>> Watch(port=8000).host
    '127.0.0.1'
    """

    host: str = "127.0.0.1"
    port: int | None = None
    names: tuple[str, ...] = ()
    allow_stop: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.host, str) or not self.host.strip():
            raise ArgumentError("host", self.host, "is not an address", 'Give "127.0.0.1", or "0.0.0.0" for all.')
        if self.port is not None:
            whole_number("port", self.port, most=65535)
        names = (self.names,) if isinstance(self.names, str) else tuple(self.names)
        object.__setattr__(self, "names", names)

    @classmethod
    def of(cls, given: Any) -> Self:
        """What was given as ``watch``: True, or the options."""
        if given is True:
            return cls()
        if isinstance(given, cls):
            return given
        raise ArgumentError("watch", given, "is neither True nor a Watch", "Give True, or sg.Watch(port=8000).")
