"""Can workers be reached in a way of my own?
==========================================

Workers behind TCP connections, in about a hundred lines: an engine is a transport. ``python examples/own_engine.py``
"""

# %%
# The server's end is a ``Link``: start a worker, send it an assignment, receive what arrives. The worker's end is a
# ``WorkerLink``: receive work, deliver the gradient, report a failure. Everything else (who gets which minibatch,
# staleness, replacing workers that fail, traces, stores) is stalegrad's: ``run_servers`` and ``run_worker`` run between
# the two ends. ``stalegrad.testing.check_engine`` checks that all promises are kept.
#
# Here workers are threads, to keep the example short; what they exchange goes through sockets, so they could be
# anywhere.

import contextlib
import queue
import socket
import struct
import threading
from dataclasses import dataclass

import numpy as np

import stalegrad as sg
from stalegrad.engines import (
    Arrival,
    Assignment,
    Delivery,
    Engine,
    Failure,
    FaultPolicy,
    Gradient,
    Job,
    Link,
    Outcome,
    Ready,
    Work,
    Worker,
    WorkerLink,
    run_servers,
    run_worker,
)

HEADER = struct.Struct("<qqqqq")  # kind, count, version, nanoseconds, bytes that follow
READY, WORK, DONE, FAILED = range(4)


@dataclass(frozen=True)
class Sockets(Engine):
    """Servers and workers that exchange points and gradients over TCP.

    Args:
        restarts: how often in a row a worker may fail before it is given up.
    """

    restarts: int = 3

    def run(self, job: Job) -> Outcome:
        """Run the job, with a link of sockets for each server."""
        return run_servers(job, lambda server: SocketLink(job, server), FaultPolicy(restarts=self.restarts))


class SocketLink(Link):
    """A server's end: one connection a worker, and a thread that reads it."""

    def __init__(self, job: Job, server: int) -> None:
        self._job, self._server = job, server
        self._arrivals: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
        self._connections: dict[int, socket.socket] = {}

    def start(self, worker: int, incarnation: int) -> None:
        """Start a worker that connects to a port of the loopback, and read what it sends."""
        with socket.create_server(("127.0.0.1", 0)) as port:
            address = port.getsockname()
            threading.Thread(target=serve_worker, args=(self._job, self._server, worker, address), daemon=True).start()
            connection = self._connections[worker] = port.accept()[0]
        threading.Thread(target=self._read, args=(connection, worker, incarnation), daemon=True).start()

    def send(self, assignment: Assignment, point: np.ndarray) -> None:
        """Send a worker its assignment, with the point behind it."""
        worker, count, version = assignment
        send(self._connections[worker], WORK, count, version, 0, point.tobytes())

    def receive(self, timeout: float) -> Arrival | None:
        """The next arrival from any worker."""
        try:
            return self._arrivals.get(timeout=timeout)
        except queue.Empty:
            return None

    def discard(self, worker: int, kind: str) -> None:
        """Close the connection, which ends the worker."""
        connection = self._connections.pop(worker)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # wakes those that read it, at both ends
        connection.close()

    def close(self) -> None:
        """Close all connections, which ends all workers."""
        for worker in list(self._connections):
            self.discard(worker, "closed")

    def _read(self, connection: socket.socket, worker: int, incarnation: int) -> None:
        """Turn what a worker sends into arrivals, until its connection is closed."""
        model = self._job.potential
        while (message := receive(connection)) is not None:
            kind, count, version, nanoseconds, content = message
            if kind == READY:
                self._arrivals.put(Ready(worker, incarnation))
            elif kind == DONE:
                values = np.frombuffer(content, model.dtype).reshape(1, model.size)
                gradient = Gradient(worker, count, version, values)
                self._arrivals.put(Delivery(worker, incarnation, nanoseconds * 1e-9, gradient))
            else:
                self._arrivals.put(Failure(worker, incarnation, "raised", content.decode()))
        self._arrivals.put(Failure(worker, incarnation, "died", "its connection was closed"))


class SocketWorker(WorkerLink):
    """A worker's end of the connection."""

    def __init__(self, connection: socket.socket, worker: Worker) -> None:
        model = worker.potential
        self._connection, self._worker, self._dtype = connection, worker, model.dtype
        self._point, self._gradient = np.empty((2, 1, model.size), model.dtype)
        self._asked = 0, 0  # count and version
        send(connection, READY)

    def receive(self) -> Work | None:
        """Wait for work; None when the connection is closed."""
        message = receive(self._connection)
        if message is None:
            return None
        _, count, version, _, content = message
        self._asked = count, version
        self._point[:] = np.frombuffer(content, self._dtype)
        return Work(self._worker, count, self._point, self._gradient)

    def deliver(self, nanoseconds: int) -> None:
        """Send the gradient."""
        send(self._connection, DONE, *self._asked, nanoseconds, self._gradient.tobytes())

    def fail(self, details: str) -> None:
        """Send the traceback; the server closes the connection then."""
        send(self._connection, FAILED, *self._asked, 0, details.encode())


def serve_worker(job: Job, server: int, number: int, address: tuple[str, int]) -> None:
    """Run a worker: connect, and compute until the connection is closed."""
    with socket.create_connection(address) as connection:
        run_worker(SocketWorker(connection, Worker(job.potential, job.settings.seed, server, number)))


def send(connection: socket.socket, kind: int, count: int = 0, version: int = 0, nanoseconds: int = 0,
         content: bytes = b"") -> None:  # fmt: skip
    """Send a message, unless the connection has been closed in the meantime."""
    with contextlib.suppress(OSError):  # the thread that reads the other direction notices
        connection.sendall(HEADER.pack(kind, count, version, nanoseconds, len(content)) + content)


def receive(connection: socket.socket) -> tuple[int, int, int, int, bytes] | None:
    """The next message, or None if the connection was closed."""
    header = receive_bytes(connection, HEADER.size)
    if header is None:
        return None
    *numbers, length = HEADER.unpack(header)
    content = receive_bytes(connection, length)
    return None if content is None else (*numbers, content)


def receive_bytes(connection: socket.socket, count: int) -> bytes | None:
    """So many bytes, or None if the connection was closed before."""
    content = bytearray()
    while len(content) < count:
        try:
            part = connection.recv(count - len(content))
        except OSError:
            part = b""
        if not part:
            return None
        content += part
    return bytes(content)


# %%
# A run over sockets, and its replay without any.

if __name__ == "__main__":
    data = np.random.default_rng(1).normal(3.0, 1.0, (500, 2))
    model = sg.potentials.GaussianMean(data, batch_size=100)
    kernel = sg.SGLD(step_size=4e-5)
    run = sg.sample(model, kernel, steps=10_000, burn_in=500, workers=3, engine=Sockets(), progress=False)
    again = sg.replay(run.trace, model, kernel)
    print(f"mean {run.draws.mean(axis=(0, 1)).round(2)}, of the data {data.mean(axis=0).round(2)}")
    print(f"replayed bit for bit: {np.array_equal(again.draws, run.draws)}")

    import matplotlib.pyplot as plt

    chain = run.trace.chains[0]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), constrained_layout=True)
    for worker in range(3):
        rows = np.flatnonzero(chain.worker[:150] == worker)
        left.scatter(rows, np.full(len(rows), worker), c=chain.staleness[rows], cmap="viridis", vmin=0, vmax=6, s=14)
    left.set(yticks=range(3), ylabel="worker", xlabel="gradient", title="whose gradient came when, and how old it was")
    left.set_ylim(-0.6, 2.6)
    mean, variance = model.posterior()
    angle = np.linspace(0, 2 * np.pi, 100)
    right.plot(*run.draws[0, ::5].T, ".", ms=2, alpha=0.4)
    for deviations in (1, 2):
        circle = mean[:, None] + deviations * np.sqrt(variance)[:, None] * np.stack([np.cos(angle), np.sin(angle)])
        right.plot(*circle, "k", lw=1)
    right.set(title="draws, and one and two deviations of the posterior", xlabel="θ₀", ylabel="θ₁")
    plt.show()
