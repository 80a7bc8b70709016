"""log, exp, sqrt and points on the circle that compile into packed instructions and give the same bits everywhere.

The maths library's functions are calls, one number at a time, which keeps a loop from being vectorised, and their last
bit differs from one libc to the next. These are polynomials in IEEE arithmetic with explicit fused multiply-adds, never
left to the compiler's choice: so the noise of a run is the same number on every processor, whatever the width of its
vectors. Coefficients are the minimax ones of Cephes (float32) and fdlibm (float64); errors are within 2 units in the
last place.

:func:`exp` and :func:`sqrt` also work, as ordinary functions, on NumPy, JAX and torch arrays: that is what lets a
kernel's formula be written once.
"""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from stalegrad._internal.jit import inlined

_F = np.float32
_D = np.float64
_I = np.int32
_U = np.uint32
_L = np.uint64


def _fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a·b + c, rounded once, for three floats of one type."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        function = builder.module.declare_intrinsic("llvm.fma", [kind], ir.FunctionType(kind, [kind] * 3))
        return builder.call(function, arguments)

    return a(a, a, a), generate


fma: Any = intrinsic(_fma)


@inlined
def log32(u):  # type: ignore[no-untyped-def]
    """log u for a normal float32 u > 0; exactly 0 at u = 1. numba widens int32 results, hence the many casts."""
    bits = _F(u).view(np.int32)
    e = _I(_I(bits - _I(0x3F3504F3)) >> _I(23))  # u = m 2^e with m in [√½, √2)
    f = _I(bits - _I(e << _I(23))).view(np.float32) - _F(1)
    p = _F(7.0376836292e-2)
    p = fma(p, f, _F(-1.1514610310e-1))
    p = fma(p, f, _F(1.1676998740e-1))
    p = fma(p, f, _F(-1.2420140846e-1))
    p = fma(p, f, _F(1.4249322787e-1))
    p = fma(p, f, _F(-1.6668057665e-1))
    p = fma(p, f, _F(2.0000714765e-1))
    p = fma(p, f, _F(-2.4999993993e-1))
    p = fma(p, f, _F(3.3333331174e-1))
    z = f * f
    y = fma(f * z, p, _F(-0.5) * z)
    return fma(_F(e), _F(0.6931471805599453), f + y)


@inlined
def log64(u):  # type: ignore[no-untyped-def]
    """log u for a normal float64 u > 0; exactly 0 at u = 1."""
    bits = _D(u).view(np.uint64)
    high = _I(_U(bits >> _L(32)))
    e = _I(_I(high - _I(0x3FE6A09E)) >> _I(20))
    scale = _L(_U(e)) << _L(52)  # wraps modulo 2^64, which is what two's complement wants
    f = _L(bits - scale).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = 1.479819860511658591e-01
    p = fma(p, z, 1.531383769920937332e-01)
    p = fma(p, z, 1.818357216161805012e-01)
    p = fma(p, z, 2.222219843214978396e-01)
    p = fma(p, z, 2.857142874366239149e-01)
    p = fma(p, z, 3.999999999940941908e-01)
    p = fma(p, z, 6.666666666666735130e-01)
    half = 0.5 * f * f
    k = _D(e)
    low = fma(s, fma(z, p, half), k * 1.90821492927058770002e-10)
    return k * 6.93147180369123816490e-01 - ((half - low) - f)


@inlined
def circle32(word):  # type: ignore[no-untyped-def]
    """A point on the unit circle in float32, uniform if the 32-bit word is.

    The low 30 bits are an angle in [−⅛, ⅛) of a turn. Its cosine gets the sign of bit 31, and bit 30 says whether the
    coordinates change places: together they cover the circle, more cheaply than quadrants in their order would.
    """
    turn = _I(_U(word))
    x = _F(_I(_I(turn << _I(2)) >> _I(2))) * _F(2 * math.pi / 2**32)
    z = x * x
    s = fma(fma(fma(_F(-1.9515295891e-4), z, _F(8.3321608736e-3)), z, _F(-1.6666654611e-1)) * z, x, x)
    c = fma(fma(_F(2.443315711809948e-5), z, _F(-1.388731625493765e-3)), z, _F(4.166664568298827e-2)) * z
    c = fma(c, z, fma(_F(-0.5), z, _F(1)))
    signed = _I(_F(c).view(np.int32) ^ _I(turn & _I(-0x80000000))).view(np.float32)
    swap = (turn & _I(0x40000000)) != 0
    return (s if swap else signed), (signed if swap else s)


@inlined
def circle64(high, low):  # type: ignore[no-untyped-def]
    """The same in float64 from two words: ``low`` continues the angle below ``high``."""
    turn = _I(_U(high))
    x = (_D(_I(_I(turn << _I(2)) >> _I(2))) + _D(_U(low)) * 2.0**-32) * (2 * math.pi / 2**32)
    z = x * x
    s = 1.58969099521155010221e-10
    s = fma(s, z, -2.50507602534068634195e-08)
    s = fma(s, z, 2.75573137070700676789e-06)
    s = fma(s, z, -1.98412698298579493134e-04)
    s = fma(s, z, 8.33333333332248946124e-03)
    s = fma(s, z, -1.66666666666666324348e-01)
    c = -1.13596475577881948265e-11
    c = fma(c, z, 2.08757232129817482790e-09)
    c = fma(c, z, -2.75573143513906633035e-07)
    c = fma(c, z, 2.48015872894767294178e-05)
    c = fma(c, z, -1.38888888888741095749e-03)
    c = fma(c, z, 4.16666666666666019037e-02)
    sine = fma(s * z, x, x)
    cosine = fma(c * z, z, fma(-0.5, z, 1.0))
    signed = -cosine if turn < _I(0) else cosine
    swap = (turn & _I(0x40000000)) != 0
    return (sine if swap else signed), (signed if swap else sine)


@inlined
def exp32(x):  # type: ignore[no-untyped-def]
    """exp x in float32; arguments are clamped to [−87, 88], where float32 is still normal and finite."""
    x = min(max(x, _F(-87)), _F(88))
    k = np.floor(fma(x, _F(1.44269504088896341), _F(0.5)))
    r = fma(k, _F(2.12194440e-4), fma(k, _F(-0.693359375), x))
    p = _F(1.9875691500e-4)
    p = fma(p, r, _F(1.3981999507e-3))
    p = fma(p, r, _F(8.3334519073e-3))
    p = fma(p, r, _F(4.1665795894e-2))
    p = fma(p, r, _F(1.6666665459e-1))
    p = fma(p, r, _F(5.0000001201e-1))
    return (fma(p * r, r, r) + _F(1)) * _I(_I(_I(k) + _I(127)) << _I(23)).view(np.float32)


@inlined
def exp64(x):  # type: ignore[no-untyped-def]
    """exp x in float64; arguments are clamped to [−708, 709], where float64 is still normal and finite."""
    x = min(max(x, -708.0), 709.0)
    k = np.floor(fma(x, 1.44269504088896340736, 0.5))
    r = fma(k, -1.90821492927058770002e-10, fma(k, -6.93147180369123816490e-01, x))
    p = 1.0 / 6227020800.0  # Taylor to degree 13: the remainder at |r| = ½ log 2 is below 1e-17
    p = fma(p, r, 1.0 / 479001600.0)
    p = fma(p, r, 1.0 / 39916800.0)
    p = fma(p, r, 1.0 / 3628800.0)
    p = fma(p, r, 1.0 / 362880.0)
    p = fma(p, r, 1.0 / 40320.0)
    p = fma(p, r, 1.0 / 5040.0)
    p = fma(p, r, 1.0 / 720.0)
    p = fma(p, r, 1.0 / 120.0)
    p = fma(p, r, 1.0 / 24.0)
    p = fma(p, r, 1.0 / 6.0)
    p = fma(p, r, 0.5)
    return (fma(p * r, r, r) + 1.0) * _L(_L(_I(k) + _I(1023)) << _L(52)).view(np.float64)


def exp(x: Any) -> Any:
    """exp x: of an array of any library here, and as :func:`exp32` or :func:`exp64` inside compiled code."""
    return _array_function(x, "exp")


def sqrt(x: Any) -> Any:
    """√x: of an array of any library here, and as one instruction inside compiled code."""
    return _array_function(x, "sqrt")


def _array_function(x: Any, name: str) -> Any:
    if hasattr(x, "__array_namespace__"):  # NumPy and JAX
        return getattr(x.__array_namespace__(), name)(x)
    return getattr(x, name)() if hasattr(x, name) else getattr(np, name)(x)  # torch's are methods


@overload(exp, inline="always")
def _compiled_exp(x):  # type: ignore[no-untyped-def]
    if x == types.float32:
        return lambda x: exp32(x)
    if x == types.float64:
        return lambda x: exp64(x)
    return None


@overload(sqrt, inline="always")
def _compiled_sqrt(x):  # type: ignore[no-untyped-def]
    return (lambda x: math.sqrt(x)) if x in (types.float32, types.float64) else None
