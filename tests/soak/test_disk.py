"""The disk of a soak: full to the last byte where it can be mounted, simulated where it cannot; and ended processes."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import stalegrad as sg
from stalegrad._internal import failpoints
from stalegrad._internal.files import write
from stalegrad.testing import small_model

from .disk import Disk
from .subject import simulate_full_disk

ROOT = Path(__file__).resolve().parents[2]
MOUNTED = """
import os, sys
from pathlib import Path
from tests.soak.disk import Disk, enter_private_mounts
if not enter_private_mounts():
    sys.exit("not allowed")
assert os.listdir("/dev/shm") == []
disk = Disk(Path(sys.argv[1]), private=True)
assert disk.is_real
disk.fill()
try:
    (disk.path / "one").write_bytes(b"x")
    sys.exit("there is room")
except OSError as error:
    assert "No space left" in str(error)
(disk.path / "one").unlink(missing_ok=True)
disk.free()
(disk.path / "one").write_bytes(bytes(1 << 20))
disk.close()
assert os.listdir(disk.path) == []
"""


def test_a_small_disk_is_filled_in_the_kernel_and_freed(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MOUNTED, tmp_path], capture_output=True, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )  # fmt: skip
    if "not allowed" in done.stderr:
        pytest.skip("this system lets us mount nothing: the soak simulates full disks here")
    assert done.returncode == 0, done.stderr
    assert not os.path.ismount(tmp_path / "disk")


def until(there):
    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_without_the_right_to_mount_every_write_of_a_store_fails_until_it_is_freed(tmp_path):
    folder = tmp_path / "soak"
    folder.mkdir()
    disk = Disk(folder, private=False)
    assert "simulated" in disk.how
    flag = Path(disk.environment["SOAK_FULL"])
    simulation = threading.Thread(target=simulate_full_disk, args=(flag,))
    simulation.start()

    def fails():
        try:
            write(disk.path / "file", b"content", "somewhere")
        except OSError:
            return True
        return False

    try:
        assert not fails()
        disk.fill()
        until(fails)
        with pytest.raises(sg.StoreError, match="No space left"):
            sg.sample(
                small_model(), sg.SGLD(step_size=0.01), steps=4, engine="inline", store=disk.path / "x", progress=False
            )
        disk.free()
        until(lambda: not fails())
        disk.close()
    finally:
        folder.rename(tmp_path / "gone")
        simulation.join(timeout=60)
        failpoints.arm("")
    assert not simulation.is_alive()


def test_all_that_was_started_is_ended_also_what_has_lost_its_parent(tmp_path):
    """In a process of its own, which takes over whatever loses its parent below it."""
    program = """
import subprocess, sys, time
from pathlib import Path
from tests.soak.children import Children
children = Children()
orphan = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
parent = children.start([sys.executable, "-c", orphan], Path(sys.argv[1]), {})
parent.wait()
(left,) = children.alive()
assert left != parent.pid
assert children.wait_for_end([left], 0.0) == [left]
children.end()
assert children.alive() == []
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "log"], capture_output=True, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
