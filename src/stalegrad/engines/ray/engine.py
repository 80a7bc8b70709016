"""The Ray engine's settings. Ray itself is imported when a run starts."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stalegrad._internal.errors import ArgumentError, MissingExtra
from stalegrad._internal.validation import real_number, whole_number
from stalegrad.engines.base import Engine, Job, Outcome
from stalegrad.engines.hostile_network import HostileNetwork
from stalegrad.engines.lifecycle import FaultPolicy


@dataclass(frozen=True)
class Ray(Engine):
    """Real asynchrony on many machines.

    A worker whose process or node goes away is replaced, on another node if need be; one that finds no room waits until
    there is some, so a cluster that grows and shrinks by itself can do both. A server that is lost goes on, in a new
    process, from where it was when the run last received its state, a second or so before.

    Args:
        address: of the cluster, ``"host:port"``, or ``"auto"`` on one of its nodes. None takes the Ray that this
            process is connected to, else the cluster that the variable RAY_ADDRESS names, else starts Ray on this
            machine for this run.
        cpus_per_worker, gpus_per_worker, resources: what a worker occupies of its node.
        server_resources: what a server occupies of its node, nothing by default. With a resource of your own servers
            stay on nodes that have it, such as those that are not taken away.
        gradients_per_call: minibatches that a worker computes between two calls of its server. None lets each worker
            measure what a call and a gradient cost, and take several where the call costs more, up to 16 or 32 MB, and
            never more than the staleness bound allows; with k of them staleness is about kW in place of W.
        heartbeat: seconds between a worker's signs of life while it computes.
        timeout: seconds without one after which a worker, or a server, counts as lost. A gradient that keeps Python
            from switching threads for so long looks like a lost worker.
        patience: seconds after which a worker that lives but does not answer counts as hung; None waits for ever.
        restarts: how often in a row a worker, or a server, may fail before it is given up.
        hostile: a network that loses, repeats and damages calls by a plan, see
            :class:`stalegrad.testing.HostileNetwork`; for tests.
        insecure: also use a cluster in the network that lets in everybody, see ``docs/cluster.md``.

    >>> Ray(address="auto", cpus_per_worker=2).cpus_per_worker
    2
    """

    address: str | None = None
    cpus_per_worker: float = 1.0
    gpus_per_worker: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)
    server_resources: Mapping[str, float] = field(default_factory=dict)
    gradients_per_call: int | None = None
    heartbeat: float = 2.0
    timeout: float = 30.0
    patience: float | None = None
    restarts: int = 3
    hostile: HostileNetwork | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if self.address is not None and (not isinstance(self.address, str) or not self.address):
            raise ArgumentError("address", self.address, "is not an address", 'Give "host:port", "auto" or None.')
        real_number("cpus_per_worker", self.cpus_per_worker, least=0)
        real_number("gpus_per_worker", self.gpus_per_worker, least=0)
        for name in ("resources", "server_resources"):
            amounts = getattr(self, name)
            if not isinstance(amounts, Mapping):
                remedy = 'Give a mapping from name to amount, such as {"accelerator": 1}.'
                raise ArgumentError(name, amounts, "is not a mapping", remedy)
            for amount in amounts.values():
                real_number(name, amount, least=0)
        if self.gradients_per_call is not None:
            whole_number("gradients_per_call", self.gradients_per_call, least=1)
        real_number("heartbeat", self.heartbeat, above=0)
        real_number("timeout", self.timeout, above=0)
        if self.timeout < 2 * self.heartbeat:
            remedy = f"Give at least two heartbeats, {2 * self.heartbeat:g} s."
            raise ArgumentError("timeout", self.timeout, "leaves no room for a late heartbeat", remedy)
        FaultPolicy(self.patience, self.restarts)  # refuses what cannot be used

    def over(self, network: HostileNetwork) -> "Ray":
        """The same engine over a hostile network."""
        return replace(self, hostile=network)

    def run(self, job: Job) -> Outcome:
        """Run the job on a cluster, or on a Ray that is started for it."""
        try:
            supervisor = importlib.import_module("stalegrad.engines.ray.supervisor")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "ray":
                raise
            raise MissingExtra("engine='ray'", "ray") from error
        outcome: Outcome = supervisor.run(self, job)
        return outcome
