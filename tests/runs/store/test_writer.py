"""The thread that writes: in order, in bounded memory, and again when it could not."""

import errno
import threading

import pytest

import stalegrad as sg
from stalegrad.runs.store import writer
from stalegrad.runs.store.writer import Writer


class Disk:
    """Keeps what is written, and is full until it is freed."""

    def __init__(self):
        self.kept, self.tries = [], 0
        self.full = True
        self.tried = threading.Event()

    def piece(self, number):
        def write():
            self.tries += 1
            self.tried.set()
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.kept.append(number)

        return write


@pytest.fixture
def disk(monkeypatch):
    monkeypatch.setattr(writer, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 0.002)
    return Disk()


def test_what_waited_is_written_in_order_once_there_is_room(tmp_path, disk):
    thread = Writer(tmp_path, "continue")
    thread.put(disk.piece(0), 1)
    assert disk.tried.wait(60)
    for number in range(1, 50):  # more than may wait for a disk that is merely slow
        thread.put(disk.piece(number), 1)
    assert disk.kept == []
    disk.full = False
    thread.close()
    assert disk.kept == list(range(50))
    assert thread.failure is None


def test_memory_is_bounded_and_then_the_sampling_waits(tmp_path, disk, monkeypatch):
    monkeypatch.setattr(writer, "MOST_BYTES", 100)
    thread = Writer(tmp_path, "continue")
    thread.put(disk.piece(0), 40)
    assert disk.tried.wait(60)
    thread.put(disk.piece(1), 40)
    done = threading.Event()

    def sampling():
        thread.put(disk.piece(2), 40)
        done.set()

    other = threading.Thread(target=sampling, daemon=True)
    other.start()
    tries = disk.tries
    while disk.tries < tries + 20:
        assert not done.is_set()
    disk.full = False
    assert done.wait(60)
    other.join()
    thread.close()
    assert disk.kept == [0, 1, 2]


@pytest.mark.parametrize("waits", ["in put", "at the end"])
def test_a_disk_that_takes_nothing_for_too_long_is_a_failure(tmp_path, disk, monkeypatch, waits):
    monkeypatch.setattr(writer, "MOST_BYTES", 0)
    monkeypatch.setattr(writer, "PATIENCE", 0.01)
    thread = Writer(tmp_path, "continue")
    thread.put(disk.piece(0), 10)
    if waits == "in put":
        thread.put(disk.piece(1), 10)  # two may wait in any case
        with pytest.raises(sg.StoreError, match="No space left"):
            thread.put(disk.piece(2), 10)
    thread.close()
    assert isinstance(thread.failure, sg.StoreError)
    with pytest.raises(sg.StoreError, match="No space left"):
        thread.put(disk.piece(9), 1)
    thread.close()


def test_whoever_is_asked_to_stop_does_not_wait(tmp_path, disk):
    thread = Writer(tmp_path, "continue")  # with patience for ten minutes
    thread.put(disk.piece(0), 10)
    assert disk.tried.wait(60)
    thread.hurry()
    thread.close()
    assert thread.failure is not None


def test_stop_does_not_try_again(tmp_path, disk):
    thread = Writer(tmp_path, "stop")
    thread.put(disk.piece(0))
    thread.close()
    assert disk.tries == 1
    assert "No space left" in str(thread.failure)


def test_what_is_no_fault_of_the_disk_is_not_tried_again(tmp_path):
    tries = []

    def broken():
        tries.append(1)
        raise ValueError("a defect")

    thread = Writer(tmp_path, "continue")
    thread.put(broken)
    thread.close()
    assert len(tries) == 1
    assert "a defect" in str(thread.failure)
