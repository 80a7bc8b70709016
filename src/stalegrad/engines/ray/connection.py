"""The connection to a Ray cluster, or to a Ray that is started on this machine for the run."""

import contextlib
import logging
import math
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import ray
from ray.exceptions import RayError

from stalegrad._internal.errors import ArgumentError, StalegradError
from stalegrad.engines.base import Job
from stalegrad.engines.ray.engine import Ray
from stalegrad.engines.ray.packing import in_a_line
from stalegrad.engines.ray.security import (
    address_parts,
    is_loopback,
    make_token,
    refuse_open_cluster,
    refuse_tokenless_connection,
)
from stalegrad.engines.team import available_cores

_LONGEST_BASE = 28
"""Bytes in the name of the folder for temporary files."""


@contextlib.contextmanager
def connected(engine: Ray, job: Job) -> Iterator[None]:
    """A connection to the cluster that the engine names. What is started here ends here; what was there stays."""
    if ray.is_initialized():
        there = ray.get_runtime_context().gcs_address
        if engine.address not in (None, "auto", there):
            problem = f"is not the cluster that this process is connected to ({there})"
            raise ArgumentError("address", engine.address, problem, "Call ray.shutdown() first, or leave it out.")
        refuse_open_cluster(there, engine.insecure)
        yield
        return
    address = engine.address or os.environ.get("RAY_ADDRESS")
    with contextlib.ExitStack() as stack:
        if address is None:
            folder = _session_folder()
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            make_token()
            with on_loopback():
                _initialise(stack, address="local", _temp_dir=folder, **_room(engine, job))
        else:
            alone = address != "auto" and _reached_by_loopback_alone(address, engine)
            try:
                with on_loopback() if alone else contextlib.nullcontext():
                    _initialise(stack, address=address)
            except (ConnectionError, RuntimeError, RayError) as error:
                remedy = "Give the address that ray start has printed, and its token."
                raise ArgumentError(
                    "address", address, f"cannot be connected to ({in_a_line(error)})", remedy
                ) from error
            refuse_open_cluster(ray.get_runtime_context().gcs_address, engine.insecure)
        yield


def _initialise(stack: contextlib.ExitStack, **settings: Any) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    stack.callback(ray.shutdown)
    ray.init(**settings, logging_level=logging.ERROR, log_to_driver=False)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)  # Ray has put its own in its place


def _session_folder() -> str:
    """A new folder for a Ray of this run's own, with a name so short that its sockets can have theirs.

    The system allows them 107 bytes; Ray appends ``/session_<date>_<time>_<pid>/sockets/plasma_store``, up to 66.
    """
    for base in dict.fromkeys((tempfile.gettempdir(), "/tmp")):
        if len(os.fsencode(os.path.realpath(base))) <= _LONGEST_BASE:
            with contextlib.suppress(OSError):
                return tempfile.mkdtemp(prefix="sg-", dir=base)
    given = os.path.realpath(tempfile.gettempdir())
    raise StalegradError(
        f"Ray needs a folder for temporary files whose name has at most {_LONGEST_BASE} bytes, because the system "
        f"limits the names of sockets; {given} has {len(os.fsencode(given))}, and /tmp cannot be written to. Set "
        "TMPDIR to a folder with a shorter name"
    )


def _room(engine: Ray, job: Job) -> dict[str, Any]:
    """A Ray on this machine has room for all workers, however few cores there are."""
    workers = job.settings.servers * job.settings.workers
    amounts = {name: amount * workers for name, amount in engine.resources.items()}
    for name, amount in engine.server_resources.items():
        amounts[name] = amounts.get(name, 0.0) + amount * job.settings.servers
    cpus = max(available_cores(), math.ceil(workers * engine.cpus_per_worker))
    return {"num_cpus": cpus, "resources": amounts or None, "include_dashboard": False}


@contextlib.contextmanager
def on_loopback() -> Iterator[None]:
    """Have Ray mean 127.0.0.1 by that, and where it starts, listen there alone.

    There is no public way to this: Ray takes the address of the machine's network card in its place, unless it believes
    that it is on a system where it knows no clusters.
    """
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _reached_by_loopback_alone(address: str, engine: Ray) -> bool:
    """Refuse what must not or cannot be reached; whether what can be is reached through the loopback alone.

    Ray itself would try for ten minutes.
    """
    if "://" in address:
        remedy = "Run the program on a node of the cluster, such as by ray job submit, with address='auto'."
        raise ArgumentError("address", address, "is an address of Ray's client, which is not supported", remedy)
    refuse_tokenless_connection(address, engine.insecure)
    host, port = address_parts(address)
    if not _answers(host, port, engine.timeout):
        raise ArgumentError("address", address, "does not answer", "Give the address that ray start has printed.")
    return is_loopback(address) and not _answers(ray.util.get_node_ip_address(), port, 1.0)


def _answers(host: str, port: int, timeout: float) -> bool:
    try:
        socket.create_connection((host, port), timeout).close()
    except OSError:
        return False
    return True
