"""A convolution by Fourier transforms: faster than the direct one on a CPU, with many channels and 5 × 5 weights.

y[p] = b + Σ_r w[r] x[p + r − P], summed over channels as well, is a product of transforms for each frequency f:

    Y(f) = X(f) W̄(f),      ∂x: Ḡ(f) ↦ G(f) W(f),      ∂w: X(f) Ḡ(f),

with G the transform of ∂y, and all three on one grid of N = H + 2P places: the places of y that wrap around are those
that are cut off. So a layer with C channels in and O out costs B·C·O products for each of N(N/2 + 1) frequencies, in
place of 25 for each of H² places, and has as many sums in a row less to round.

The transforms themselves are products with small matrices, of which zeros outside the picture and places that nobody
wants are no part; products are all that a processor is really fast at. Complex numbers are pairs of real ones
throughout: (re, im) of X beside each other times [[re, −im], [im, re]] of W̄ is one real product.
"""

from functools import lru_cache
from math import pi
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable


class FourierConv2d(nn.Conv2d):
    """A :class:`torch.nn.Conv2d` with the same parameters and the same function, computed in the fastest way on a CPU.

    Only with stride 1, no dilation, no groups and padding by zeros. It is the direct one elsewhere than on a CPU, where
    no gradients are wanted, and under the transformations of :mod:`torch.func`.

    Args:
        in_channels: C.
        out_channels: O.
        kernel_size: of the square of weights.
        padding: P, zeros on all four sides.

    >>> layer = FourierConv2d(2, 3, 5, padding=2)
    >>> tuple(layer(torch.zeros(1, 2, 8, 8)).shape), tuple(layer.weight.shape)
    ((1, 3, 8, 8), (3, 2, 5, 5))
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, padding: int = 0) -> None:
        super().__init__(in_channels, out_channels, kernel_size, padding=padding)
        self._padding = padding

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The convolution of a batch of pictures, (B, C, H, W)."""
        if not torch.is_grad_enabled():  # two thirds of what is won is won by the gradients
            return super().forward(x)
        if x.ndim != 4 or x.device.type != "cpu" or x.dtype != self.weight.dtype:
            return super().forward(x)
        if torch._C._are_functorch_transforms_active():  # grad, vmap and the like, which need rules of their own
            return super().forward(x)
        y: torch.Tensor = _Convolution.apply(x, self.weight, self.bias, self._padding)  # type: ignore[no-untyped-call]
        return y


class _Shape(NamedTuple):
    """Sizes of a layer; (height, width) where there are two."""

    batch: int
    inputs: int
    outputs: int
    weights: int
    padding: int
    pixels: tuple[int, int]

    @property
    def grid(self) -> tuple[int, int]:
        """N of both axes."""
        height, width = self.pixels
        return height + 2 * self.padding, width + 2 * self.padding

    @property
    def results(self) -> tuple[int, int]:
        """Pixels of y."""
        height, width = self.grid
        return height - self.weights + 1, width - self.weights + 1


class _Convolution(torch.autograd.Function):
    """The function and its gradients, all in the type of its arguments: transforms in 8 bits would be of no use."""

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, padding: int) -> torch.Tensor:
        shape = _Shape(x.shape[0], x.shape[1], weight.shape[0], weight.shape[2], padding, (x.shape[2], x.shape[3]))
        pictures, factors = _transformed(x, shape.grid), _factors(weight, shape)
        y = torch.bmm(pictures, factors)
        height, width = shape.grid
        y[0, :, : shape.outputs] += bias * (height * width)  # frequency 0 is the sum over all places
        ctx.save_for_backward(pictures, factors)
        ctx.shape = shape
        return _back(y, shape.grid, shape.results, -padding)

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    @once_differentiable
    def backward(ctx: Any, *above: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        pictures, factors = ctx.saved_tensors
        shape: _Shape = ctx.shape
        gradients = _transformed(above[0], shape.grid)
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = _back(torch.bmm(gradients, factors.mT), shape.grid, shape.pixels, shape.padding)
        return of_x, _of_weights(pictures, gradients, shape), gradients[0, :, : shape.outputs].sum(0), None


def _transformed(x: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
    """Of pictures (B, C, H, W) the transforms, (frequencies, B, 2C) with the real parts first."""
    count, channels, height, width = x.shape
    rows, columns = _forward(height, grid[0], x.dtype).half, _forward(width, grid[1], x.dtype).whole
    half = grid[0] // 2 + 1
    z = torch.matmul(rows, x.permute(0, 2, 3, 1).reshape(count, height, width * channels))
    z = torch.matmul(columns, z.view(count * half, 2 * width, channels))
    return z.view(count, half * grid[1], 2 * channels).transpose(0, 1)


def _back(z: torch.Tensor, grid: tuple[int, int], pixels: tuple[int, int], first: int) -> torch.Tensor:
    """Of transforms (frequencies, B, 2C) the pictures (B, C, *pixels), channels last, from place ``first`` on."""
    _, count, pairs = z.shape
    channels, half = pairs // 2, grid[0] // 2 + 1
    rows = _backward(pixels[0], grid[0], first, z.dtype).half
    columns = _backward(pixels[1], grid[1], first, z.dtype).whole
    y = torch.matmul(columns, z.transpose(0, 1).reshape(count * half, 2 * grid[1], channels))
    y = torch.matmul(rows, y.view(count, 2 * half, pixels[1] * channels))
    return y.view(count, *pixels, channels).permute(0, 3, 1, 2)


def _factors(weight: torch.Tensor, shape: _Shape) -> torch.Tensor:
    """[[re, −im], [im, re]] of W̄ for each frequency, (frequencies, 2C, 2O)."""
    size, inputs, outputs = shape.weights, shape.inputs, shape.outputs
    rows = _forward(size, shape.grid[0], weight.dtype).half
    columns = _forward(size, shape.grid[1], weight.dtype).whole
    half = shape.grid[0] // 2 + 1
    z = torch.matmul(rows, weight.permute(2, 3, 1, 0).reshape(size, size * inputs * outputs))
    z = torch.matmul(columns, z.view(half, 2 * size, inputs * outputs))
    z = z.view(half * shape.grid[1], 2, inputs, outputs)
    factors = weight.new_empty(z.shape[0], 2 * inputs, 2 * outputs)
    factors[:, :inputs, :outputs] = factors[:, inputs:, outputs:] = z[:, 0]
    factors[:, inputs:, :outputs] = z[:, 1]
    torch.neg(z[:, 1], out=factors[:, :inputs, outputs:])
    return factors


def _of_weights(pictures: torch.Tensor, gradients: torch.Tensor, shape: _Shape) -> torch.Tensor:
    """∂w of X(f) and G(f), both as pairs."""
    size, inputs, outputs = shape.weights, shape.inputs, shape.outputs
    pairs = torch.bmm(pictures.mT, gradients).view(-1, 2, inputs, 2, outputs)
    z = pictures.new_empty(pairs.shape[0], 2, inputs, outputs)
    torch.add(pairs[:, 0, :, 0], pairs[:, 1, :, 1], out=z[:, 0])
    torch.sub(pairs[:, 1, :, 0], pairs[:, 0, :, 1], out=z[:, 1])
    rows = _backward(size, shape.grid[0], -shape.padding, z.dtype).half
    columns = _backward(size, shape.grid[1], -shape.padding, z.dtype).whole
    half = shape.grid[0] // 2 + 1
    w = torch.matmul(columns, z.view(half, 2 * shape.grid[1], inputs * outputs))
    w = torch.matmul(rows, w.view(2 * half, size * inputs * outputs))
    return w.view(size, size, inputs, outputs).permute(3, 2, 0, 1)


class _Matrices(NamedTuple):
    """Transforms along one axis.

    ``half``: between real places and N/2 + 1 frequencies, each a pair: the others are their conjugates. ``whole``:
    between complex places, all real parts first, and N frequencies, each a pair.
    """

    half: torch.Tensor
    whole: torch.Tensor


@lru_cache(maxsize=64)
def _forward(places: int, grid: int, dtype: torch.dtype) -> _Matrices:
    """Σ_p exp(−2πi f p / N) x[p] for p = 0, 1, …."""
    angle = _angles(grid, torch.arange(places)).T
    cosine, sine = angle.cos(), -angle.sin()
    half = torch.stack([cosine, sine], 1)[: grid // 2 + 1].reshape(-1, places)
    whole = torch.stack([torch.cat([cosine, -sine], 1), torch.cat([sine, cosine], 1)], 1).reshape(-1, 2 * places)
    return _Matrices(half.to(dtype), whole.to(dtype))


@lru_cache(maxsize=64)
def _backward(places: int, grid: int, first: int, dtype: torch.dtype) -> _Matrices:
    """(1/N) Σ_f exp(2πi f p / N) X[f] for p = first, first + 1, …."""
    angle = _angles(grid, torch.arange(first, first + places))
    cosine, sine = angle.cos() / grid, angle.sin() / grid
    twice = torch.full((grid // 2 + 1,), 2.0, dtype=torch.float64)  # a frequency and its conjugate
    twice[0] = 1
    if grid % 2 == 0:
        twice[-1] = 1
    few = slice(grid // 2 + 1)
    half = torch.stack([twice * cosine[:, few], -twice * sine[:, few]], 2).reshape(places, -1)
    real, imaginary = torch.stack([cosine, -sine], 2), torch.stack([sine, cosine], 2)
    whole = torch.cat([real, imaginary]).reshape(2 * places, -1)
    return _Matrices(half.to(dtype), whole.to(dtype))


def _angles(grid: int, places: torch.Tensor) -> torch.Tensor:
    """2π f p / N, (places, frequencies); the product reduced first, so that it is exact."""
    return 2 * pi / grid * (torch.outer(places, torch.arange(grid)) % grid).to(torch.float64)
