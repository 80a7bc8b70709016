"""Who may see a page: those who know its token, asking for it by a name that is this machine's.

- **Token.** Every request needs it: in the address that is printed, then in a cookie that scripts cannot read and other
  sites cannot have sent, or as ``Authorization: Bearer``. A second token, if there is one, also allows to stop the run.
- **Host names.** A page of another site can have its own name resolve to 127.0.0.1 and then ask as if it were this page
  (DNS rebinding). What it asks for carries its name, and is refused.
- **No CORS**: no answer allows another site to read it. **A strict content security policy**: scripts, styles and
  requests from this server alone, nothing inline, no frames.
"""

import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
from pathlib import Path
from typing import NamedTuple

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer."""


class Tokens(NamedTuple):
    """What opens a page.

    Args:
        view: lets its holder look on.
        control: lets its holder also stop the run; None if nobody may.
    """

    view: str
    control: str | None

    @classmethod
    def make(cls, *, control: bool, of: Path | None = None) -> "Tokens":
        """New ones; those of a stored run are the same each time, for this user, so that open pages find it again."""
        if of is None:
            return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24) if control else None)
        key, name = _own_secret(), str(of.resolve()).encode()
        view, stop = (hmac.new(key, what + name, hashlib.sha256).hexdigest()[:40] for what in (b"view:", b"control:"))
        return cls(view, stop if control else None)

    def allows(self, given: str | None) -> str | None:
        """What a token allows: ``"view"``, ``"control"`` or nothing."""
        if not given:
            return None
        offered = given.encode()
        if self.control is not None and hmac.compare_digest(offered, self.control.encode()):
            return "control"
        return "view" if hmac.compare_digest(offered, self.view.encode()) else None


def _own_secret() -> bytes:
    """A secret of this user on this machine, in a file that nobody else can read; made the first time."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "stalegrad"
    path = home / "watch-secret"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    except OSError:
        return secrets.token_bytes(32)  # nowhere to keep it: tokens are new each time
    else:
        with open(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
    try:
        status = path.lstat()
        sound = status.st_uid == os.getuid() and not status.st_mode & 0o077
        secret = path.read_bytes() if sound else b""
    except OSError:
        secret = b""
    return secret if len(secret) >= 32 else secrets.token_bytes(32)


class Hosts:
    """The names by which a page may be asked for.

    Args:
        host: the address that it listens at.
        names: further ones.
    """

    def __init__(self, host: str, names: tuple[str, ...] = ()) -> None:
        self.open = not is_loopback(host)
        """Whether others than this machine can reach it."""
        self._names = {"localhost", host.lower(), *(name.lower() for name in names)}
        if self.open:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def allow(self, header: str | None) -> bool:
        """Whether a request with this ``Host`` may be answered.

        An address in numbers cannot be rebound: any may be used where the page is open to other machines.
        """
        name = _without_port(header or "")
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return address.is_loopback or self.open


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _without_port(header: str) -> str:
    """The name in a ``Host`` header.

    >>> _without_port("Example.org:80"), _without_port("[::1]:8707"), _without_port("::1")
    ('example.org', '[::1]', '::1')
    """
    header = header.strip().lower()
    if header.startswith("["):
        return header[: header.find("]") + 1]
    return header.rpartition(":")[0] if header.count(":") == 1 else header
