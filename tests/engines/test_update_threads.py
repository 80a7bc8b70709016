"""Updates on several threads: the same bits as on one, whatever the kernel, the length and the number of threads."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import stalegrad as sg
from stalegrad._internal.errors import ArgumentError
from stalegrad.engines.update_threads import split_over
from stalegrad.kernels import PSGLD, SGHMC, SGLD, SGNHT
from stalegrad.kernels.fused import whole
from stalegrad.kernels.noise import TILE
from stalegrad.protocol.chain import Chain

KERNELS = {
    "SGLD": SGLD(step_size=0.01),
    "SGHMC-euler": SGHMC(step_size=0.01, friction=2.0),
    "SGHMC-splitting": SGHMC(step_size=0.01, friction=2.0, integrator="splitting"),
    "SGNHT-shared": SGNHT(step_size=0.01, noise=1.0),
    "SGNHT-each": SGNHT(step_size=0.01, noise=1.0, thermostats="each"),
    "PSGLD": PSGLD(step_size=0.01, n_data=10, batch_size=2),
}


def states(kernel, size, split):
    chain = Chain(kernel, np.linspace(-1, 1, 2 * size, dtype=np.float32).reshape(2, size), 7, 1, split=split)
    for _ in range(5):
        chain.advance(chain.point * np.float32(0.5))
    return chain.snapshot()


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize(("size", "threads"), [(5 * TILE + 3, 2), (5 * TILE + 3, 3), (TILE - 1, 4)])
def test_the_bits_are_those_of_one_thread(kernel, size, threads):
    expected = states(kernel, size, whole)
    for name, found in states(kernel, size, split_over(threads)).items():
        assert_array_equal(found, expected[name], err_msg=name)


def test_parts_are_whole_tiles_and_make_up_everything():
    parts = []
    split_over(3)(lambda start, stop: parts.append((start, stop)), 7 * TILE + 1)
    assert sorted(parts) == [(0, 2 * TILE), (2 * TILE, 5 * TILE), (5 * TILE, 7 * TILE + 1)]


def test_a_part_that_fails_is_told_of():
    def part(start, stop):
        if start:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        split_over(2)(part, 4 * TILE)


@pytest.mark.parametrize("engine", [sg.engines.Threads, pytest.param(sg.engines.Processes, marks=pytest.mark.long)])
def test_a_run_with_update_threads_replays_on_one(engine):
    data = np.linspace(-1, 1, 20 * 3 * TILE).reshape(20, 3 * TILE)
    potential, kernel = sg.potentials.GaussianMean(data, batch_size=4), sg.SGHMC(step_size=0.01, friction=5.0)
    run = sg.sample(potential, kernel, steps=50, workers=2, engine=engine(update_threads=2), progress=False)
    assert_array_equal(sg.replay(run.trace, potential, kernel).draws, run.draws)


def test_no_threads_are_refused():
    with pytest.raises(ArgumentError, match="update_threads"):
        split_over(0)
    for engine in (sg.engines.Threads, sg.engines.Processes, sg.engines.MPI):
        with pytest.raises(ArgumentError, match="update_threads"):
            engine(update_threads=0)
