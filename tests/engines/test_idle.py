"""Nobody spins: while all workers compute, servers use next to no CPU time."""

import time

import pytest

import stalegrad as sg
from stalegrad.engines import ServerLoop
from stalegrad.testing import FaultyModel

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_idle_servers_sleep(engine, tmp_path, monkeypatch):
    """CPU time of this process between the first and the last gradient, as a share of the time that passed."""
    seen = []
    handle = ServerLoop._handle

    def noting(loop, arrival):
        handle(loop, arrival)
        seen.append((time.perf_counter(), time.process_time()))

    monkeypatch.setattr(ServerLoop, "_handle", noting)
    model = FaultyModel(tmp_path / "calls", {}, seconds=0.4)  # it sleeps
    sg.sample(model, sg.SGLD(step_size=0.002), steps=8, workers=2, servers=2, engine=engine, progress=False)
    (begun, cpu_begun), (ended, cpu_ended) = seen[8], seen[-1]  # after the four that joined and a first round
    assert ended - begun > 0.5
    assert (cpu_ended - cpu_begun) / (ended - begun) < 0.05 * 2  # two servers, 5 % of a core each
