"""Functions of other libraries in compiled code, called by their address, and memory of theirs seen as an array.

An address is known only when a process runs, so that code with it in place could not be kept on disk: here it is an
argument. Nothing is checked: whoever calls these knows what is there.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_POINTER = ir.IntType(8).as_pointer()


def _call(arguments: int) -> Any:
    def build(typing_context: Any, address: Any, *pointers: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kind = ir.FunctionType(ir.IntType(32), [_POINTER] * arguments)
            function = builder.inttoptr(values[0], kind.as_pointer())
            return builder.call(function, [builder.inttoptr(value, _POINTER) for value in values[1:]])

        return types.int32(types.int64, *[types.int64] * arguments), generate

    return build


def _call_with_one(typing_context: Any, address: Any, pointer: Any) -> Any:
    return _call(1)(typing_context, address, pointer)


def _call_with_three(typing_context: Any, address: Any, first: Any, second: Any, third: Any) -> Any:
    return _call(3)(typing_context, address, first, second, third)


def _pointer(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], _POINTER)

    return types.voidptr(types.int64), generate


call_with_one: Any = intrinsic(_call_with_one)
"""In compiled code: ``call_with_one(function, pointer)``, of a function that returns a C int; all are addresses."""
call_with_three: Any = intrinsic(_call_with_three)
"""``call_with_three(function, first, second, third)``, the same of three pointers."""
pointer: Any = intrinsic(_pointer)
"""``pointer(address)``, for ``numba.carray``."""
