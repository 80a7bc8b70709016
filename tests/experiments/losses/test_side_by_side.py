"""Work of experiments in processes of their own: taken when one is free, and ended with whoever asked for it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from stalegrad.experiments.losses.side_by_side import side_by_side

ENDLESS = """
import os, sys, time
from pathlib import Path
from stalegrad.experiments.losses.side_by_side import side_by_side

def sleep(place):
    Path(place).write_text(str(os.getpid()))
    time.sleep(600)

if __name__ == "__main__":
    list(side_by_side(sleep, sys.argv[1:], 2))
"""


def squared(number):
    return number**2


def failing(number):
    if number == 1:
        raise ValueError("one")
    time.sleep(600)


@pytest.mark.parametrize("processes", [1, 2])
def test_all_are_done_and_no_more_are_taken_than_processes_are_free(processes):
    taken = []

    def tasks():
        for number in range(5):
            taken.append(number)
            yield number

    found = {}
    for task, outcome in side_by_side(squared, tasks(), processes):
        found[task] = outcome
        assert len(taken) <= len(found) + processes
    assert found == {0: 0, 1: 1, 2: 4, 3: 9, 4: 16}


def test_an_error_of_one_ends_the_others():
    with pytest.raises(ValueError, match="one"):
        list(side_by_side(failing, [0, 1], 2))  # the other would sleep for ten minutes


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_goes_on_behind_the_back_of_a_caller_that_was_ended(tmp_path, number):
    script, notes = tmp_path / "endless.py", [tmp_path / "a", tmp_path / "b"]
    script.write_text(ENDLESS)
    caller = subprocess.Popen([sys.executable, str(script), *map(str, notes)], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: all(note.exists() and note.read_text() for note in notes))
        workers = [int(note.read_text()) for note in notes]
        assert all(map(is_there, workers))
        caller.send_signal(number)
        caller.wait(60)
        wait_until(lambda: not any(map(is_there, workers)))
    finally:
        caller.kill()
        caller.wait()


def wait_until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing came of it"
        time.sleep(0.05)


def is_there(process):
    """Whether it runs: one that has ended and that nobody has asked about does not."""
    try:
        os.kill(process, 0)
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
