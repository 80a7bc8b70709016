"""The machines that are not there."""

from dataclasses import dataclass

from stalegrad.engines.simulation import Network
from stalegrad.planning.calibration import Calibration


@dataclass(frozen=True)
class Cluster:
    """A core for every worker and for every server, and a network between them.

    Args:
        latency: seconds that a message travels.
        bandwidth: bytes a second of a server's link, each way.

    >>> Cluster(latency=1e-4).bandwidth
    1250000000.0
    """

    latency: float = 5e-5
    bandwidth: float = 1.25e9

    def __post_init__(self) -> None:
        Network(self.latency, self.bandwidth)  # refuses what cannot be

    def network(self, calibration: Calibration) -> Network:
        """The link of a server: what an exchange takes on one machine, and on top of it what the wire takes."""
        latency, messages = self.latency + calibration.exchange / 2, calibration.wire_bytes
        return Network(latency, self.bandwidth, *messages)

    def overhead(self, calibration: Calibration) -> float:
        """Seconds of a lone worker's round trip that are not its gradient."""
        network = self.network(calibration)
        return 2 * network.latency + network.transfer + network.gradient_transfer + calibration.alone.served
