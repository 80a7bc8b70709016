"""Where workers that are jobs of their own join a server: a port, and a folder in which it is written.

The server never waits for anybody: it accepts whoever connects, and listens to each until it has shown that it knows
the run's secret (:mod:`stalegrad.engines.mpi.join_handshake`) or has taken too long. Others are turned away.
"""

import fcntl
import ipaddress
import json
import logging
import os
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from stalegrad._internal.errors import StalegradError
from stalegrad.engines.mpi import join_handshake as handshake
from stalegrad.engines.mpi.join_folder import JoinFolder
from stalegrad.engines.mpi.join_handshake import FORMAT, Verdict

LISTEN = "STALEGRAD_LISTEN"
"""The variable that names the one address of this machine on which a server is to listen."""
_MOST_CANDIDATES = 64  # who have connected and not shown yet that they know the secret; others wait in line
_SHOWING = 20.0  # seconds that they have to show it

log = logging.getLogger("stalegrad")


class Candidate:
    """A process that has connected, and is yet to show that it knows the secret.

    Args:
        connection: its socket.
        address: where it comes from.
        secret: what it must know.
    """

    def __init__(self, connection: socket.socket, address: str, secret: bytes) -> None:
        connection.setblocking(False)
        self.connection, self.address, self._secret = connection, address, secret
        self._challenge, self._answer = handshake.make_challenge(), b""
        self._since = time.monotonic()
        self.model: int | None = None
        """The fingerprint of its model, once it has shown that it knows the secret."""
        self.gone = False
        """Whether it has left, or has said something else."""
        with suppress(OSError):
            connection.send(self._challenge)  # short enough for the buffer of any socket

    @property
    def age(self) -> float:
        """Seconds that have passed since it connected."""
        return time.monotonic() - self._since

    def listen(self) -> None:
        """Read what has come, and judge it once it is complete."""
        try:
            piece = self.connection.recv(handshake.ANSWER_BYTES - len(self._answer))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        self._answer += piece
        self.gone = not piece
        if len(self._answer) == handshake.ANSWER_BYTES:
            self.model = handshake.model_of(self._secret, self._challenge, self._answer)
            self.gone = self.model is None

    def tell(self, verdict: Verdict) -> None:
        """Tell a worker that knows the secret what becomes of it."""
        with suppress(OSError):
            self.connection.send(handshake.make_verdict(self._secret, self._challenge, self._answer, verdict))


class JoinPort:
    """The server's side: where workers connect.

    Args:
        folder: that all see; it must be this user's, and nobody else may write to it.
        server: which server.
        places: how many workers it may have.
        broadcasts: what the leader has sent to the other servers before the run began, for workers that join.
    """

    def __init__(self, folder: Path, server: int, places: int, broadcasts: Sequence[str]) -> None:
        self.folder, self.server, self._name = folder, server, f"server-{server}"
        self._broadcasts, self._free = list(broadcasts), places
        self._candidates: list[Candidate] = []
        self.turned_away = 0
        """How many have connected and did not know the secret."""
        self._files = JoinFolder(folder, create=True)
        try:
            self._lock = self._files.lock(f"{self._name}.lock")
            try:
                self._socket, self._addresses = _listening()
                self._secret = self._files.write_secret(f"{self._name}.secret")
                self._write()
            except BaseException:
                os.close(self._lock)
                raise
        except BaseException:
            self._files.close()
            raise

    def publish(self, free: int) -> None:
        """Say how many places are free. A disk that is full for a moment does not end a run."""
        self._free = free
        try:
            self._write()
        except OSError as error:
            log.warning("workers cannot see that server %d has %d places free: %s", self.server, free, error)

    def _write(self) -> None:
        """Say where the server is, and how many places are free."""
        about = {
            "format": FORMAT, "addresses": self._addresses, "port": self._socket.getsockname()[1], "free": self._free,
            "turned_away": self.turned_away, "broadcasts": self._broadcasts, "host": socket.gethostname(),
            "pid": os.getpid(),
        }  # fmt: skip
        self._files.write(f"{self._name}.json", json.dumps(about).encode())

    def accept(self) -> list[Candidate]:
        """Those who have just shown that they know the secret. The caller tells them what becomes of them."""
        while len(self._candidates) < _MOST_CANDIDATES:
            try:
                connection, address = self._socket.accept()
            except OSError:  # nobody else; or one who has left again
                break
            self._candidates.append(Candidate(connection, address[0].removeprefix("::ffff:"), self._secret))
        known = []
        for candidate in self._candidates:
            candidate.listen()
            if candidate.model is not None:
                known.append(candidate)
            elif candidate.gone or candidate.age > _SHOWING:
                candidate.connection.close()
                candidate.gone = True
                self._turn_away(candidate.address)
        self._candidates = [each for each in self._candidates if each.model is None and not each.gone]
        return known

    def close(self) -> None:
        """Accept no more workers, and remove the files."""
        self._socket.close()
        for candidate in self._candidates:
            candidate.connection.close()
        self._files.remove(*(f"{self._name}.{kind}" for kind in ("json", "secret", "lock")))
        os.close(self._lock)
        self._files.close()
        with suppress(OSError):
            self.folder.rmdir()  # if it is empty

    def _turn_away(self, address: str) -> None:
        """Count who did not know the secret; said each time that their number has doubled, lest they fill the disk."""
        self.turned_away += 1
        if self.turned_away & (self.turned_away - 1) == 0:
            log.warning(
                "server %d has turned away a connection from %s that did not show the run's secret; %d so far",
                self.server, address, self.turned_away,
            )  # fmt: skip
            self.publish(self._free)


def _listening() -> tuple[socket.socket, list[str]]:
    """A socket to which workers can connect without anybody waiting for them, and this machine's addresses."""
    only = os.environ.get(LISTEN)
    try:
        if only:
            family = socket.AF_INET6 if ipaddress.ip_address(only).version == 6 else socket.AF_INET
            made = socket.create_server((only, 0), family=family, backlog=128)
        elif socket.has_dualstack_ipv6():
            made = socket.create_server(("", 0), family=socket.AF_INET6, backlog=128, dualstack_ipv6=True)
        else:
            made = socket.create_server(("", 0), backlog=128)
    except (OSError, ValueError) as error:
        where = f"{LISTEN}={only}" if only else "this machine"
        raise StalegradError(
            f"no port could be opened on {where} to which workers could connect ({error}). Set {LISTEN} to an address "
            "of this machine, or start the workers together with the servers, without elastic=..."
        ) from error
    made.setblocking(False)
    return made, [only] if only else _own_addresses()


def _own_addresses() -> list[str]:
    """Addresses at which this machine may be reached, those that others can reach first."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, card in socket.if_nameindex():
            with suppress(OSError):
                asked = struct.pack("256s", card.encode()[:15])
                answer = fcntl.ioctl(probe.fileno(), 0x8915, asked)  # SIOCGIFADDR, of Linux
                found.append(socket.inet_ntoa(answer[20:24]))
    if not any(not ipaddress.ip_address(address).is_loopback for address in found):
        with suppress(OSError):
            there = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
            found += [str(address[0]) for *_, address in there]
    found.append("127.0.0.1")
    return sorted(dict.fromkeys(found), key=lambda address: ipaddress.ip_address(address).is_loopback)
