"""A network that loses, delays, repeats, reorders and damages messages, by a plan: for tests of links.

:class:`HostileNetwork` is the plan. What becomes of a message is a function of (seed, wire, number): the same messages
on the same wires suffer the same. :class:`HostileWire` is one direction between a server and a worker: bytes go in as
they were sent, and other bytes, or the same, or none come out. An engine puts one at the place where it takes bytes
from its transport, before anybody has looked at them.
"""

import hashlib
import struct
from collections import deque
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, NamedTuple

from stalegrad._internal.errors import ArgumentError
from stalegrad._internal.validation import real_number, whole_number

TO_WORKER, TO_SERVER = 0, 1
"""The two directions between a server and a worker."""


class Fate(Enum):
    """What becomes of a message."""

    DROP = "drop"
    DELAY = "delay"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    TRUNCATE = "truncate"
    FLIP = "flip"
    PASS = "pass"


class Wire(NamedTuple):
    """One direction between a server and a worker, or an incarnation of it."""

    server: int
    worker: int
    direction: int
    incarnation: int = 0


@dataclass(frozen=True)
class HostileNetwork:
    """The plan of a hostile network: which share of all messages suffers what.

    Args:
        seed: of the plan.
        drop: the share of messages that never arrive.
        delay: that arrive later, after up to ``seconds``.
        duplicate: that arrive twice.
        reorder: that arrive after the next message on the same wire.
        truncate: of which only the beginning arrives.
        flip: in which one to three bits are flipped.
        seconds: of the longest delay.

    >>> HostileNetwork(drop=0.1, seed=1).drop
    0.1
    """

    seed: int = 0
    drop: float = 0.0
    delay: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    truncate: float = 0.0
    flip: float = 0.0
    seconds: float = 0.01

    def __post_init__(self) -> None:
        whole_number("seed", self.seed)
        real_number("seconds", self.seconds, least=0)
        for fate in _SUFFERED:
            real_number(fate.value, self._share(fate), least=0)
        if (total := sum(map(self._share, _SUFFERED))) > 1:
            raise ArgumentError("drop", self.drop, f"and the other shares are {total:g} of all messages", "Give less.")

    @classmethod
    def evenly(cls, share: float, seed: int = 0) -> "HostileNetwork":
        """One in which this share of messages is dropped, as many repeated, reordered, and damaged one way or other."""
        return cls(seed, drop=share, duplicate=share, reorder=share, truncate=share / 2, flip=share / 2)

    def fate(self, wire: Wire, number: int) -> Fate:
        """What becomes of message ``number`` on a wire."""
        u = self._uniform(wire, number, 0)
        for fate in _SUFFERED:
            u -= self._share(fate)
            if u < 0:
                return fate
        return Fate.PASS

    def late(self, wire: Wire, number: int) -> float:
        """Seconds by which a message is delayed, if it is."""
        return self.seconds * self._uniform(wire, number, 1)

    def truncated(self, content: bytes, wire: Wire, number: int) -> bytes:
        """The beginning of a message, at least one byte short."""
        return content[: int(len(content) * self._uniform(wire, number, 1))]

    def flipped(self, content: bytes, wire: Wire, number: int) -> bytes:
        """A message with one to three other bits, all of them different ones."""
        damaged, flips = bytearray(content), 1 + int(3 * self._uniform(wire, number, 1))
        for bit in {int(8 * len(content) * self._uniform(wire, number, 2 + k)) for k in range(flips)}:
            damaged[bit // 8] ^= 1 << bit % 8
        return bytes(damaged)

    def as_table(self) -> dict[str, Any]:
        """The plan as plain data, of which it can be made again."""
        return asdict(self)

    def _share(self, fate: Fate) -> float:
        return float(vars(self)[fate.value])

    def _uniform(self, wire: Wire, number: int, which: int) -> float:
        """A number in [0, 1), a function of its address alone."""
        address = struct.pack("<7q", self.seed, *wire, number, which)
        return (int.from_bytes(hashlib.blake2b(address, digest_size=8).digest(), "little") >> 11) * 2.0**-53


_SUFFERED = [fate for fate in Fate if fate is not Fate.PASS]


class HostileWire:
    """One direction between a server and a worker, with messages that are on their way.

    Args:
        network: the plan.
        wire: which one it is.
    """

    def __init__(self, network: HostileNetwork, wire: Wire) -> None:
        self._network, self._wire = network, wire
        self._number = 0
        self._due: deque[tuple[bytes, Any]] = deque()
        self._delayed: list[tuple[float, tuple[bytes, Any]]] = []
        self._behind_next: list[tuple[bytes, Any]] = []
        self.fates: dict[Fate, int] = dict.fromkeys(Fate, 0)
        """How many messages have suffered what."""

    def put(self, content: bytes, now: float, frame: Any = None) -> None:
        """A message was sent, at this time; ``frame`` is what its transport delivers beside the bytes, always."""
        network, wire, number = self._network, self._wire, self._number
        self._number += 1
        fate = network.fate(wire, number)
        self.fates[fate] += 1
        overtaken, self._behind_next = self._behind_next, []
        if fate is Fate.TRUNCATE:
            content = network.truncated(content, wire, number)
        elif fate is Fate.FLIP:
            content = network.flipped(content, wire, number)
        message = content, frame
        if fate is Fate.DELAY:
            self._delayed.append((now + network.late(wire, number), message))
        elif fate is Fate.REORDER:
            self._behind_next.append(message)
        elif fate is not Fate.DROP:
            self._due.extend([message] * (1 + (fate is Fate.DUPLICATE)))
        self._due.extend(overtaken)

    def take(self, now: float) -> bytes | None:
        """The next message that has arrived by this time, or None."""
        message = self.take_framed(now)
        return None if message is None else message[0]

    def take_framed(self, now: float) -> tuple[bytes, Any] | None:
        """The next message that has arrived by this time, with its frame, or None."""
        for late in [each for each in self._delayed if each[0] <= now]:
            self._delayed.remove(late)
            self._due.append(late[1])
        return self._due.popleft() if self._due else None

    def next_due(self, now: float) -> float | None:
        """Seconds until a message arrives that is on its way; None if no time will bring one."""
        if self._due:
            return 0.0
        return max(0.0, min(when for when, _ in self._delayed) - now) if self._delayed else None
