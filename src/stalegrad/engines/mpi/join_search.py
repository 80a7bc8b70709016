"""How a worker that is a job of its own finds a server in the folder of a run, and shows that it knows the secret."""

import errno
import json
import re
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from stalegrad._internal.errors import ArgumentError, StalegradError
from stalegrad.engines.mpi import join_handshake as handshake
from stalegrad.engines.mpi.join_folder import JoinFolder
from stalegrad.engines.mpi.join_handshake import FORMAT, Verdict
from stalegrad.engines.mpi.join_port import LISTEN

_CONNECTING = 5.0  # seconds for each of a server's addresses
_ANSWERING = 60.0  # seconds that a server may take for an answer


def find_server(folder: Path) -> tuple[str, dict[str, Any]]:
    """The name of the server with most places free, and what it has published."""
    files = JoinFolder(folder)
    try:
        return _find_server(files)
    finally:
        files.close()


def _find_server(files: JoinFolder) -> tuple[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in files.names():
        if re.fullmatch(r"server-\d+\.json", name):
            with suppress(OSError, ValueError):
                found[name.removesuffix(".json")] = json.loads(files.read(name))
    if not found:
        raise StalegradError(f"no server can be joined in {files.path}. Start the run first")
    if any(not isinstance(about, dict) or about.get("format") != FORMAT for about in found.values()):
        raise StalegradError(f"the run in {files.path} is of another version of stalegrad. Start workers with the same")
    name = max(found, key=lambda name: (found[name]["free"], secrets.randbits(32)))  # chance decides between equals
    return name, found[name]


def join_server(folder: Path, model: int) -> tuple[socket.socket, Verdict]:
    """Connect to the server with most places free, and show that this process knows the secret.

    Args:
        folder: of the run.
        model: the fingerprint of the model.
    """
    files = JoinFolder(folder)
    try:
        name, about = _find_server(files)
        if not about["free"]:
            raise StalegradError(f"all places in {folder} are taken. Give the run more workers=...")
        try:
            secret = files.read(f"{name}.secret", private=True)
        except OSError as error:
            raise StalegradError(f"the secret of {name} in {folder} cannot be read: {error}") from error
    finally:
        files.close()
    problems = []
    for address in about["addresses"]:
        try:
            connection = socket.create_connection((address, about["port"]), _CONNECTING)
        except OSError as error:
            problems.append(f"{address}: {error}")
            continue
        try:
            return connection, _shake_hands(connection, secret, model)
        except OSError as error:
            connection.close()
            problems.append(f"{address}: {error}")
        except StalegradError:
            connection.close()
            raise
    raise StalegradError(
        f"{name} on {about['host']}, port {about['port']}, could not be reached ({'; '.join(problems)}). Is it still "
        f"there? If it has several networks, set {LISTEN} to one that all machines reach where it is started"
    )


def _shake_hands(connection: socket.socket, secret: bytes, model: int) -> Verdict:
    """The worker's part of the handshake; :class:`OSError` if nobody of this run is there."""
    connection.settimeout(_ANSWERING)
    challenge = _exactly(connection, handshake.CHALLENGE_BYTES)
    if not handshake.is_challenge(challenge):
        raise OSError("something else answers there")
    answer = handshake.make_answer(secret, challenge, model)
    connection.sendall(answer)
    try:
        message = _exactly(connection, handshake.VERDICT_BYTES)
    except ConnectionError as error:
        raise OSError("it has turned us away: the secret in the folder is not the one of its run") from error
    verdict = handshake.read_verdict(secret, challenge, answer, message)
    if verdict is None:
        raise OSError("who answers there does not know the run's secret")
    if verdict.kind != handshake.WELCOME:
        problem, remedy = "no place left", "Give it more workers=..."
        if verdict.kind == handshake.OTHER_MODEL:
            problem, remedy = "another model or seed", "A worker calls sg.sample as the server does, on the same data."
        raise ArgumentError("engine", "mpi", f"the run that was to be joined has {problem}", remedy)
    return verdict


def _exactly(connection: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        piece = connection.recv(count - len(content))
        if not piece:
            raise ConnectionResetError(errno.ECONNRESET, "the connection was closed")
        content += piece
    return content
