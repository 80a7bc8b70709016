"""Single integers that several threads read and write, in compiled code: entries of an int64 vector.

What a thread wrote before :func:`store`, :func:`add` or a :func:`swap` that succeeded is seen by a thread that has read
the result with :func:`load`, or with a :func:`swap` that succeeded: these are C's release and acquire, on every
processor. All other entries of arrays are ordered by them alone. :func:`fence` lets nothing pass in either direction.
"""

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_code: Any = cgutils  # numba has no types
_VECTOR = types.Array(types.int64, 1, "C")
_X86, _ARM = ("x86_64", "amd64"), ("aarch64", "arm64")


def _address(context: Any, builder: Any, arguments: Any) -> Any:
    data = context.make_array(_VECTOR)(context, builder, arguments[0]).data
    return builder.gep(data, [arguments[1]])


def _load(typing_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_address(context, builder, arguments), "acquire", 8)

    return types.int64(_VECTOR, types.int64), generate


def _store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[2], _address(context, builder, arguments), "release", 8)
        return context.get_dummy_value()

    return types.none(_VECTOR, types.int64, types.int64), generate


def _add(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _address(context, builder, arguments), arguments[2], "acq_rel")

    return types.int64(_VECTOR, types.int64, types.int64), generate


def _swap(typing_context: Any, array: Any, index: Any, expected: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, arguments)
        found = builder.cmpxchg(address, arguments[2], arguments[3], "acq_rel", "monotonic")
        return builder.extract_value(found, 1)

    return types.boolean(_VECTOR, types.int64, types.int64, types.int64), generate


def _fence(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.none(), generate


def _pause(typing_context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        processor, number = platform.machine().lower(), ir.IntType(32)
        if processor in _X86:
            builder.call(_instruction(builder, "llvm.x86.sse2.pause", []), [])
        elif processor in _ARM:
            builder.call(_instruction(builder, "llvm.aarch64.hint", [number]), [number(1)])  # yield
        return context.get_dummy_value()

    return types.none(), generate


def _instruction(builder: Any, name: str, arguments: list[Any]) -> Any:
    return _code.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), arguments), name)


load: Any = intrinsic(_load)
"""In compiled code: ``load(vector, index)``."""
store: Any = intrinsic(_store)
"""``store(vector, index, value)``."""
add: Any = intrinsic(_add)
"""``add(vector, index, value)``; what was there before."""
swap: Any = intrinsic(_swap)
"""``swap(vector, index, expected, value)``: put the value there if the expected one is there; whether it was."""
fence: Any = intrinsic(_fence)
"""``fence()``: no read or write passes from one side of it to the other."""
pause: Any = intrinsic(_pause)
"""``pause()``: tell the processor that this thread polls."""
