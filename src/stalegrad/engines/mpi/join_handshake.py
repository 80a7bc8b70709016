"""How a worker shows that it knows the run's secret, and the server that it does, without either saying it.

1. The server sends a challenge, random bytes.
2. The worker sends random bytes of its own, its model's fingerprint, and the HMAC-SHA256 of all that under the secret.
3. The server, if that is right, sends its verdict and the HMAC of the verdict and of both sides' random bytes.

Whoever does not know the secret can neither make these nor use again what was said before. From then on the connection
is trusted; it is not encrypted.
"""

import hmac
import secrets
import struct
from typing import NamedTuple

FORMAT = 4
"""Of these messages, and of the files of :mod:`stalegrad.engines.mpi.join_folder`."""
_MAGIC = b"stalegrad join %d" % FORMAT
_NONCE, _MAC = 32, 32  # bytes
_MODEL, _VERDICT = struct.Struct("!q"), struct.Struct("!qqqq")

CHALLENGE_BYTES = len(_MAGIC) + _NONCE
ANSWER_BYTES = len(_MAGIC) + _NONCE + _MODEL.size + _MAC
VERDICT_BYTES = _VERDICT.size + _MAC
"""Lengths of the three messages."""

WELCOME, OTHER_MODEL, NO_PLACE = range(3)
"""What a verdict says first."""


class Verdict(NamedTuple):
    """What a server tells a worker that knows the secret."""

    kind: int
    server: int
    place: int
    incarnation: int


def make_challenge() -> bytes:
    """The server's first message, another one each time."""
    return _MAGIC + secrets.token_bytes(_NONCE)


def is_challenge(message: bytes) -> bool:
    """Whether this is what a server of this version says first."""
    return len(message) == CHALLENGE_BYTES and message.startswith(_MAGIC)


def make_answer(secret: bytes, challenge: bytes, model: int) -> bytes:
    """The worker's answer to a challenge."""
    said = _MAGIC + secrets.token_bytes(_NONCE) + _MODEL.pack(model)
    return said + _mac(secret, b"worker", challenge, said)


def model_of(secret: bytes, challenge: bytes, answer: bytes) -> int | None:
    """The fingerprint of the model of a worker that knows the secret; None of anybody else."""
    said, mac = answer[:-_MAC], answer[-_MAC:]
    if not said.startswith(_MAGIC) or not hmac.compare_digest(mac, _mac(secret, b"worker", challenge, said)):
        return None
    model: int = _MODEL.unpack(said[-_MODEL.size :])[0]
    return model


def make_verdict(secret: bytes, challenge: bytes, answer: bytes, verdict: Verdict) -> bytes:
    """The server's last message of the handshake."""
    said = _VERDICT.pack(*verdict)
    return said + _mac(secret, b"server", challenge + answer, said)


def read_verdict(secret: bytes, challenge: bytes, answer: bytes, message: bytes) -> Verdict | None:
    """What a server that knows the secret has said; None of anybody else."""
    said, mac = message[:-_MAC], message[-_MAC:]
    if not hmac.compare_digest(mac, _mac(secret, b"server", challenge + answer, said)):
        return None
    return Verdict(*_VERDICT.unpack(said))


def _mac(secret: bytes, who: bytes, heard: bytes, said: bytes) -> bytes:
    """Of messages whose lengths are fixed, so that no two of them run together to the same bytes."""
    return hmac.digest(secret, who + heard + said, "sha256")
