"""What the numbers of θ are called: the one source of names for diagnoses, summaries, plots and exports."""

from collections.abc import Iterable, Mapping
from math import prod

import numpy as np


def component_name(name: str, shape: tuple[int, ...], index: int) -> str:
    """What component number ``index`` of a variable of this shape is called.

    >>> component_name("w", (2, 3), 4), component_name("b", (), 0)
    ('w[1, 1]', 'b')
    """
    return f"{name}[{', '.join(map(str, np.unravel_index(index, shape)))}]" if shape else name


def parameter_names(layout: Mapping[str, tuple[int, ...]], indices: Iterable[int]) -> list[str]:
    """What some entries of the flat θ are called, whose named pieces are those of a layout.

    >>> parameter_names({"0.weight": (2, 3), "0.bias": (2,)}, [0, 5, 7])
    ['0.weight[0, 0]', '0.weight[1, 2]', '0.bias[1]']
    """
    names, shapes = list(layout), list(layout.values())
    ends = np.cumsum([prod(shape) for shape in shapes])
    found = []
    for index in indices:
        piece = int(np.searchsorted(ends, index, side="right"))
        within = int(index) - int(ends[piece]) + prod(shapes[piece])
        found.append(component_name(names[piece], shapes[piece], within))
    return found
