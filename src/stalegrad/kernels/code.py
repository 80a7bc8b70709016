"""A kernel as one would write it in Python, from its table."""

import json
import re
from collections.abc import Mapping
from typing import Any

from stalegrad._internal.tables import OPAQUE

_DEFAULTS = {"temperature": 1.0}
_HOMES = {"step_size": "sg.schedules.", "temperature": "sg.kernels.temperatures.", "metric": "sg.metrics."}


def kernel_code(kernel: Mapping[str, Any]) -> str:
    """The call that makes the kernel of a table; one of a user's own has its class's name, without that of its module.

    >>> kernel_code({"name": "SGLD", "step_size": 0.001, "temperature": 1.0})
    'sg.SGLD(step_size=0.001)'
    >>> kernel_code({"name": "my_kernels:Own", "step_size": 0.001})
    'Own(step_size=0.001)'
    """
    if "name" not in kernel:
        return f"...  # {kernel_name(kernel)}"
    given = {k: v for k, v in kernel_settings(kernel).items() if k not in _DEFAULTS or v != _DEFAULTS[k]}
    _, own, name = kernel_name(kernel).rpartition(":")
    return f"{'' if own else 'sg.'}{name}({', '.join(f'{k}={_setting(k, v)}' for k, v in given.items())})"


def kernel_name(kernel: Mapping[str, Any]) -> str:
    """The kernel of a table from a trace, such as SGLD."""
    return str(kernel.get("name") or kernel.get(OPAQUE) or kernel)


def kernel_settings(kernel: Mapping[str, Any]) -> dict[str, Any]:
    """Its settings by name, without those that are not set."""
    return {name: value for name, value in kernel.items() if name not in ("name", OPAQUE) and value is not None}


def literal(value: Any) -> str:
    """A plain value as Python has it, with underscores in long whole numbers.

    >>> literal(20000), literal("drop"), literal(1e-05)
    ('20_000', '"drop"', '1e-05')
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def _setting(name: str, value: Any) -> str:
    """A step size or temperature that is no number is a schedule, maybe of schedules; metrics are objects, too.

    Of functions there is the name.
    """
    if isinstance(value, Mapping) and OPAQUE in value:
        words = str(value[OPAQUE])
        function = re.fullmatch(r"function (?:.*\.)?([\w<>]+)", words)
        if function:
            return "..." if function[1] == "<lambda>" else function[1]
        return f"{_HOMES.get(name, 'sg.')}{words}"
    if isinstance(value, Mapping) and "name" in value:
        inner = ", ".join(f"{k}={_setting(name, v)}" for k, v in value.items() if k != "name")
        _, own, maker = str(value["name"]).rpartition(":")
        return f"{'' if own else _HOMES.get(name, '')}{maker}({inner})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_setting(name, entry)}" for key, entry in value.items()) + "}"
    return literal(value)
