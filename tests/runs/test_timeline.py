"""The timeline of a run in Chrome's trace format."""

import gzip
import json
from itertools import pairwise

import numpy as np
import pytest
from typer.testing import CliRunner

import stalegrad as sg
from stalegrad import cli
from stalegrad.engines import Event
from stalegrad.engines.simulation import LogNormal
from stalegrad.runs.timeline import write_timeline

TRACE = sg.simulate(
    workers=3, steps=200, servers=2, compute=LogNormal(mean=0.01, variation=0.5), update=1e-3, max_staleness=2
)


def slices(path):
    events = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event["ph"] == "X"], events


def test_every_gradient_is_a_slice_as_long_as_it_took(tmp_path):
    fault = Event(0.5, 1, 2, "raised", "Traceback <b>")
    count = write_timeline(TRACE, tmp_path / "t.json", events=[fault])
    found, events = slices(tmp_path / "t.json")
    assert count == len(found) == sum(map(len, TRACE.chains))
    for s, chain in enumerate(TRACE.chains):
        own = [event for event in found if event["pid"] == s]
        np.testing.assert_allclose([event["dur"] for event in own], chain.gradient_seconds * 1e6, atol=1e-3)
        np.testing.assert_allclose([event["ts"] + event["dur"] for event in own], chain.time * 1e6, atol=0.01)
        assert [event["tid"] for event in own] == chain.worker.tolist()
        assert [event["args"]["staleness"] for event in own] == chain.staleness.tolist()
        assert [event["args"]["version"] for event in own] == chain.version.tolist()
        assert [event["name"] == "gradient" for event in own] == chain.accepted.tolist()
    names = {event["args"]["name"] for event in events if event["ph"] == "M" and "name" in event["args"]}
    assert {"chain 0", "chain 1", "worker 0", "worker 2"} <= names
    (instant,) = [event for event in events if event["ph"] == "i"]
    assert (instant["pid"], instant["tid"], instant["args"]["details"]) == (1, 2, "Traceback <b>")


def test_slices_of_a_worker_do_not_overlap(tmp_path):
    write_timeline(TRACE, tmp_path / "t.json")
    found, _ = slices(tmp_path / "t.json")
    for who in {(event["pid"], event["tid"]) for event in found}:
        own = sorted((e["ts"], e["ts"] + e["dur"]) for e in found if (e["pid"], e["tid"]) == who)
        assert all(end <= begin + 0.01 for (_, end), (begin, _) in pairwise(own))


def test_a_part_and_compressed(tmp_path):
    count = write_timeline(TRACE, tmp_path / "t.json.gz", begin=0.1, end=0.2)
    events = json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))["traceEvents"]
    found = [event for event in events if event["ph"] == "X"]
    assert 0 < count == len(found) < sum(map(len, TRACE.chains))
    assert all(event["ts"] + event["dur"] >= 0.1e6 and event["ts"] <= 0.2e6 for event in found)


def test_what_has_no_times_is_refused(tmp_path):
    with pytest.raises(sg.ArgumentError, match="no run has left it"):
        write_timeline(sg.Trace.constant_staleness(1, 5), tmp_path / "t.json")
    with pytest.raises(sg.ArgumentError, match="later second"):
        write_timeline(TRACE, tmp_path / "t.json", begin=2, end=1)
    assert not list(tmp_path.iterdir())


def test_the_command_on_a_real_run(tmp_path):
    model = sg.potentials.from_gradient(lambda theta, indices: theta, size=2, n_data=4)
    store, out = tmp_path / "x", tmp_path / "t.json"
    run = sg.sample(model, sg.SGLD(step_size=0.1), steps=30, workers=2, store=store, progress=False)
    assert np.all(run.trace.chains[0].gradient_seconds >= 0)
    result = CliRunner().invoke(cli.app, ["timeline", str(store), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "30 gradients" in result.output
    assert len(slices(out)[0]) == 30
