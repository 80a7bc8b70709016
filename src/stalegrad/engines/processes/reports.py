"""What the host and its workers report to the engine: short messages through a socket of the machine."""

import contextlib
import json
import socket

MESSAGE = 1 << 16
"""Bytes of the longest message; one that is longer would arrive cut off."""
_DETAILS = 20_000  # characters of a traceback that are sent, if they fit


def report(link: socket.socket, kind: str, who: tuple[int, ...], details: str = "") -> None:
    """Report to the engine, unless it has ended."""
    with contextlib.suppress(BrokenPipeError, ConnectionError):
        link.send(encoded_report(kind, who, details))


def encoded_report(kind: str, who: tuple[int, ...], details: str) -> bytes:
    """A report as it is sent. Of details that are too long, their beginning and their end: escapes can be long, too."""
    server, worker, incarnation = who
    kept = _DETAILS
    while True:
        shown = details if len(details) <= kept else f"{details[: kept // 5]}\n…\n{details[-(kept - kept // 5) :]}"
        message = {"kind": kind, "server": server, "worker": worker, "incarnation": incarnation, "details": shown}
        content = json.dumps(message).encode()
        if len(content) <= MESSAGE:
            return content
        kept //= 2
