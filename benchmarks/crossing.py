"""When an error falls below a level and stays there."""

from collections.abc import Sequence

import numpy as np


def first_below(seconds: Sequence[float], errors: Sequence[float], level: float) -> float | None:
    """The time from which on all errors are at most ``level``, interpolated between logarithms; None if there is none.

    >>> first_below([1.0, 10.0, 100.0], [4.0, 1.0, 0.25], 0.5)
    31.62
    >>> first_below([1.0, 10.0, 100.0], [4.0, 0.1, 3.0], 0.5) is None
    True
    """
    times, values = np.asarray(seconds, float), np.maximum(np.asarray(errors, float), np.finfo(float).tiny)
    above = np.flatnonzero(~(values <= level))  # NaN is above
    if not above.size:
        return float(times[0])
    last = above[-1]
    if last == len(values) - 1:
        return None
    share = np.log(values[last] / level) / np.log(values[last] / values[last + 1]) if np.isfinite(values[last]) else 1.0
    return float(np.exp(np.log(times[last]) + share * np.log(times[last + 1] / times[last])))
