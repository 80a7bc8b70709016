"""The Ray engine while everything that can be killed is killed: workers, servers, nodes."""

import logging
import os
import signal

import numpy as np

import stalegrad as sg
from stalegrad.engines import Ray
from stalegrad.engines.ray import supervisor

from .ray_stage import NODE, TOKEN, assert_sound, server_processes


def test_six_kills_of_workers(stage):
    killed = []

    def script(stage):
        for _ in range(6):
            pid = stage.wait_for(lambda: sorted(stage.computing().keys() - set(killed)))[-1]
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        stage.wait_for(lambda: len(stage.computing()) >= 8)  # all six were replaced

    run = stage.play(script, Ray(gradients_per_call=8, restarts=6))
    assert len(set(killed)) == 6
    assert [event.kind for event in run.events] == ["died"] * 6
    assert all(event.worker in (0, 1) for event in run.events)
    assert all("WorkerCrashedError" in event.details for event in run.events)
    assert_sound(run)


def test_kills_of_the_server(stage, caplog, tmp_path):
    """With a store; that a server goes on without one, too, is shown by the death of its node, below."""
    caplog.set_level(logging.INFO, "stalegrad")
    store = tmp_path / "run"

    def script(stage):
        for kill in range(2):
            pid = stage.wait_for(lambda kill=kill: server_processes(caplog)[kill:])[0]
            known = sg.store.inspect(store).updates[0]
            stage.wait_for(lambda known=known: sg.store.inspect(store).updates[0] > known + 10)
            os.kill(pid, signal.SIGKILL)
        stage.wait_for(lambda: len(server_processes(caplog)) == 3)

    run = stage.play(script, Ray(gradients_per_call=8), store=store, checkpoint_every=0.5)
    assert [(event.kind, event.worker) for event in run.events] == [("died", None), ("died", None)]
    assert_sound(run)
    (chain,) = run.trace.chains
    first, second = (event.time for event in run.events)
    assert (chain.time < first).sum() > 10  # what was done before a kill counts
    assert ((chain.time > first) & (chain.time < second)).sum() > 10
    again = sg.load(store)
    np.testing.assert_array_equal(np.asarray(again.draws), np.asarray(run.draws))
    assert len(again.events) == 2
    assert not any(TOKEN.encode() in file.read_bytes() for file in store.rglob("*") if file.is_file())
    assert TOKEN not in caplog.text


def test_stopped_processes_count_as_cut_off(stage, caplog):
    """SIGSTOP, first of a worker, then of the server: no connection breaks, and nobody says anything any more."""
    caplog.set_level(logging.INFO, "stalegrad")

    def script(stage):
        first = stage.wait_for(lambda: sorted(stage.computing()) if len(stage.computing()) == 2 else None)
        os.kill(first[0], signal.SIGSTOP)
        stage.wait_for(lambda: "no sign of life" in caplog.text and len(stage.computing()) == 3)
        os.kill(server_processes(caplog)[0], signal.SIGSTOP)
        stage.wait_for(lambda: len(server_processes(caplog)) == 2)

    run = stage.play(script, Ray(gradients_per_call=8, heartbeat=0.5, timeout=3.0))
    assert [(event.kind, event.worker is None) for event in run.events] == [("died", False), ("died", True)]
    assert "no sign of life for 3." in run.events[0].details
    assert "no answer for 3 s" in run.events[1].details
    assert_sound(run)


def test_nodes_come_and_go(stage, nodes, caplog, monkeypatch):
    """A node with a worker dies; then one with the server and the other worker. Each time another node comes."""
    caplog.set_level(logging.INFO, "stalegrad")
    monkeypatch.setattr(supervisor, "_WAIT", 1.0)
    there = [nodes.add_node(num_cpus=1, resources=own, **NODE) for own in ({"pool": 1}, {"pool": 1, "stable": 1})]

    def script(stage):
        stage.wait_for(lambda: stage.settled() == 2)
        assert len(set(stage.computing().values())) == 2  # spread
        caplog.clear()
        nodes.remove_node(there.pop(0), allow_graceful=False)
        stage.wait_for(lambda: "1 of 2 workers have not started: the cluster may be full" in caplog.text)
        assert len(stage.computing()) == 2  # no room, no replacement, and no fault
        there.append(nodes.add_node(num_cpus=2, resources={"pool": 2, "stable": 1}, **NODE))
        stage.wait_for(lambda: len(stage.computing()) == 3)
        nodes.remove_node(there.pop(0), allow_graceful=False)
        stage.wait_for(lambda: server_processes(caplog))
        stage.wait_for(lambda: len(stage.computing()) == 4)

    try:
        run = stage.play(script, Ray(gradients_per_call=8, resources={"pool": 1}, server_resources={"stable": 1}))
    finally:
        for node in there:
            nodes.remove_node(node)
    assert {event.kind for event in run.events} == {"died"}
    first, *others = run.events  # among the others may be the worker that died with the server's node
    assert first.worker in (0, 1)
    (server,) = (event for event in others if event.worker is None)
    lost = [event.worker for event in run.events if event.worker is not None]
    assert len(lost) == len(set(lost)) <= 2
    assert_sound(run)
    assert (run.trace.chains[0].time < server.time).sum() > 10  # what the first server did counts, without any store
