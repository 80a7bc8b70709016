"""The scalar product of two vectors in compiled code, with packed instructions and the same bits wherever it stands.

A sum in its order of writing cannot be vectorised, and one whose order is left to the compiler ("fast math") has other
bits wherever it is compiled otherwise: inlined into one caller and not into another, compiled in this process and
optimised once more in what another finds on disk, for wider registers. So the order is written out here, in vectors of
:data:`WIDTH` numbers, which LLVM maps to whatever registers there are: :data:`VECTORS` of them are summed side by side
over blocks of the vector, then one over what is left, then their lanes pairwise, then the last few numbers one by one.
Every product is added by a fused multiply-add.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTH = 8
"""Numbers in a vector."""
VECTORS = 4
"""Vectors that are summed side by side, so that no multiply-add waits for the one before."""

_code: Any = cgutils  # numba has no types


def _dot(typing_context: Any, a: Any, b: Any, n: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, second = (
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip(signature.args[:2], arguments[:2], strict=True)
        )
        number, count = context.get_data_type(a.dtype), arguments[2]
        vector, bytes_of_number = ir.VectorType(number, WIDTH), context.get_abi_sizeof(number)
        zero = ir.Constant(vector, [0.0] * WIDTH)
        sums = [_code.alloca_once_value(builder, zero) for _ in range(VECTORS)]

        def add(total: Any, at: Any, kind: Any) -> None:
            x, y = (
                builder.load(builder.bitcast(builder.gep(data, [at]), kind.as_pointer()), align=bytes_of_number)
                for data in (first, second)
            )
            builder.store(_fma(builder, kind, x, y, builder.load(total)), total)

        whole = count.type
        block, blocks_end = whole(WIDTH * VECTORS), _multiple_below(builder, count, WIDTH * VECTORS)
        with _code.for_range_slice(builder, whole(0), blocks_end, block, whole) as (at, _):
            for k, total in enumerate(sums):
                add(total, builder.add(at, whole(k * WIDTH)), vector)
        vectors_end = _multiple_below(builder, count, WIDTH)
        with _code.for_range_slice(builder, blocks_end, vectors_end, whole(WIDTH), whole) as (at, _):
            add(sums[0], at, vector)
        result = _code.alloca_once_value(builder, _sum_of_lanes(builder, [builder.load(total) for total in sums]))
        with _code.for_range_slice(builder, vectors_end, count, whole(1), whole) as (at, _):
            add(result, at, number)
        return builder.load(result)

    vectors = all(isinstance(x, types.Array) and x.ndim == 1 and x.layout == "C" for x in (a, b))
    if not vectors or a.dtype != b.dtype or a.dtype not in (types.float32, types.float64):
        return None
    return a.dtype(a, b, types.int64), generate


def _multiple_below(builder: Any, count: Any, of: int) -> Any:
    """The largest multiple of a power of two that is at most ``count``."""
    return builder.and_(count, count.type(-of))


def _fma(builder: Any, kind: Any, x: Any, y: Any, z: Any) -> Any:
    number = kind.element if isinstance(kind, ir.VectorType) else kind
    name = {"float": "f32", "double": "f64"}[str(number)]
    name = f"v{WIDTH}{name}" if kind is not number else name
    function = _code.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fma.{name}")
    return builder.call(function, [x, y, z])


def _sum_of_lanes(builder: Any, vectors: list[Any]) -> Any:
    """All numbers of some vectors, two by two: vectors first, then the halves of the one that is left."""
    while len(vectors) > 1:
        vectors = [builder.fadd(x, y) for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
    (total,), width = vectors, WIDTH
    while width > 1:
        width //= 2
        halves = [
            builder.shuffle_vector(
                total,
                ir.Constant(total.type, ir.Undefined),
                ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(low, low + width))),
            )
            for low in (0, width)
        ]
        total = builder.fadd(*halves)
    return builder.extract_element(total, ir.IntType(32)(0))


dot: Any = intrinsic(_dot)
"""In compiled code: ``dot(a, b, n)``, Σ a b over the first n entries of two contiguous vectors of the same floats."""
