"""The processes engine beside its runs: what it holds, gives back, reports and hands over in which order."""

import errno
import gc
import json
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from socket import socketpair

import numpy as np
import pytest

import stalegrad as sg
from stalegrad.engines import Assignment, Processes, Threads
from stalegrad.engines import message as m
from stalegrad.engines.processes import ordering, slot_worker
from stalegrad.engines.processes import pool as pools
from stalegrad.engines.processes.link import ProcessLink
from stalegrad.engines.processes.reports import MESSAGE, encoded_report
from stalegrad.engines.processes.shared import Slots, WakeUp, anonymous_file
from stalegrad.engines.processes.slot_worker import SlotWorker
from stalegrad.testing import small_model

pytestmark = pytest.mark.usefixtures("compiled")

KERNEL = sg.SGLD(step_size=0.002)


def sample(model, engine="processes", **options):
    options = {"steps": 20, "workers": 2, "seed": 3, "progress": False, **options}
    return sg.sample(model, KERNEL, engine=engine, **options)


class Raising(sg.potentials.Potential):
    """Raises an error with a given text."""

    def __init__(self, text):
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)
        self._text = text

    def gradient(self, theta, indices):
        raise RuntimeError(self._text)


@pytest.mark.parametrize("text", ["é" * 100_000, "\U0001f600" * 100_000, "\x1b" * 100_000, "\ud800" * 100_000])
def test_a_long_traceback_of_any_characters_fits_into_a_message(text):
    """Escaped, a character takes up to twelve bytes."""
    content = encoded_report("raised", (0, 1, 2), f"begin {text} end")
    assert len(content) <= MESSAGE
    message = json.loads(content)
    assert message["details"].startswith("begin ")
    assert message["details"].endswith(" end")
    assert (message["kind"], message["server"], message["worker"], message["incarnation"]) == ("raised", 0, 1, 2)
    short = json.loads(encoded_report("raised", (0, 1, 2), text[:1000]))
    assert short["details"] == text[:1000]


@pytest.mark.long
def test_a_run_survives_a_long_traceback_that_is_not_ascii():
    with pytest.raises(sg.RunFailed, match="RuntimeError: é") as failure:
        sample(Raising("é" * 100_000), Processes(restarts=1))
    assert [event.kind for event in failure.value.run.events] == ["raised"] * 4


def test_a_report_that_cannot_be_read_ends_the_run(monkeypatch):
    """Whoever reads the reports says so before it gives up: without it no server would learn of anything."""
    monkeypatch.setattr(pools.Pool, "_next_report", lambda pool: {"kind": "ready"})
    with pytest.raises(sg.RunFailed, match=r"has reported cannot be read: KeyError"):
        sample(small_model())


def held():
    """Descriptors of this process, and its mappings of memory that has no name."""
    mappings = [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:stalegrad" in line]
    return len(os.listdir("/proc/self/fd")), len(mappings), threading.active_count()


@pytest.fixture
def no_collection():
    """Nothing may wait for the garbage collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_run_gives_back_its_memory_at_its_end(no_collection):
    sample(small_model())
    before = held()
    run = sample(small_model(), servers=2)
    assert held() == before
    assert run.trace.chains[0].steps == 20


def failing_at(function, call):
    """The function, but call number ``call`` of it fails."""
    calls = []

    def wrapped(*arguments, **options):
        calls.append(arguments)
        if len(calls) == call:
            raise OSError(errno.EMFILE, "Too many open files")
        return function(*arguments, **options)

    return wrapped


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize(
    ("place", "name", "call"),
    [(os, "memfd_create", 2), (os, "ftruncate", 2), (os, "pipe", 1), (os, "pipe", 3), (subprocess, "Popen", 1),
     (pools.socket, "socketpair", 1), (threading.Thread, "start", 1)],
)  # fmt: skip
@pytest.mark.long
def test_a_start_that_fails_leaves_nothing_behind(place, name, call, no_collection, monkeypatch):
    sample(small_model())
    before = held()
    with monkeypatch.context() as patch:
        patch.setattr(place, name, failing_at(getattr(place, name), call))
        with pytest.raises(OSError, match="Too many open files"):
            sample(small_model())
    assert held() == before


class Unmade(sg.potentials.Potential):
    """A model of which no worker can have its own."""

    def __init__(self):
        model = small_model()
        super().__init__(model.size, model.minibatches, model.dtype)

    def for_worker(self):
        raise LookupError("nothing for a worker")

    def gradient(self, theta, indices):
        return theta


@pytest.mark.parametrize("engine", [Threads(restarts=1), Processes(restarts=1)], ids=["threads", "processes"])
def test_a_model_that_no_worker_can_have_is_reported_as_the_workers_fault(engine):
    with pytest.raises(sg.RunFailed, match=r"(?s)failing 2 times in a row.*nothing for a worker") as failure:
        sample(Unmade(), engine)
    assert {event.kind for event in failure.value.run.events} == {"raised"}


class WatchedHeader:
    """A header that looks at the rest of the slot whenever its kind is written."""

    def __init__(self, header, look):
        self._header, self._look = header, look

    def __getitem__(self, index):
        return self._header[index]

    def __setitem__(self, index, value):
        if index == m.KIND:
            self._look(value)
        self._header[index] = value


class FewSlots:
    """What a link, and a worker's end of it, take of a pool: one server with a worker or two."""

    def __init__(self, workers=1):
        self.model, self.events = small_model(), []
        self.memory = anonymous_file(Slots.bytes(workers, self.model.size, self.model.dtype))
        self.slots = [Slots(self.memory, workers, self.model.size, self.model.dtype)]
        self.server_wake_ups, self.arrivals = [WakeUp.make()], [SimpleQueue()]
        self.wake_ups = [[WakeUp.make() for _ in range(workers)]]
        self.lost = None

    def order(self, *words):
        self.events.append(words)

    def seen(self, slots):
        """The slots as the worker maps them, watched."""
        self.watch(slots, m.DONE, lambda slots: slots.headers[0][m.NANOSECONDS] == 11)
        return slots

    def watch(self, slots, kind, whole):
        def look(written):
            if written == kind:
                assert self.events[-1] == "fence", "nothing orders the vector before its flag"
                assert whole(slots), "the slot was handed over before it was filled"
                self.events.append("handed over")

        slots.headers[0] = WatchedHeader(slots.headers[0], look)


def test_a_slot_is_handed_over_after_it_was_filled(monkeypatch):
    """The flag that hands a slot over comes last, behind a fence: on both sides, whatever the processor reorders."""
    pool = FewSlots()
    monkeypatch.setattr(ordering, "fence", lambda: pool.events.append("fence"))
    point = np.full((1, pool.model.size), 7.0, pool.model.dtype)
    pool.watch(pool.slots[0], m.WORK, lambda slots: (slots.points[0] == 7.0).all() and slots.headers[0][m.COUNT] == 3)
    link = ProcessLink(pool, 0)
    link.start(0, 0)
    link.send(Assignment(0, 3, 5), point)
    assert pool.events[-1] == "handed over"
    settings = {
        "slots": [pool.memory], "workers": 1, "seed": 1,
        "wake_ups": [[(each.read, each.write) for each in pool.wake_ups[0]]],
        "server_wake_ups": [(each.read, each.write) for each in pool.server_wake_ups],
    }  # fmt: skip
    ours, theirs = socketpair()
    with ours, theirs:
        with monkeypatch.context() as patch:
            patch.setattr(slot_worker, "Slots", lambda *words: pool.seen(Slots(*words)))
            worker = SlotWorker(pool.model, settings, theirs, 0, 0, 0)
        work = worker.receive()
        assert pool.events[-1] == "fence", "nothing orders the flag before the vector is read"
        work.gradient[...] = 9.0
        worker.deliver(11)
    assert pool.events[-1] == "handed over"
    delivery = link.receive(1.0)
    assert pool.events[-1] == "fence"
    assert (delivery.gradient.count, delivery.gradient.version, delivery.seconds) == (3, 5, pytest.approx(11e-9))
    assert (delivery.gradient.values == 9.0).all()


def test_what_a_discarded_worker_had_delivered_is_not_handed_on():
    """Both have finished, worker 1 first; while its gradient is dealt with, worker 0 is found unusable."""
    pool = FewSlots(workers=2)
    link = ProcessLink(pool, 0)
    for worker in (0, 1):
        link.start(worker, 0)
        link.send(Assignment(worker, 0, 0), np.zeros((1, pool.model.size), pool.model.dtype))
        pool.slots[0].headers[worker][m.TIME] = 10 - worker
        pool.slots[0].headers[worker][m.KIND] = m.DONE
    assert link.receive(0.0).worker == 1
    link.discard(0, "refused")
    assert pool.events[-1] == ("kill", 0, 0, 0)
    assert link.receive(0.0) is None


def test_a_fence_of_processors_that_reorder_is_compiled_and_can_be_called():
    assert ordering.compiled_fence() is None
    reorders = platform.machine().lower() not in ("x86_64", "amd64")
    assert (ordering.fence is ordering.compiled_fence) == reorders
