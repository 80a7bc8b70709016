"""A hint to the processor for compiled code: this entry of an array will be read soon.

The rows of a random minibatch lie all over memory, so a loop that walks through them waits for each row in turn.
Asking for many of them first lets the waits overlap, which nearly halves the time of a sparse model's margins.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        builder.call(function, [address, word(0), word(3), word(1)])  # to read, keep in all caches, data
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_prefetch)
"""In compiled code: ``prefetch(array, index)`` of a contiguous array, counted through all of it.

An index beyond its end does no harm.
"""
