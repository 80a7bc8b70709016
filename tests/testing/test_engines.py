"""The public conformance suite on every engine, and bit-exact replay of real runs of many shapes."""

import pytest

from stalegrad.engines import Inline, Processes, Threads
from stalegrad.testing import KERNELS, check_bound, check_engine, check_replay

pytestmark = pytest.mark.usefixtures("compiled")

REAL = {"threads": Threads, "processes": Processes}


@pytest.mark.parametrize(
    "engine",
    [Inline(), Threads(), pytest.param(Processes(), marks=pytest.mark.long)],
    ids=["Inline", "Threads", "Processes"],
)
def test_keeps_every_promise(engine):
    check_engine(engine)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize(
    ("servers", "workers"),
    [(1, 1), (2, 3), *(pytest.param(*each, marks=pytest.mark.long) for each in ((1, 9), (3, 5), (3, 9)))],
)
def test_real_runs_replay_bit_for_bit(name, servers, workers):
    run = check_replay(REAL[name](), KERNELS[workers % len(KERNELS)], servers=servers, workers=workers, steps=200)
    assert run.timing.count >= 200 * servers
    assert run.events == ()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_every_kernel_replays_from_threads(kernel):
    check_replay(Threads(), kernel, servers=2, workers=4, steps=200)


class Forgetful(Threads):
    """An engine that breaks a promise: it loses the last row of every trace."""

    def run(self, job):
        from dataclasses import replace

        outcome = super().run(job)
        return replace(outcome, chains=tuple(chain.head(chain.steps - 1) for chain in outcome.chains))


def test_the_suite_notices_a_broken_promise():
    with pytest.raises(AssertionError, match="a chain made 149 updates"):
        check_engine(Forgetful())


class Unbounded(Threads):
    """An engine that ignores the staleness bound."""

    def run(self, job):
        from dataclasses import replace

        settings = replace(job.settings, max_staleness=None, policy="drop")
        return super().run(replace(job, settings=settings))


def test_the_suite_notices_a_broken_bound():
    with pytest.raises(AssertionError, match="the bound is 2"):
        check_bound(Unbounded(), steps=150)
