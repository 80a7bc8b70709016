"""Names of types that the whole package shares."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""A NumPy array of float32 or float64 where nothing else is said."""

IntArray = npt.NDArray[np.integer[Any]]
"""A NumPy array of integers."""
