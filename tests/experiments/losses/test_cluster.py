"""The paper's cluster in simulated time."""

from dataclasses import replace

import pytest

from stalegrad.experiments.losses import tasks
from stalegrad.experiments.losses.cluster import cluster_rate
from stalegrad.experiments.losses.layouts import Layout


def test_servers_share_cores_and_links_beyond_what_there_is():
    machine = replace(tasks.TASKS["mnist"].machine, variation=0.0)
    alone = cluster_rate(machine, Layout(1, 2), 1000)
    assert cluster_rate(machine, Layout(5, 2), 1000) == alone
    crowded = cluster_rate(machine, Layout(7, 6), 1000) / cluster_rate(machine, Layout(1, 6), 1000)
    assert crowded == pytest.approx(40 / 49, rel=0.01)
