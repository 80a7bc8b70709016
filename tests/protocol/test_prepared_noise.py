"""Noise that a server makes while it waits is the noise of the next update."""

import numpy as np
import pytest

from stalegrad.protocol.chain import Chain
from stalegrad.testing import KERNELS


@pytest.mark.long
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_update_has_the_same_bits_with_noise_that_was_made_before(kernel, dtype):
    gradient = np.random.default_rng(1).normal(size=(2, 300)).astype(dtype)
    kernel = kernel.for_model(60, 7)
    fresh, given = (Chain(kernel, np.full((2, 300), 0.1, dtype), seed=4, chain=1) for _ in range(2))
    for _ in range(3):
        fresh.advance(gradient)
        if given.can_prepare:
            assert given.prepare_noise()
        given.advance(gradient)
    for name, array in fresh.snapshot().items():
        np.testing.assert_array_equal(given.snapshot()[name], array)
