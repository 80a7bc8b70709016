"""Memory does not grow with the number of gradients: not of a run with a store, nor of whoever looks at it later."""

import gc
import tracemalloc

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.runs.store import chain_writer
from stalegrad.runs.summary import summarise
from stalegrad.testing import small_model

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("compiled")]

KERNEL = sg.SGLD(step_size=0.02)
FEW, MANY = 12_000, 48_000  # with fewer, what is bounded is not yet full
THIN = 400
ALLOWED = 5
"""Bytes a gradient: some are there for every chunk and every draw, of which these short runs have many. It was 126 to
194 bytes before rows were dropped once they are on disk."""


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 1,000 rows, so that short runs are of many."""
    from stalegrad.engines import inline, segment
    from stalegrad.engines.simulation import cluster
    from stalegrad.engines.threads import compiled_server
    from stalegrad.protocol import chain_trace, executor
    from stalegrad.runs.store import stored_trace

    for module in (chain_trace, cluster):
        monkeypatch.setattr(module, "BLOCK_ROWS", 1000)
    for worth in ("WORTH_A_BLOCK", "WORTH_LOADING"):  # of longer runs alone, code would be loaded that takes memory
        monkeypatch.setattr(executor, worth, 10**9)
    for worth in ("WORTH_COMPILING", "WORTH_LOADING"):
        monkeypatch.setattr(compiled_server, worth, 10**9)
    monkeypatch.setattr(inline, "_SOON", 0.002)  # turns grow to what they can be in the shorter runs already
    monkeypatch.setattr(segment, "_UPDATES", 1000)
    monkeypatch.setattr(stored_trace, "CHUNK_ROWS", 1000)
    monkeypatch.setattr(chain_writer.ChainWriter, "most_rows", 1000)


def sample(store, steps, engine="inline"):
    return sg.sample(
        small_model(), KERNEL, steps=steps, thin=THIN, workers=2, engine=engine, store=store, progress=False,
        checkpoint_every=0.05,
    )  # fmt: skip


def peak_of(call):
    """The most bytes that Python and NumPy had at a time in a call."""
    gc.collect()
    gc.freeze()  # what is there already is no garbage, and takes long to look through
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.unfreeze()


def bytes_a_gradient(of_few, of_many):
    of_few()  # what is imported or compiled the first time is not looked at
    few = peak_of(of_few)
    many = min(peak_of(of_many) for _ in range(2))  # what waits for the disk may be more for once
    return (many - few) / (MANY - FEW)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("engine", ["inline", "threads"])
def test_of_a_run(tmp_path, engine):
    """It was 158 bytes a gradient inline, 194 on threads."""
    places = iter(range(10))
    few, many = (lambda n=n: sample(tmp_path / str(next(places)), n, engine) for n in (FEW, MANY))
    assert bytes_a_gradient(few, many) < ALLOWED


@pytest.mark.usefixtures("small_blocks")
def test_of_a_run_in_compiled_loops(tmp_path, monkeypatch):
    """With workers that are slow enough for the disk: else what grows is what waits for it, until that is too much."""
    from stalegrad.engines.threads import compiled_server

    monkeypatch.setattr(compiled_server, "WORTH_COMPILING", 1)
    test_of_a_run(tmp_path, sg.engines.Threads(slow={0: 1e-4, 1: 1e-4}))


@pytest.mark.usefixtures("small_blocks")
class TestOfAStore:
    @pytest.fixture
    def stores(self, tmp_path):
        sample(tmp_path / "few", FEW)
        sample(tmp_path / "many", MANY)
        return tmp_path / "few", tmp_path / "many"

    def test_that_is_loaded(self, stores):
        """It was 126 bytes a gradient."""
        few, many = (lambda store=store: repr(sg.load(store)) for store in stores)
        assert bytes_a_gradient(few, many) < 1

    def test_that_is_summed_up_and_diagnosed(self, stores):
        def look(store):
            run = sg.load(store)
            return summarise(run), run.diagnose()

        few, many = (lambda store=store: look(store) for store in stores)
        assert bytes_a_gradient(few, many) < ALLOWED

    def test_that_is_resumed_or_replayed(self, stores):
        runs = [sg.load(store) for store in stores]
        few, many = (lambda run=run: sg.replay(run.trace, small_model(), KERNEL) for run in runs)
        assert bytes_a_gradient(few, many) < ALLOWED
        more = {store: iter(range(1, 10)) for store in stores}

        def resume(store, steps):
            return sg.resume(store, small_model(), steps=steps + THIN * next(more[store]), progress=False)

        few, many = (lambda s=s, n=n: resume(s, n) for s, n in zip(stores, (FEW, MANY), strict=True))
        assert bytes_a_gradient(few, many) < ALLOWED

    def test_rows_are_those_of_a_run_in_memory(self, stores):
        stored, held = sg.load(stores[0]).trace.chains[0], sample(None, FEW).trace.chains[0]
        for name, column in held.columns().items():
            np.testing.assert_array_equal(getattr(stored, name), column, name)


def test_averages_of_many_draws_say_what_the_draws_say(monkeypatch):
    """The mean is the same; its error, the effective draws and the deviation are worked out of batches."""
    from stalegrad.runs import summary

    run = sg.sample(small_model(), KERNEL, steps=4000, workers=2, engine="inline", progress=False, servers=2)
    one_by_one = summarise(run).parameters
    monkeypatch.setattr(summary, "_MOST_BATCHES", 1000)
    for single, batched in zip(one_by_one, summarise(run).parameters, strict=True):
        assert batched.mean == pytest.approx(single.mean, rel=1e-9)
        assert batched.deviation == pytest.approx(single.deviation, rel=1e-9)
        assert batched.rhat == single.rhat
        assert batched.standard_error == pytest.approx(single.standard_error, rel=0.3)
        assert batched.ess == pytest.approx(single.ess, rel=0.5)
