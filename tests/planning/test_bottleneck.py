"""What holds a cluster up, by name."""

import re

import pytest

from stalegrad.engines.simulation import Constant, Network, simulate
from stalegrad.planning import scaling

LINK = Network(latency=1e-5, bandwidth=1e9, message_bytes=1e6)  # a message occupies it for 1 ms


def predicted(workers, *, update=1e-5, network=LINK, gradient=0.01, **bound):
    return scaling.predict(
        [1, workers], law=lambda count: Constant(gradient), steps=2000, network=network, update=update, **bound
    )


@pytest.mark.parametrize(
    ("settings", "name", "words"),
    [
        ({"workers": 4}, "gradients", "Up to 4 workers gradients take the time, 10.0 ms each: more workers would help"),
        ({"workers": 64}, "link", "From 64 workers on the server's link is full.*1.0 ms.*1,000 gradients a second"),
        ({"workers": 64, "update": 0.002}, "server", "the server is busy: an update takes 2.0 ms.*500 a second"),
        ({"workers": 16, "max_staleness": 1, "policy": "wait", "network": None}, "bound", "held most of the time"),
        ({"workers": 16, "max_staleness": 2, "network": None, "update": 1e-4}, "bound", "gradients that are dropped"),
        ({"workers": 2, "network": Network(latency=0.1)}, "latency", "messages take longer than gradients"),
    ],
)
def test_it_is_named_in_a_column_and_in_a_sentence(settings, name, words):
    rows = predicted(**settings)
    assert rows[-1].bottleneck == name
    network = settings.get("network", LINK)
    sentence = scaling.in_a_sentence(
        rows, transfer=network.transfer if network else 0.0, update=settings.get("update", 1e-5), gradient=0.01
    )
    assert re.search(words, sentence), sentence


def test_a_full_link_is_no_busy_server():
    """The server has room when the link has none: what was called 72 % busy is a link that is full."""
    (_, row) = predicted(64, update=7.2e-4)
    assert row.link_busy == pytest.approx(1.0, abs=0.01)
    assert row.server_busy == pytest.approx(0.72, abs=0.01)
    assert row.bottleneck == "link"


def test_latency_first_and_then_a_full_link_are_both_said():
    """A message occupies the link for 1 ms, a gradient takes 0.2 ms: few workers wait, many queue."""
    rows = predicted(64, gradient=2e-4, network=Network(latency=1e-3, bandwidth=1e9, message_bytes=1e6))
    assert [row.bottleneck for row in rows] == ["latency", "link"]
    sentence = scaling.in_a_sentence(rows, transfer=1e-3, update=1e-5, gradient=2e-4)
    assert re.search(r"From 1 worker on messages take longer.*From 64 workers on the server's link is full", sentence)


def test_many_workers_under_a_tight_bound_take_no_more_gradients_than_ten_an_update(monkeypatch):
    """All but one of 256 gradients are dropped: as many updates as without a bound would take 256 times as long."""
    arrived = []

    def watched(**settings):
        trace = simulate(**settings)
        arrived.append(len(trace.chains[0]))
        return trace

    monkeypatch.setattr(scaling, "simulate", watched)
    (_, row) = predicted(256, network=None, update=0.0, max_staleness=0)
    assert arrived == [2000, 2000, 10 * 20 * 256]
    assert row.updates_per_second == pytest.approx(100.0)  # one of those that arrive at once, every 10 ms
    assert row.dropped == pytest.approx(255 / 256)
    assert row.bottleneck == "bound"
