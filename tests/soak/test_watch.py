"""What a soak says of resources: growth is told from noise, and processes are found and ended."""

import mmap
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from .crew import Broken, Nodes
from .watch import FEWEST, WARM_UP, Usage, descendants, grows, growth, is_alive, parent, state, usage


def life(resident, descriptors=20, threads=4, runs=20):
    """The usages of a process, whose figures may be functions of the run's number."""

    def at(figure, run):
        return figure(run) if callable(figure) else figure

    return [Usage(at(resident, k), at(descriptors, k), at(threads, k)) for k in range(runs)]


def test_too_few_runs_tell_nothing():
    assert growth(life(1000.0, runs=WARM_UP + FEWEST - 1)) is None
    assert growth(life(1000.0, runs=WARM_UP + FEWEST)) is not None


def test_noise_is_no_growth():
    rng = np.random.Generator(np.random.Philox(key=2))
    noise = rng.normal(0.0, 300.0, 40)
    slopes = growth(life(lambda k: 90_000 + noise[k], lambda k: 20 + k % 3, runs=40))
    assert grows(slopes) == []


def test_a_warm_up_and_a_single_outlier_are_no_growth():
    assert grows(growth(life(lambda k: 90_000.0 * min(k, 2) + 50_000 * (k == 19)))) == []


def test_a_leak_is_seen_behind_noise():
    rng = np.random.Generator(np.random.Philox(key=2))
    noise = rng.normal(0.0, 300.0, 20)
    words = grows(growth(life(lambda k: 90_000 + 800 * k + noise[k])))
    assert len(words) == 1
    assert "kB of memory" in words[0]


def test_a_descriptor_and_a_thread_a_run_are_seen():
    words = grows(growth(life(90_000.0, lambda k: 20 + k, lambda k: 4 + k // 2)))
    assert [word.split(maxsplit=1)[1] for word in words] == [
        "descriptors more with every run",
        "threads more with every run",
    ]


def test_what_this_process_occupies():
    before = usage(os.getpid())
    held = mmap.mmap(-1, 32_000_000)  # of its own: an array may find room that was freed before
    held.write(bytes(len(held)))
    with open(os.devnull) as file:
        after = usage(os.getpid())
        assert after.descriptors == before.descriptors + 1
    assert after.resident - before.resident > 0.9 * len(held) / 1024
    assert after.threads >= 1
    del file


def test_children_and_theirs_are_found_stopped_and_gone():
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    child = subprocess.Popen([sys.executable, "-c", program])
    try:
        while not (below := descendants(child.pid)):
            time.sleep(0.02)
        assert set(descendants(os.getpid())) >= {child.pid, *below}
        os.kill(below[0], signal.SIGSTOP)
        while state(below[0]) != "T":
            time.sleep(0.02)
        assert is_alive(below[0])
        assert parent(below[0]) == child.pid
        os.kill(below[0], signal.SIGKILL)
    finally:
        child.wait(timeout=60)
    assert not is_alive(child.pid)
    assert parent(child.pid) is None
    assert state(child.pid) is None


def test_a_ray_cluster_that_ends_while_a_node_is_added_is_not_waited_for(tmp_path):
    """Where a machine is so busy that Ray gives up, the soak says so at once."""
    nodes = Nodes.__new__(Nodes)
    nodes._home, nodes.more = tmp_path, 0
    nodes.process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    with pytest.raises(Broken, match="the Ray cluster has ended at the order to add a node"):
        nodes.change("add")
