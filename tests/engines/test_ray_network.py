"""Ray across a network that is cut: for seconds, and for good."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("ray")

PROGRAM = Path(__file__).with_name("ray_across_a_link.py")
ALONE = ["unshare", *(["--user", "--map-root-user"] if hasattr(os, "getuid") and os.getuid() else []), "--net", "--pid",
         "--fork", "--kill-child", "--mount-proc"]  # fmt: skip


@pytest.fixture(scope="module")
def alone():
    """What to put before a command to have it alone with a network of its own."""
    missing = [program for program in ("unshare", "nsenter", "ip") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"there is no {', no '.join(missing)} on this system")
    trial = "ip link add sg0 type veth peer name sg1 && unshare --net true"
    done = subprocess.run([*ALONE, "sh", "-c", trial], capture_output=True, text=True, timeout=60)
    if done.returncode:
        pytest.skip(f"this system allows no network namespaces with veth: {done.stderr.strip()}")
    return ALONE


def test_a_link_is_cut_for_seconds_and_then_for_good(alone, tmp_path):
    folder = Path(tempfile.mkdtemp(prefix="sg-"))  # a short name: Ray's sockets are in it
    token = folder / "token"
    token.write_text(secrets.token_hex(32))
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_TMPDIR": str(folder),
           "HOME": str(tmp_path), "RAY_worker_niceness": "0"}  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    try:
        done = subprocess.run(
            [*alone, sys.executable, str(PROGRAM), str(tmp_path)],
            env={**kept, **own}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        logs = "".join(file.read_text() for file in folder.glob("node-*.log"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("seen ")]
    assert lines, f"{done.stdout}\n{done.stderr}\n{logs}"
    seen = json.loads(lines[0].removeprefix("seen "))
    # The first cut was shorter than the patience of either side. Nobody was lost, and the worker went on after it.
    ((kind, details),) = seen["events"]
    assert kind == "died"
    assert "no sign of life for 6." in details
    assert seen["rows"][seen["dead"]][-1] > seen["healed"]
    # The second one cost that worker. The other one did what was left.
    assert seen["rows"][seen["dead"]][-1] <= seen["cut"] + 1
    assert seen["rows"][1 - seen["dead"]][-1] == 899
    assert (seen["twice"], seen["same"]) == (0, True)
