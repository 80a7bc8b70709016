"""Hostile networks: a plan that is a function of addresses, wires that keep to it, and checksums that notice damage."""

from collections import Counter

import numpy as np
import pytest
from scipy import stats

import stalegrad as sg
from stalegrad.engines.checksum import checksum
from stalegrad.engines.hostile_network import Fate, HostileWire, Wire
from stalegrad.testing import HostileNetwork

WIRE = Wire(0, 1, 0)
CONTENT = bytes(range(200))


def wire_of(*fates):
    """A wire on which messages suffer these fates, one after the other."""

    class Planned(HostileNetwork):
        def fate(self, wire, number):
            return fates[number]

    return HostileWire(Planned(seconds=1.0), WIRE)


def through(wire, *messages, now=0.0):
    for message in messages:
        wire.put(message, now)
    return taken(wire, now)


def taken(wire, now):
    return list(iter(lambda: wire.take(now), None))


class TestPlan:
    def test_fates_have_their_shares_and_depend_on_nothing_but_their_address(self):
        """False alarms: one in a million."""
        network = HostileNetwork(3, 0.1, 0.05, 0.1, 0.15, 0.02, 0.08)
        fates = [network.fate(WIRE, number) for number in range(20_000)]
        counted = Counter(fates)
        shares = {Fate.DROP: 0.1, Fate.DELAY: 0.05, Fate.DUPLICATE: 0.1, Fate.REORDER: 0.15, Fate.TRUNCATE: 0.02}
        shares |= {Fate.FLIP: 0.08, Fate.PASS: 0.5}
        observed = [counted[fate] for fate in shares]
        assert stats.chisquare(observed, [20_000 * share for share in shares.values()]).pvalue > 1e-6
        same = HostileNetwork(3, 0.1, 0.05, 0.1, 0.15, 0.02, 0.08)
        assert [same.fate(WIRE, number) for number in (7, 3)] == [fates[7], fates[3]]
        for other in (WIRE._replace(server=1), WIRE._replace(worker=0), WIRE._replace(direction=1)):
            assert [network.fate(other, number) for number in range(100)] != fates[:100]
        assert [HostileNetwork.evenly(0.2, 4).fate(WIRE, n) for n in range(100)] != [
            HostileNetwork.evenly(0.2, 5).fate(WIRE, n) for n in range(100)
        ]

    @pytest.mark.parametrize("shares", [{"drop": -0.1}, {"drop": 0.6, "flip": 0.5}, {"seed": -1}, {"seconds": -1.0}])
    def test_shares_are_checked(self, shares):
        with pytest.raises(sg.ArgumentError):
            HostileNetwork(**shares)

    def test_evenly_damages_as_many_as_it_drops(self):
        network = HostileNetwork.evenly(0.1, 7)
        assert (network.drop, network.duplicate, network.reorder, network.truncate + network.flip) == (0.1,) * 4
        assert HostileNetwork(**network.as_table()) == network


class TestWire:
    def test_what_passes_arrives_in_order(self):
        wire = wire_of(Fate.PASS, Fate.PASS)
        assert through(wire, b"a", b"b") == [b"a", b"b"]
        assert wire.next_due(0.0) is None

    def test_what_is_dropped_never_arrives(self):
        assert through(wire_of(Fate.DROP, Fate.PASS), b"a", b"b") == [b"b"]

    def test_what_is_repeated_arrives_twice(self):
        assert through(wire_of(Fate.DUPLICATE), b"a") == [b"a", b"a"]

    def test_what_is_reordered_arrives_behind_the_next(self):
        wire = wire_of(Fate.REORDER, Fate.PASS)
        assert through(wire, b"a") == []
        assert through(wire, b"b", now=1.0) == [b"b", b"a"]
        assert through(wire_of(Fate.REORDER, Fate.DROP), b"a", b"b") == [b"a"]

    def test_what_is_delayed_arrives_in_its_time(self):
        wire = wire_of(Fate.DELAY, Fate.PASS)
        assert through(wire, b"a", b"b") == [b"b"]
        wait = wire.next_due(0.0)
        assert 0 < wait < 1
        assert taken(wire, 0.99 * wait) == []
        assert taken(wire, wait) == [b"a"]

    @pytest.mark.parametrize("number", range(20))
    def test_what_is_damaged_is_shorter_or_has_other_bits(self, number):
        network = HostileNetwork(seed=number)
        truncated = network.truncated(CONTENT, WIRE, number)
        assert len(truncated) < len(CONTENT)
        assert CONTENT.startswith(truncated)
        flipped = network.flipped(CONTENT, WIRE, number)
        bits = sum((a ^ b).bit_count() for a, b in zip(flipped, CONTENT, strict=True))
        assert 1 <= bits <= 3
        (short,), (other,) = through(wire_of(Fate.TRUNCATE), CONTENT), through(wire_of(Fate.FLIP), CONTENT)
        assert len(short) < len(CONTENT)
        assert other != CONTENT

    def test_frames_stay_with_their_messages(self):
        wire = wire_of(Fate.REORDER, Fate.PASS)
        wire.put(b"a", 0.0, "frame of a")
        wire.put(b"b", 0.0, "frame of b")
        assert [wire.take_framed(0.0), wire.take_framed(0.0)] == [(b"b", "frame of b"), (b"a", "frame of a")]
        assert wire.fates[Fate.REORDER] == wire.fates[Fate.PASS] == 1


class TestChecksum:
    @pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63, 64, 65, 200])
    def test_every_flipped_bit_and_every_cut_is_noticed(self, size):
        content = np.frombuffer(CONTENT, np.uint8)[:size].copy()
        seen = {checksum(content)}
        for bit in range(8 * size):
            content[bit // 8] ^= 1 << bit % 8
            seen.add(checksum(content))
            content[bit // 8] ^= 1 << bit % 8
        seen |= {checksum(content[:length]) for length in range(size)}
        assert len(seen) == 1 + 8 * size + size

    def test_two_signs_that_change_in_the_same_column_are_noticed(self):
        """A sum, or a product without shifts, would lose the highest bits of two words."""
        values = np.ones(64)
        before = checksum(values.view(np.uint8))
        for i in range(8, 64):
            values[[i - 8, i]] *= -1
            assert checksum(values.view(np.uint8)) != before
            values[[i - 8, i]] *= -1
        assert checksum(values.view(np.uint8)) == before

    def test_it_depends_on_what_comes_before(self):
        content = np.frombuffer(CONTENT, np.uint8)
        assert checksum(content, 1) != checksum(content, 2) != checksum(content)
