"""Traces executed a stretch at a time: the same bits, whatever the stretches, and points that are kept long enough."""

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines.simulation import Exponential, LogNormal, cluster
from stalegrad.engines.simulation.cluster import Cluster
from stalegrad.protocol import chain_trace, executor
from stalegrad.testing import small_model

pytestmark = pytest.mark.usefixtures("compiled")

KERNEL = sg.SGLD(step_size=0.02)
CLUSTERS = {
    "turns": {"workers": 3},
    "exponential": {"workers": 6, "compute": Exponential(mean=1.0)},
    "straggler": {"workers": 4, "compute": LogNormal(1.0, 0.3, factors={3: 40.0})},
    "dropped": {"workers": 5, "compute": LogNormal(1.0, 0.7), "max_staleness": 3},
    "waiting": {"workers": 5, "compute": LogNormal(1.0, 0.7), "max_staleness": 6, "policy": "wait"},
}


def inline(settings, **changes):
    engine = sg.engines.Inline(compute=settings.get("compute", 1.0))
    rest = {name: value for name, value in settings.items() if name != "compute"}
    arguments = {"steps": 300, "engine": engine, "progress": False, "servers": 2, **rest, **changes}
    return sg.sample(small_model(), KERNEL, **arguments)


@pytest.fixture
def short_stretches(monkeypatch):
    monkeypatch.setattr(chain_trace, "BLOCK_ROWS", 16)
    monkeypatch.setattr(cluster, "BLOCK_ROWS", 16)


@pytest.mark.parametrize("compiled_blocks", [False, True])
@pytest.mark.parametrize("settings", CLUSTERS.values(), ids=CLUSTERS)
def test_stretches_change_no_bit(settings, compiled_blocks, monkeypatch, request):
    if compiled_blocks:
        monkeypatch.setattr(executor, "WORTH_A_BLOCK", 1)
    whole = inline(settings)
    request.getfixturevalue("short_stretches")
    pieces = inline(settings)
    np.testing.assert_array_equal(pieces.draws, whole.draws)
    for one, other in zip(pieces.trace.chains, whole.trace.chains, strict=True):
        for name, column in one.columns().items():
            np.testing.assert_array_equal(column, getattr(other, name), name)
    np.testing.assert_array_equal(sg.replay(whole.trace, small_model(), KERNEL).draws, whole.draws)


@pytest.mark.usefixtures("short_stretches")
class TestDepth:
    def test_points_of_a_gradient_that_never_lands_are_not_kept(self, monkeypatch):
        """Worker 1 takes a thousand times as long as the run, so that its first version would be kept for ever."""
        monkeypatch.setattr(cluster, "_FAR", 50)
        stuck = Cluster(workers=2, compute=LogNormal(1.0, 0.1, factors={1: 1e6}))
        depths = [stretch.depth for stretch in stuck.order(0, 1000).stretches]
        assert max(depths) <= 51
        assert depths[-1] == 1

    def test_those_of_one_that_lands_late_are(self):
        late = Cluster(workers=2, compute=LogNormal(1.0, 0.1, factors={1: 100.0}))
        version = 0
        kept = 0  # the oldest version whose point is still there
        for rows, depth in late.order(0, 1000).stretches:
            for staleness, accepted in zip(rows.staleness, rows.accepted, strict=True):
                if accepted:
                    assert version - staleness >= kept
                    version += 1
                    kept = max(kept, version - depth + 1)
        assert version == 1000
