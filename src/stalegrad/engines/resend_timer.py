"""How long an answer takes, and after how long it is asked for again.

Over a link that loses messages a question without an answer is asked again. Too late, and a worker has nothing to do
meanwhile; too early, and what was only slow travels twice. So the wait follows the answers before: it is one and a half
times their upper quartile q, which an answer that took t moves by steps that do not depend on how far off t is,

    q ← min(t, 19/16 q) if t > q,    q ← max(t, 15/16 q) else.

Mean and deviation, of which TCP makes its wait (Jacobson, 1988), do not serve where many messages are held up until the
next one comes: such an answer takes as long as the wait that was, makes the next wait longer, and so on.

t must be the time of the question that was answered, which may have been sent more than once: answers carry it (see
:mod:`stalegrad.engines.message`), so that every one of them can be learned from, those that were asked for again, too.
"""

_UP, _DOWN = 19 / 16, 15 / 16
_QUARTILES = 1.5


class ResendTimer:
    """After how long an answer is asked for again, by how long those before took.

    Args:
        first: seconds to wait while nothing is known.
        least: seconds to wait however fast answers are.

    >>> timer = ResendTimer(first=0.25, least=0.002)
    >>> timer.wait
    0.25
    >>> timer.note(0.1)
    >>> round(timer.wait, 3)
    0.15
    >>> timer.note(0.2, answers=100)
    >>> round(timer.wait, 3)
    0.3
    """

    __slots__ = ("_first", "_least", "_quartile")

    def __init__(self, first: float, least: float) -> None:
        self._first, self._least = first, least
        self._quartile: float | None = None

    def note(self, seconds: float, answers: int = 1) -> None:
        """An answer took so long; or several did, on average."""
        if self._quartile is None:
            self._quartile = seconds
        elif seconds > self._quartile:
            self._quartile = min(seconds, self._quartile * _UP ** min(answers, 99))
        else:
            self._quartile = max(seconds, self._quartile * _DOWN**answers)

    @property
    def wait(self) -> float:
        """Seconds after which an answer is asked for again the first time."""
        return self._first if self._quartile is None else max(self._least, _QUARTILES * self._quartile)
