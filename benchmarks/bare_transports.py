"""What engines are measured against: a point goes down, a gradient comes up, and nothing is recorded.

Each function answers as many gradients as it can for some seconds and returns how many those were a second. There is no
version, no staleness, no trace, no minibatch, no check; the server copies its point to the worker that has answered
and, if asked to, makes the same update as the engine does.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np

import stalegrad as sg
from burning import Burning
from stalegrad.engines import message as m
from stalegrad.engines.processes.shared import Slots, WakeUp, anonymous_file
from stalegrad.engines.waiting import AdaptiveWait, PollingSleep
from stalegrad.protocol.chain import Chain

_INDICES = np.zeros((1, 1), np.int64)


@dataclass(frozen=True)
class Load:
    """What is to be exchanged.

    Args:
        parameters: n, of float32.
        workers: W.
        milliseconds: CPU time of a gradient.
        updates: whether the server updates its chain.
        duration: seconds to measure for.
    """

    parameters: int
    workers: int
    milliseconds: float
    updates: bool
    duration: float

    def gradient(self) -> Callable[[Any, Any], None]:
        """The worker's work: (point, gradient to be filled), both (1, n)."""
        model = Burning(self.parameters, self.milliseconds / 1e3)
        return lambda point, out: model.gradients(point, _INDICES, out)

    def server(self) -> tuple[Any, Callable[[Any], object]]:
        """The server's point, (1, n), and what it does with a gradient."""
        chain = Chain(sg.SGLD(step_size=1e-6), np.zeros((1, self.parameters), np.float32), 0, 0)
        chain.advance(np.zeros((1, self.parameters), np.float32))  # compiles
        return chain.point, chain.advance if self.updates else lambda gradient: None

    def vectors(self, count: int) -> list[Any]:
        """So many vectors (1, n)."""
        return [np.zeros((1, self.parameters), np.float32) for _ in range(count)]


def threads(load: Load) -> float:
    """Queues between threads of this process."""
    arrivals: SimpleQueue[int] = SimpleQueue()
    inboxes: list[SimpleQueue[bool]] = [SimpleQueue() for _ in range(load.workers)]
    points, gradients = load.vectors(load.workers), load.vectors(load.workers)
    point, update = load.server()

    def work(worker: int) -> None:
        gradient = load.gradient()
        while inboxes[worker].get():
            gradient(points[worker], gradients[worker])
            arrivals.put(worker)

    running = [threading.Thread(target=work, args=(worker,)) for worker in range(load.workers)]
    for thread, inbox in zip(running, inboxes, strict=True):
        thread.start()
        inbox.put(True)
    count, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < load.duration:
        worker = arrivals.get()
        update(gradients[worker])
        np.copyto(points[worker], point)
        inboxes[worker].put(True)
        count += 1
    for thread, inbox in zip(running, inboxes, strict=True):
        inbox.put(False)
        thread.join()
    return count / passed


def shared_memory(load: Load) -> float:
    """Forked processes with the processes engine's memory and wake-ups."""
    memory = anonymous_file(Slots.bytes(load.workers, load.parameters, np.float32))
    slots = Slots(memory, load.workers, load.parameters, np.float32)
    server, wake_ups = WakeUp.make(), [WakeUp.make() for _ in range(load.workers)]
    children = [os.fork() or _child(load, slots, worker, wake_ups[worker], server) for worker in range(load.workers)]
    point, update = load.server()
    for header, wake_up in zip(slots.headers, wake_ups, strict=True):
        header[m.KIND] = m.WORK
        wake_up.signal()
    count, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < load.duration:
        server.wait()
        for worker, header in enumerate(slots.headers):
            if header[m.KIND] == m.DONE:
                header[m.KIND] = m.WORK
                update(slots.gradients[worker])
                np.copyto(slots.points[worker], point)
                wake_ups[worker].signal()
                count += 1
    for header, wake_up in zip(slots.headers, wake_ups, strict=True):
        while header[m.KIND] == m.WORK:
            time.sleep(0.001)
        header[m.KIND] = m.STOP
        wake_up.signal()
    for pid in children:
        os.waitpid(pid, 0)
    for wake_up in (server, *wake_ups):
        wake_up.close()
    os.close(memory)
    return count / passed


def _child(load: Load, slots: Slots, worker: int, wake_up: WakeUp, server: WakeUp) -> int:
    """The life of a forked process; it does not return."""
    header, gradient = slots.headers[worker], load.gradient()
    while True:
        wake_up.wait()
        if header[m.KIND] == m.STOP:
            os._exit(0)
        gradient(slots.points[worker], slots.gradients[worker])
        header[m.KIND] = m.DONE
        server.signal()


def mpi(load: Load, spinning: bool) -> float | None:
    """mpi4py's persistent requests between the ranks that call this, 1 + W of them; the rate on rank 0.

    Args:
        load: what to exchange.
        spinning: wait inside MPI, which burns a core a rank; else look and sleep as the engine does.
    """
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    assert comm.size == load.workers + 1, f"{comm.size} ranks for {load.workers} workers"

    def waiting(requests: list[Any]) -> Callable[[], list[int]]:
        if spinning:
            return lambda: [MPI.Request.Waitany(requests)]
        found: list[int] = []

        def look() -> bool:
            found.extend(MPI.Request.Testsome(requests) or ())
            return bool(found)

        adaptive = AdaptiveWait(look, PollingSleep(look))

        def wait() -> list[int]:
            adaptive.wait()
            done = found.copy()
            found.clear()
            return done

        return wait

    if comm.rank:
        (point, answer), gradient, order = load.vectors(2), load.gradient(), np.zeros(1)
        coming, going = comm.Recv_init(point, 0), comm.Send_init(answer, 0)
        stop = comm.Irecv(order, 0, 1)
        wait = waiting([coming])
        coming.Start()
        while True:
            wait()
            if stop.Test():
                break
            going.Wait()
            gradient(point, answer)
            coming.Start()
            going.Start()
        going.Wait()
        coming.Free()
        going.Free()
        return None
    points, gradients = load.vectors(load.workers), load.vectors(load.workers)
    going_to = [comm.Send_init(vector, worker + 1) for worker, vector in enumerate(points)]
    coming_from = [comm.Recv_init(vector, worker + 1) for worker, vector in enumerate(gradients)]
    point, update = load.server()
    wait = waiting(coming_from)
    for coming, going in zip(coming_from, going_to, strict=True):
        coming.Start()
        going.Start()
    count, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < load.duration:
        for worker in wait():
            update(gradients[worker])
            going_to[worker].Wait()
            np.copyto(points[worker], point)
            coming_from[worker].Start()
            going_to[worker].Start()
            count += 1
    for worker, (coming, going) in enumerate(zip(coming_from, going_to, strict=True)):
        coming.Wait()
        going.Wait()
        comm.Send(np.ones(1), worker + 1, 1)
        going.Start()  # wakes it, so that it looks for the order
        going.Wait()
        coming.Free()
        going.Free()
    return count / passed


class _Clerk:
    """A Ray actor that takes gradients and gives points."""

    def __init__(self, load: Load) -> None:
        self._load, self._absent = load, set(range(load.workers))
        self._point, self._update = load.server()
        self._count, self._begun, self._ended = 0, 0.0, 0.0

    def exchange(self, worker: int, gradient: Any) -> Any:
        """The point for a gradient; None once the time is over. It counts from when everybody has been here."""
        now = time.perf_counter()
        if self._absent:
            self._absent.discard(worker)
            self._begun = now
        elif now - self._begun > self._load.duration:
            self._ended = self._ended or now
            return None
        else:
            self._count += 1
            if self._load.updates:
                self._update(gradient.copy())  # what Ray delivers is read-only, and compiled for what is not
        return self._point

    def rate(self) -> float:
        """Exchanges a second."""
        return self._count / (self._ended - self._begun)


def _call(clerk: Any, load: Load, worker: int) -> None:
    import ray

    (answer,), gradient = load.vectors(1), load.gradient()
    while (point := ray.get(clerk.exchange.remote(worker, answer))) is not None:
        gradient(point, answer)


def ray_actor(load: Load) -> float:
    """Tasks that call an actor, on the Ray that this process is connected to."""
    import ray

    clerk = ray.remote(_Clerk).options(num_cpus=0).remote(load)
    tasks = [ray.remote(_call).options(num_cpus=0).remote(clerk, load, worker) for worker in range(load.workers)]
    ray.get(tasks)
    rate: float = ray.get(clerk.rate.remote())
    ray.kill(clerk)
    return rate
