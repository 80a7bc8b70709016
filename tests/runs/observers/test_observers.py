"""Observers: what they are handed, and that none of them can slow or break a run."""

import json
import logging
import threading

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.runs.observers import sampler
from stalegrad.runs.observers.audience import MOST_EVENTS, Audience
from stalegrad.runs.observers.snapshot import ChainFigures, Happening, Recipe, Snapshot
from stalegrad.runs.observers.tables import named_observer, observers_from_tables

GENEROUS = 60.0  # seconds until a test gives up on what happens at once on an idle machine


class Model(sg.potentials.Potential):
    """A standard normal, with a flag that lets gradients go on."""

    fork_safe = True

    def __init__(self, gate=None, fail_at=None):
        super().__init__(3, sg.potentials.Minibatches.of(10, 1, "subset"), np.dtype(np.float64))
        self.gate, self.fail_at = gate, fail_at
        self.calls = 0

    def gradient(self, theta, indices):
        self.calls += 1
        if self.calls == self.fail_at:
            raise ValueError("<b>no</b>")
        if self.gate is not None and self.calls > 20:
            assert self.gate.wait(GENEROUS)
        return theta


class Notes(sg.observers.Observer):
    every = 0.05

    def __init__(self):
        self.calls, self.snapshots, self.events = [], [], []
        self.seen, self.saved = threading.Event(), threading.Event()

    def start(self, recipe):
        self.calls.append("start")
        self.recipe = recipe

    def snapshot(self, snapshot):
        self.calls.append("snapshot")
        self.snapshots.append(snapshot)
        if snapshot.updates:
            self.seen.set()

    def event(self, happening):
        self.calls.append("event")
        self.events.append(happening)
        if happening.kind == "checkpoint":
            self.saved.set()

    def end(self, snapshot):
        self.calls.append("end")
        self.last = snapshot


class Blocks(sg.observers.Observer):
    every = 0.05

    def __init__(self):
        self.blocked, self.release = threading.Event(), threading.Event()

    def snapshot(self, snapshot):
        self.blocked.set()
        self.release.wait()


class Raises(sg.observers.Observer):
    every = 0.05

    def snapshot(self, snapshot):
        raise RuntimeError("not today")


def sampled(observers, model=None, **others):
    settings = {"steps": 40, "workers": 2, "engine": "threads", "progress": False} | others
    return sg.sample(model or Model(), sg.SGLD(step_size=0.1), observers=observers, **settings)


@pytest.fixture
def short_farewell(monkeypatch):
    """An observer that blocks for ever is left behind soon."""
    monkeypatch.setattr(Audience.end, "__defaults__", (0.2,))


def test_what_an_observer_is_told():
    notes = Notes()
    run = sampled(notes, servers=2, functions={"first": lambda theta: theta[0]})
    assert notes.calls[0] == "start"
    assert notes.calls[-1] == "end"
    assert [event.kind for event in notes.events] == ["start", "end"]
    assert notes.recipe.record["settings"]["steps"] == 40
    last = notes.last
    assert last.state == "finished"
    assert [chain.updates for chain in last.chains] == [40, 40]
    assert last.progress == 1
    assert last.kept == last.evaluated == 80
    (first,) = last.functions
    np.testing.assert_allclose(first.value, run.estimate(lambda theta: theta[0]).value)
    assert first.error > 0
    tau = [chain.mean_staleness for chain in last.chains]
    np.testing.assert_allclose(tau, [chain.staleness_counts.mean for chain in run.trace.chains])


def test_snapshots_come_while_the_run_goes_on():
    gate, notes = threading.Event(), Notes()
    opener = threading.Thread(target=lambda: (notes.seen.wait(GENEROUS), gate.set()))
    opener.start()
    sampled(notes, Model(gate))  # would not end if nobody saw it before
    opener.join()
    assert any(0 < snapshot.updates < 40 and snapshot.state == "running" for snapshot in notes.snapshots)


def test_one_that_blocks_for_ever_holds_up_nobody(short_farewell, caplog):
    blocks, notes = Blocks(), Notes()
    gate = threading.Event()
    opener = threading.Thread(target=lambda: (blocks.blocked.wait(GENEROUS), notes.seen.wait(GENEROUS), gate.set()))
    opener.start()
    run = sampled([blocks, notes], Model(gate))  # all but its first updates are made after it has blocked
    opener.join()
    assert run.draws.shape == (1, 40, 3)
    assert notes.last.state == "finished"
    assert not blocks.release.is_set()
    assert "Blocks has not come to an end and is left behind" in caplog.text
    blocks.release.set()


def test_one_that_raises_is_reported_once(caplog):
    notes, gate = Notes(), threading.Event()
    opener = threading.Thread(target=lambda: (notes.seen.wait(GENEROUS), gate.set()))
    opener.start()
    sampled([Raises(), notes], Model(gate))
    opener.join()
    raised = [record for record in caplog.records if "Raises raised RuntimeError: not today" in record.getMessage()]
    assert len(raised) == 1
    assert "Traceback" in raised[0].getMessage()
    assert notes.last.state == "finished"


def test_faults_come_with_their_tracebacks(caplog):
    notes = Notes()
    sampled(notes, Model(fail_at=5))
    (fault,) = [event for event in notes.events if event.kind == "fault"]
    assert fault.text.endswith("raised: ValueError: <b>no</b>")
    assert "Traceback" in fault.details


def test_checkpoints_and_resume(tmp_path):
    notes, again, gate = Notes(), Notes(), threading.Event()
    opener = threading.Thread(target=lambda: (notes.saved.wait(GENEROUS), gate.set()))
    opener.start()
    sampled(notes, Model(gate), store=tmp_path / "x", checkpoint_every=1e-3)
    opener.join()
    assert "checkpoint" in {event.kind for event in notes.events}
    sg.resume(tmp_path / "x", Model(), steps=60, progress=False, observers=again)
    assert again.events[0].text == "the run goes on"
    assert again.last.updates == 60


def test_a_run_that_fails_says_so():
    notes = Notes()
    with pytest.raises(sg.RunFailed):
        sampled(notes, type("Bad", (Model,), {"gradient": lambda self, theta, indices: 1 / 0})(), workers=1)
    assert notes.last.state == "failed"
    assert notes.events[-1].kind == "end"


def test_inline_runs_are_seen_too():
    notes = Notes()
    sampled(notes, engine="inline", steps=3000, workers=3)
    assert notes.recipe.virtual
    assert notes.last.pictures.table()["total"] == 3000
    assert notes.last.mean_staleness == pytest.approx(2, abs=0.01)


class TestAudience:
    def snapshot(self, number=0):
        return Snapshot(number, 1.0, "running", 10, (ChainFigures(1, 0, 0, 0.0, 0),))

    def test_too_many_events_are_dropped_and_counted(self):
        blocks = Blocks()
        audience = Audience([blocks], self.snapshot)
        audience.begin(Recipe("x", {}))
        assert blocks.blocked.wait(GENEROUS)
        for _ in range(MOST_EVENTS + 7):
            audience.tell(Happening("fault", 0.0, "x"))
        assert audience.seats[0].dropped == 7
        blocks.release.set()
        audience.end(GENEROUS)

    def test_the_last_snapshot_always_comes(self):
        notes, newest = Notes(), [self.snapshot(0)]
        notes.every = 1000.0
        audience = Audience([notes], lambda: newest[0])
        audience.begin(Recipe("x", {}))
        newest[0] = self.snapshot(1)
        audience.end(GENEROUS)
        assert notes.last.number == notes.snapshots[-1].number == 1


class TestWhatIsWritten:
    def test_json_lines(self, tmp_path):
        sampled(sg.observers.JSONLines(tmp_path / "new" / "run.jsonl", every=0.05))
        lines = [json.loads(line) for line in (tmp_path / "new" / "run.jsonl").read_text().splitlines()]
        assert [lines[0]["what"], lines[-1]["what"], lines[-1]["state"]] == ["start", "end", "finished"]
        assert [line for line in lines if line["what"] == "snapshot"][-1]["chains"][0]["updates"] == 40

    def test_anything_that_logs(self):
        class Tool:
            config: dict = {}  # noqa: RUF012

            def __init__(self):
                self.logged = []

            def log(self, numbers, step):
                self.logged.append((numbers, step))

        tool = Tool()
        sampled(sg.observers.Logger(tool, prefix="sg/", every=0.05))
        numbers, step = tool.logged[-1]
        assert step == numbers["sg/updates"] == 40
        assert all(isinstance(value, float) and np.isfinite(value) for value in numbers.values())
        assert tool.config["settings.steps"] == "40"

    def test_prometheus(self, tmp_path):
        name = 'we"i\\rd\n<φ>'
        sampled(sg.observers.Prometheus(tmp_path / "run.prom"), functions={name: lambda theta: theta[0]})
        text = (tmp_path / "run.prom").read_text()
        assert 'stalegrad_updates_total{run="Model",chain="0"} 40\n' in text
        assert 'stalegrad_estimate{run="Model",function="we\\"i\\\\rd\\n<φ>"} ' in text
        for line in text.splitlines():
            assert line.startswith("# ") or float(line.rpartition(" ")[2]) is not None
        kinds = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
        assert len(kinds) == len(set(kinds))


class TestTables:
    def test_by_name(self, tmp_path):
        (one,) = observers_from_tables([{"name": "json", "path": "x", "every": 2}])
        assert one == sg.observers.JSONLines("x", every=2.0)
        assert named_observer("json:a:b") == sg.observers.JSONLines("a:b")

    @pytest.mark.parametrize("text", ["json", "json:", "paper:x", ":x"])
    def test_what_is_not_one(self, text):
        with pytest.raises(sg.ArgumentError, match="json:PATH"):
            named_observer(text)

    def test_what_is_no_observer(self):
        with pytest.raises(sg.ArgumentError, match=r"observers\[1\].*sg\.observers\.JSONLines"):
            sampled([Notes(), print])
        with pytest.raises(sg.ArgumentError, match=r"every.*> 0"):
            sg.observers.JSONLines("x", every=0)
        with pytest.raises(sg.ArgumentError, match=r"wandb\.init"):
            sg.observers.Logger(print)


def test_a_look_that_fails_is_reported_once(monkeypatch, caplog):
    from stalegrad.runs.observers import live

    def fail(self):
        raise RuntimeError("no figures")

    monkeypatch.setattr(live.LiveSource, "chains", fail)
    caplog.set_level(logging.WARNING)
    assert sampled(Notes()).draws.shape == (1, 40, 3)
    assert caplog.text.count("the run could not be looked at, and goes on") == 1


class ManyRows:
    """A source that has as many chains as one likes, each with a million rows a look, and notes what is asked for."""

    workers = 1

    def __init__(self, servers):
        self.servers, self.asked = servers, []

    def rows(self, chain, since, most):
        self.asked.append(most)
        return since + 1_000_000, None


@pytest.mark.parametrize(("servers", "each"), [(1, 16_384), (4, 4_096), (1000, 256)])
def test_what_a_look_takes_does_not_grow_with_the_number_of_chains(servers, each):
    source = ManyRows(servers)
    sampler.Sampler(source)._look_at_rows()
    assert source.asked == [each] * servers
