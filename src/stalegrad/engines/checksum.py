"""The checksum of messages that leave the machine: 64 bits, at the speed of memory.

Eight words of eight bytes at a time, each mixed into an accumulator of its own,

    a ← (a ⊕ w) · P mod 2⁶⁴,   a ← a ⊕ (a ≫ 32)

with an odd P. Every step can be undone, so a message that differs in one word alone always has another checksum; any
other damage goes unnoticed with probability 2⁻⁶⁴. It tells accidents, not forgeries. CRC-32 of Python's zlib has 32
bits and takes several times as long, see ``benchmarks/hostile_link.py``.
"""

from typing import Any

import numpy as np

from stalegrad._internal.jit import compiled, inlined
from stalegrad._internal.types import Array

_P = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@inlined
def _mixed(a, word):  # type: ignore[no-untyped-def]
    a = (a ^ word) * _P
    return a ^ (a >> _HALF)


@compiled
def _checksum(content, start):  # type: ignore[no-untyped-def]
    a0 = a1 = a2 = a3 = np.uint64(start)
    a4 = a5 = a6 = a7 = _P
    n_words = content.size // 8
    words = content[: n_words * 8].view(np.uint64)
    together = n_words // 8 * 8
    for i in range(0, together, 8):
        a0, a1 = _mixed(a0, words[i]), _mixed(a1, words[i + 1])
        a2, a3 = _mixed(a2, words[i + 2]), _mixed(a3, words[i + 3])
        a4, a5 = _mixed(a4, words[i + 4]), _mixed(a5, words[i + 5])
        a6, a7 = _mixed(a6, words[i + 6]), _mixed(a7, words[i + 7])
    end = np.uint64(content.size)
    for a in (a0, a1, a2, a3, a4, a5, a6, a7):
        end = _mixed(end, a)
    for i in range(together, n_words):
        end = _mixed(end, words[i])
    for i in range(n_words * 8, content.size):
        end = _mixed(end, np.uint64(content[i]))
    return np.int64(end)


@compiled
def of_parts(message, head, skipped, length):  # type: ignore[no-untyped-def]
    """For compiled callers: :func:`checksum_of_parts`."""
    return _checksum(message[skipped : skipped + length], _checksum(message[:head], 0))


def checksum_of_parts(message: Array, head: int, skipped: int, length: int) -> int:
    """The checksum of the first ``head`` bytes of a message and of ``length`` bytes from number ``skipped`` on."""
    result: Any = of_parts(message, head, skipped, length)
    return int(result)


def checksum(content: Array, start: int = 0) -> int:
    """The checksum of bytes, (n,) of uint8; ``start`` is that of what comes before them.

    >>> content = np.arange(200, dtype=np.uint8)
    >>> whole = checksum(content)
    >>> content[150] ^= 1
    >>> checksum(content) == whole, checksum(content[:-1]) == whole
    (False, False)
    """
    result: Any = _checksum(content, start)
    return int(result)
