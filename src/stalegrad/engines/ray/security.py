"""Which Ray clusters may be used. A client of one can run any program on all of its nodes.

Ray asks for a token if ``RAY_AUTH_MODE`` was ``token`` when the cluster was started, and for nothing otherwise. A
cluster that listens on this machine's loopback alone is out of the network's reach. Any other must not answer without a
token.
"""

import atexit
import ipaddress
import os
import secrets
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from stalegrad._internal.errors import ArgumentError
from stalegrad.engines.module_path import SAFE_PYTHON, module_path

_SECONDS = 60.0

# Run with authentication off: who is answered all the same has found an open cluster.
_PROBE = """
import sys
from ray._raylet import GcsClient
from ray.exceptions import AuthenticationError
try:
    GcsClient(sys.argv[1]).internal_kv_get(b"stalegrad", None, timeout=20)
except AuthenticationError:
    print("closed")
else:
    print("open")
"""


def address_parts(address: str) -> tuple[str, int]:
    """Host and port of an address.

    >>> address_parts("head.example.org:6379"), address_parts("[::1]:6379")
    (('head.example.org', 6379), ('::1', 6379))
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ArgumentError("address", address, "is not an address", 'Give "host:port", "auto" or None.')
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether an address ``host:port`` is one that other machines cannot reach.

    >>> [is_loopback(address) for address in ("127.0.0.1:6379", "localhost:6379", "[::1]:6379", "10.0.0.7:6379")]
    [True, True, True, False]
    """
    host, _ = address_parts(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def asks_for_token() -> bool:
    """Whether Ray, in this process, shows a token to whomever it connects to."""
    return os.environ.get("RAY_AUTH_MODE", "").lower() == "token"


def refuse_tokenless_connection(address: str, insecure: bool) -> None:
    """Before anything is sent: refuse to connect across the network without a token."""
    if not insecure and not is_loopback(address) and not asks_for_token():
        raise ArgumentError(
            "address", address, "is a cluster in the network, and token authentication is off",
            "Start the cluster with RAY_AUTH_MODE=token, and set that here too, with the cluster's token in the file "
            "that RAY_AUTH_TOKEN_PATH names; or accept that anybody who can reach it can run programs on it: "
            "Ray(insecure=True).",
        )  # fmt: skip


def refuse_open_cluster(address: str, insecure: bool) -> None:
    """Refuse a cluster in the network that also answers those who have no token."""
    refuse_tokenless_connection(address, insecure)
    if insecure or is_loopback(address):
        return
    found = _probed(address)
    if found != "closed":
        problem = "answers without a token" if found == "open" else f"could not be shown to ask for a token ({found})"
        raise ArgumentError(
            "address", address, f"is a cluster in the network that {problem}",
            "Start all its nodes with RAY_AUTH_MODE=token; or accept that anybody who can reach it can run programs on "
            "it: Ray(insecure=True).",
        )  # fmt: skip


@cache
def _probed(address: str) -> str:
    return probe(address)


def probe(address: str) -> str:
    """Ask a cluster for something without a token, in another process: ``"open"``, ``"closed"`` or what went wrong."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH_")}
    try:
        done = subprocess.run(
            [*SAFE_PYTHON, "-c", _PROBE, address],
            env={**environment, "RAY_AUTH_MODE": "disabled", "PYTHONPATH": module_path()},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {_SECONDS:.0f} s"
    answer = done.stdout.strip()
    return answer if answer in ("open", "closed") else (done.stderr.strip().splitlines() or ["no answer"])[-1]


def make_token() -> None:
    """Give the Ray that this process may start a token, unless the user has one or has said that there shall be none.

    Ray itself would write one to the home directory. This one is a file that only this user can read and that goes when
    this process ends.
    """
    given = any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    off = os.environ.get("RAY_AUTH_MODE", "token").lower() != "token"
    if given or off or (Path.home() / ".ray" / "auth_token").exists():
        return
    folder = Path(tempfile.mkdtemp(prefix="stalegrad-token-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "token"
    file.touch(mode=0o600)
    file.write_text(secrets.token_hex(32))
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(file)
