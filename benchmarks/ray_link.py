"""Ray on two hosts that are network namespaces of this machine, with a cable between them whose speed is limited.

The first host has Ray's head and the server, the second the workers, so that every point and every gradient goes
through the cable. Whatever is started here ends with the first process of a process namespace of its own, and the
networks with it; no network outside of them is touched. It needs the right to make namespaces.

    with two_hosts(gigabits=1.0, workers=2) as address:
        engine = sg.engines.Ray(address=address, server_resources={"first": 1})
"""

import logging
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ALONE = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Before the command that calls :func:`two_hosts`: it is the first host."""
ADDRESSES = ("10.77.0.1", "10.77.0.2")
PORT, PATIENCE = 6399, 300.0
_RAY = str(Path(sys.executable).parent / "ray")
_NODE = ("--object-store-memory=400000000", "--disable-usage-stats", "--block")


def environment(folder: Path) -> dict[str, str]:
    """Variables for a process that is to call :func:`two_hosts`: a token, and a place for Ray's files."""
    (folder / "token").write_text(secrets.token_hex(32))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token"), "RAY_TMPDIR": str(folder)}
    return {**kept, **own, "RAY_worker_niceness": "0"}


@contextmanager
def two_hosts(gigabits: float, workers: int) -> Iterator[str]:
    """Both hosts and a node of Ray on each; the address of the cluster."""
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    holder.stdout.readline()  # its network is there
    second = ("nsenter", "--target", str(holder.pid), "--net")
    _run("ip", "link", "add", "card", "type", "veth", "peer", "name", "card", "netns", str(holder.pid))
    for host, own in zip(((), second), ADDRESSES, strict=True):
        _run(*host, "ip", "link", "set", "lo", "up")
        _run(*host, "ip", "link", "set", "card", "mtu", "9000")
        _run(*host, "ip", "address", "add", f"{own}/24", "dev", "card")
        _run(*host, "ip", "link", "set", "card", "up")
        rate = ("rate", f"{gigabits}gbit", "burst", "1mb", "limit", "64mb")
        _run(*host, "tc", "qdisc", "add", "dev", "card", "root", "tbf", *rate)
    folder, address = os.environ["RAY_TMPDIR"], f"{ADDRESSES[0]}:{PORT}"
    head = ("--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={folder}", "--num-cpus=0")
    nodes = [_node((), ADDRESSES[0], (*head, '--resources={"first": 1}'))]
    nodes.append(_node(second, ADDRESSES[1], (f"--address={address}", f"--num-cpus={workers}")))
    try:
        import ray

        # One connection for all runs: Ray starts other workers for each, which takes them a quarter of a minute.
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
        yield address
    finally:
        ray.shutdown()
        for node in nodes:
            node.kill()
        holder.communicate()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=30)


def _node(host: Sequence[str], own: str, options: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a node and wait for it. Ray gives up after half a minute on a busy machine, and is then started again."""
    log, deadline = Path(os.environ["RAY_TMPDIR"]) / f"node-{own}", time.monotonic() + PATIENCE
    process = None
    while not (log.exists() and "Ray runtime started" in log.read_text()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"Ray has not started a node in {PATIENCE:.0f} s: {log.read_text()}")
        if process is None or process.poll() is not None:
            with log.open("w") as said:
                command = [*host, _RAY, "start", f"--node-ip-address={own}", *options, *_NODE]
                process = subprocess.Popen(command, stdout=said, stderr=said)
        time.sleep(0.1)
    assert process is not None
    return process
