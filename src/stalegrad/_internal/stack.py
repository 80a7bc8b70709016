"""Small work arrays of compiled functions, on the stack: the heap takes as long for two as an update of 100 weights."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_code: Any = cgutils  # numba has no types


def _stack_array(typing_context: Any, dtype: Any, size: Any) -> Any:
    if not isinstance(size, types.IntegerLiteral):
        return None
    array, length = types.Array(dtype.dtype, 1, "C"), size.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from numba.np import arrayobj  # a fifth of numba's time to import, which it takes when it first compiles

        arrays: Any = arrayobj
        item = context.get_data_type(array.dtype)
        data = _code.alloca_once(builder, ir.ArrayType(item, length))
        data.align = 64
        bytes_of_item = context.get_abi_sizeof(item)
        result = context.make_array(array)(context, builder)
        number = context.get_constant
        arrays.populate_array(
            result,
            data=builder.bitcast(data, item.as_pointer()),
            shape=_code.pack_array(builder, [number(types.intp, length)]),
            strides=_code.pack_array(builder, [number(types.intp, bytes_of_item)]),
            itemsize=number(types.intp, bytes_of_item),
            meminfo=None,  # nobody counts references to it
        )
        return result._getvalue()

    return array(dtype, size), generate


stack_array: Any = intrinsic(prefer_literal=True)(_stack_array)
"""In compiled code: ``stack_array(dtype, size)``, a vector of a constant size that is gone when the function returns.

Its entries are undefined. Call it in the function that uses it, or in one that is inlined there, and never return it.
"""
