"""Ray on two hosts with a network between them that is cut: for seconds, and for good."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from .networks import TwoHosts

PROGRAM = Path(__file__).with_name("ray_across_a_link.py")
TOO_BUSY = 77  # what it ends with if Ray could not be started
ALONE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def test_a_link_is_cut_for_seconds_and_then_for_good(tmp_path, token):
    """A worker on each host, and the server beside one of them."""
    with TwoHosts():
        pass  # else this is skipped
    log = tmp_path / "log"
    command = [*ALONE, sys.executable, str(PROGRAM), str(tmp_path)]
    try:
        done = subprocess.run(command, env=token, capture_output=True, text=True, timeout=420)
    except subprocess.TimeoutExpired:
        pytest.fail(f"it did not come to an end: {log.read_text()}")
    if done.returncode == TOO_BUSY:
        pytest.skip("this machine is so busy that Ray does not start a node within 100 seconds")
    assert (tmp_path / "reported").exists(), f"{done.stderr}\n{log.read_text()}"
    reported = json.loads((tmp_path / "reported").read_text())
    ((kind, details),) = reported["events"]  # the first cut was shorter than the patience of either side
    assert kind == "died"
    assert "no sign of life for " in details
    assert (reported["interrupted"], reported["twice"], reported["same"]) == (True, 0, True)


@pytest.fixture
def token(tmp_path):
    """Variables for programs that show a token to each other, and have a place for Ray's own files."""
    folder = Path(tempfile.mkdtemp(prefix="sg-"))  # a short name: Ray's sockets are in it
    (folder / "token").write_text(secrets.token_hex(32))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token"), "RAY_TMPDIR": str(folder)}
    yield {**kept, **own, "HOME": str(tmp_path), "RAY_worker_niceness": "0"}
    shutil.rmtree(folder, ignore_errors=True)
